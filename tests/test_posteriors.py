"""Inference models: layers one after the other, and the adapter for torch.distributions."""

from __future__ import annotations

import pytest
import torch

from helpers.refusals import refuses
from helpers.significance import assert_frequencies
from helpers.small_models import Example, gradients_of, one_layer, state_numbers, torch_posterior, two_layers
from jsa import Bernoulli, Categorical, LatentSpace, Layer, LayeredPosterior, TorchPosterior
from jsa.errors import UsageError
from jsa.model_calls import BatchPosterior, posterior_of

SPACE = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 1, classes=3), Layer("bernoulli", 1))


def three_layers() -> LayeredPosterior:
    """Each layer depends on everything before it, in two rows."""
    generator = torch.Generator().manual_seed(5)
    to_class = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    to_bit = torch.randn(5, 1, generator=generator, dtype=torch.float64)
    first = Bernoulli(torch.tensor([[0.5, -1.0], [1.5, 0.2]], dtype=torch.float64))
    return LayeredPosterior(
        SPACE, first, [lambda above: Categorical(above @ to_class, classes=3), lambda above: Bernoulli(above @ to_bit)]
    )


def test_probabilities_of_three_layers_sum_to_one() -> None:
    states = SPACE.enumerate(torch.float64).unsqueeze(1).expand(-1, 2, -1)
    total = three_layers().log_prob(states).exp().sum(0)
    assert torch.allclose(total, torch.ones(2, dtype=torch.float64), atol=1e-12, rtol=0)


def test_draws_have_the_probabilities_which_sum_to_one(example: Example) -> None:
    exact = example.exact
    assert (exact.inference.sum(0) - 1).abs().max() < 1e-12
    draws = example.model.posterior(example.batch).sample((20_000,))
    numbers = state_numbers(example.model, draws)
    for row in range(len(example.batch)):
        assert_frequencies(numbers[:, row], exact.inference[:, row])


def test_a_layer_depends_on_all_layers_before_it() -> None:
    posterior = three_layers()
    uniforms = torch.rand(100, 2, SPACE.variables, dtype=torch.float64)
    h, log_prob = posterior.from_uniforms(uniforms)
    assert torch.allclose(log_prob, posterior.log_prob(h), atol=1e-12, rtol=0)
    first, second, third = (h[..., where] for where in SPACE.slices)
    assert torch.equal(first, posterior.first.from_uniforms(uniforms[..., :2]))
    assert torch.equal(second, posterior.conditional(1, first).from_uniforms(uniforms[..., 2:3]))
    assert torch.equal(third, posterior.conditional(2, h[..., :5]).from_uniforms(uniforms[..., 3:]))


def test_taking_rows_is_indexing() -> None:
    posterior = two_layers().layers
    rows = torch.tensor([2, 0, 2, 1])
    h = posterior.sample((6,))
    taken = posterior.take(rows)
    assert taken is not None
    assert torch.allclose(taken.log_prob(h[:, rows]), posterior.log_prob(h)[:, rows], atol=1e-12, rtol=0)
    assert taken.sample((3,)).shape == (3, 4, 4)


def test_layers_that_may_know_the_row_cannot_be_narrowed() -> None:
    posterior = three_layers()
    assert posterior.take(torch.tensor([0])) is None
    posterior.independent_of_x = True
    taken = posterior.take(torch.tensor([1]))
    assert taken is not None
    assert taken.first.batch_shape == (1,)


def test_draws_carry_no_gradient_and_probabilities_reach_every_layer() -> None:
    example = two_layers()
    posterior = example.model.posterior(example.batch)
    h = posterior.sample((5,))
    assert not h.requires_grad
    slopes = gradients_of(example.model, posterior.log_prob(h).sum(), "inference")
    assert all(slope.norm() > 0 for slope in slopes)


INDEPENDENT = r"wrap it in torch\.distributions\.Independent"
test_what_is_no_posterior_is_refused = refuses(
    (lambda: LayeredPosterior(SPACE, Bernoulli(torch.zeros(2, 2))), "3 layers need one conditional each, not 1"),
    (lambda: TorchPosterior(torch.distributions.Bernoulli(logits=torch.zeros(5, 3))), INDEPENDENT),
    (lambda: TorchPosterior(torch.distributions.OneHotCategorical(logits=torch.zeros(3))), INDEPENDENT),
    (lambda: TorchPosterior(torch.distributions.OneHotCategorical(logits=torch.zeros(5, 4, 3))), INDEPENDENT),
)


def test_torch_distributions_are_adapted() -> None:
    logits = torch.tensor([[0.5, -1.0], [1.5, 0.2]])
    posterior = TorchPosterior(torch.distributions.Independent(torch.distributions.Bernoulli(logits=logits), 1))
    h = posterior.sample((7,))
    assert h.shape == (7, 2, 2)
    assert torch.allclose(posterior.log_prob(h), Bernoulli(logits).log_prob(h))


def test_a_state_may_have_several_dimensions_in_torch() -> None:
    logits = torch.randn(5, 4, 3)
    each = torch.distributions.OneHotCategorical(logits=logits)
    posterior = TorchPosterior(torch.distributions.Independent(each, 1))
    h = posterior.sample((7,))
    assert h.shape == (7, 5, 12)
    assert torch.allclose(posterior.log_prob(h), Categorical(logits.flatten(1), classes=3).log_prob(h), atol=1e-5)


def test_draws_of_a_reparameterized_distribution_carry_no_gradient() -> None:
    mean = torch.zeros(2, 3, requires_grad=True)
    posterior = TorchPosterior(torch.distributions.Independent(torch.distributions.Normal(mean, 1.0), 1))
    assert not posterior.sample((4,)).requires_grad


def test_what_a_posterior_does_not_offer_is_made_up_for() -> None:
    ours, theirs = (posterior_of(example.model, example.batch) for example in (one_layer(), torch_posterior()))
    for posterior in (ours, theirs):
        h, log_prob = posterior.sample_with_log_prob((5,))
        assert not h.requires_grad
        assert torch.allclose(log_prob, posterior.log_prob(h), atol=1e-12, rtol=0)
        # Whatever the dimensions before the rows.
        assert torch.equal(posterior.log_prob(h[None]), posterior.log_prob(h)[None])
        assert torch.equal(posterior.log_prob(h[0]), posterior.log_prob(h)[0])
    rows = torch.tensor([1, 0, 1])
    taken = ours.take(rows)
    assert isinstance(taken, BatchPosterior)
    assert torch.allclose(taken.log_prob(h[:, rows]), ours.log_prob(h)[:, rows], atol=1e-12, rtol=0)
    assert theirs.take(rows) is None
    assert ours.draws_from_uniforms
    assert not theirs.draws_from_uniforms
    assert ours.layered("a method") is ours.own
    with pytest.raises(UsageError, match=r"a method needs the logits .* TorchPosterior does not: use vimco"):
        theirs.layered("a method")
    with pytest.raises(UsageError, match=r"TorchPosterior cannot score .* define known_log_prob\(h\)"):
        theirs.known_log_prob(h)
