"""The oracle of the library: gradients by enumeration, of rows with gaps and with latents that are known too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

from helpers.known_rows import KNOWN, with_known
from helpers.missing_rows import GAPS, with_gaps
from helpers.small_models import EXAMPLES, Example, by_row, enumerated, exact_gradients, gradients, largest_difference
from jsa import Enumeration, check_model

ROWS: dict[str, Callable[[], Example]] = {
    **EXAMPLES,
    **{f"{name}, gaps": partial(with_gaps, name) for name in GAPS},
    **{f"{name}, known": partial(with_known, name) for name in KNOWN},
}


@pytest.fixture(params=ROWS)
def example(request: pytest.FixtureRequest) -> Example:
    return ROWS[request.param]()


def test_it_is_exact(example: Example) -> None:
    # Row by row: what is known of one is not known of the others.
    model, batch = example.model, example.batch
    estimate = Enumeration()(model, batch)
    found = gradients(model, estimate.loss)
    assert largest_difference(found, by_row(exact_gradients, model, batch)) < 1e-12
    rows = torch.arange(len(batch)).split(1)
    log_likelihood = torch.stack([enumerated(model, batch.take(row)).log_likelihood[0] for row in rows]).mean()
    assert torch.allclose(estimate.objective, log_likelihood, atol=1e-12, rtol=0)
    # Another way to the same: the inference model has no part in log p(x).
    theta = {name: parameter for name, parameter in model.named_parameters() if "inference" not in name}
    expected = torch.autograd.grad(-log_likelihood, list(theta.values()))
    assert largest_difference(found, dict(zip(theta, expected, strict=True))) < 1e-12


def test_objective_and_weights_are_exact(example: Example) -> None:
    exact = enumerated(example.model, example.batch)
    estimate = Enumeration()(example.model, example.batch)
    assert torch.allclose(estimate.log_weights, exact.log_weights, atol=1e-12, rtol=0)
    assert not estimate.objective.requires_grad
    assert not estimate.log_weights.requires_grad


def test_the_check_of_a_model_takes_it(example: Example) -> None:
    check_model(example.model, example.batch)
