"""The posteriors of the examples draw what they score, proven by enumeration at a smaller size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import pyro_posterior
import torch_distributions
from jsa import Batch, Bernoulli, Categorical, check_model
from jsa.errors import UsageError

IMAGES = Batch((torch.rand(4, 784, generator=torch.Generator().manual_seed(0)) < 0.3).float())


@pytest.fixture
def dependent(monkeypatch: pytest.MonkeyPatch) -> torch_distributions.Dependent:
    monkeypatch.setattr(torch_distributions, "BITS", 5)
    torch.manual_seed(0)
    model = torch_distributions.Dependent()
    torch.nn.init.normal_(model.weights, std=2)
    return model


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> pyro_posterior.KindsOfDigits:
    monkeypatch.setattr(pyro_posterior, "KINDS", 3)
    monkeypatch.setattr(pyro_posterior, "BITS", 4)
    torch.manual_seed(0)
    model = pyro_posterior.KindsOfDigits()
    for parameter in (model.prior_logits, model.inferred_bits_given_kind.weight):
        torch.nn.init.normal_(parameter, std=2)
    return model


def test_the_autoregressive_posterior_draws_what_it_scores(dependent: torch_distributions.Dependent) -> None:
    check_model(dependent, IMAGES)


def test_one_that_depends_on_later_bits_is_caught(
    dependent: torch_distributions.Dependent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: torch_distributions.Autoregressive, value: Tensor) -> Tensor:
        return Bernoulli(self.logits + value @ self.weights).log_prob(value)

    monkeypatch.setattr(torch_distributions.Autoregressive, "log_prob", wrong)
    with pytest.raises(UsageError):
        check_model(dependent, IMAGES)


def test_the_pyro_programs_draw_what_they_score(kinds: pyro_posterior.KindsOfDigits) -> None:
    check_model(kinds, IMAGES)


def test_a_pyro_program_that_forgets_the_kind_is_caught(
    kinds: pyro_posterior.KindsOfDigits, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = pyro_posterior.states

    def wrong(program: pyro_posterior.Program, batch: Batch, draws: int) -> Tensor:
        # The bits of another draw.
        drawn = right(program, batch, draws)
        return torch.cat([drawn[..., :3], drawn.roll(1, 0)[..., 3:]], dim=-1)

    monkeypatch.setattr(pyro_posterior, "states", wrong)
    with pytest.raises(UsageError):
        check_model(kinds, IMAGES)


def test_the_joint_of_the_pyro_program_is_that_of_its_distributions(kinds: pyro_posterior.KindsOfDigits) -> None:
    h = kinds.posterior(IMAGES).sample((6,))
    kind, bits = (h[..., where] for where in kinds.latent.slices)
    prior = Categorical(kinds.prior_logits[:3], classes=3).log_prob(kind)
    given_kind = Bernoulli(kinds.prior_logits[3:] + kinds.bits_given_kind(kind)).log_prob(bits)
    image = Bernoulli(kinds.image_logits(h)).log_prob(IMAGES.x)
    joint = kinds.log_joint(IMAGES, h)
    torch.testing.assert_close(joint, prior + given_kind + image)
    # What a forgotten factor would change.
    for factor in (prior, given_kind, image):
        assert not torch.allclose(joint, prior + given_kind + image - factor)
