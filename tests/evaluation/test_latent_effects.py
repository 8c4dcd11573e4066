"""What latent variables do: against models whose weights say it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from helpers.small_models import bits, first_linear
from jsa import BeliefNetwork, LatentSpace, Layer, StructuredPrediction
from jsa.distributions import Factorized
from jsa.errors import UsageError
from jsa.evaluation.latent_effects import Effects, describe
from jsa.evaluation.rows import TensorRows

ROWS = TensorRows(bits(rows=40, width=4).x.float())


def network(latent: LatentSpace, observed: Layer | None = None) -> BeliefNetwork:
    torch.manual_seed(3)
    return BeliefNetwork(observed or Layer("bernoulli", 4), latent)


def test_a_bit_moves_what_its_weights_say() -> None:
    model = network(LatentSpace.of(Layer("bernoulli", 2)))
    linear, inference = first_linear(model.generative), first_linear(model.inference)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 0.0], [-2.0, 0.0], [0.0, 0.0]]))
        linear.bias.copy_(torch.tensor([-1.0, 0.5, 1.0, 0.0]))
        inference.weight.zero_()
        inference.bias.copy_(torch.tensor([-1.0, 2.0]))
    found = describe(model, ROWS)
    torch.testing.assert_close(found.shares[:, 1], torch.tensor([-1.0, 2.0]).sigmoid())
    torch.testing.assert_close(found.means[0, 0], torch.tensor([-1.0, 0.5, 1.0, 0.0]).sigmoid())
    torch.testing.assert_close(found.means[0, 1], torch.tensor([2.0, 0.5, -1.0, 0.0]).sigmoid())
    # The second bit does nothing, whatever the first one is.
    torch.testing.assert_close(found.means[1, 0], found.means[1, 1])
    share = torch.tensor(-1.0).sigmoid()
    steps = (found.means[0, 1] - found.means[0, 0]).square().sum()
    torch.testing.assert_close(found.explained, torch.stack([share * (1 - share) * steps, torch.tensor(0.0)]))


BITS, CLASSES = Layer("bernoulli", 3), Layer("categorical", 2, classes=3)


@pytest.mark.parametrize("layers", [(BITS,), (BITS, Layer("bernoulli", 2)), (CLASSES,)])
def test_the_others_stay_as_they_were_drawn(layers: tuple[Layer, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(LatentSpace(layers))
    given: list[Tensor] = []
    observation = model.observation

    def recorded(h: Tensor, context: Tensor | None) -> Factorized:
        given.append(h.clone())
        return observation(h, context)

    monkeypatch.setattr(model, "observation", recorded)
    found = describe(model, ROWS, seed=5)
    torch.manual_seed(5)
    drawn = model.posterior(ROWS.batch(torch.arange(40))).sample(())
    layer, width = layers[0], layers[0].width // layers[0].variables
    values = torch.eye(3) if layer.kind == "categorical" else torch.tensor([[0.0], [1.0]])
    for variable in range(layer.variables):
        for number, value in enumerate(values):
            expected = drawn.clone()
            expected[:, variable * width : (variable + 1) * width] = value
            assert torch.equal(given.pop(0), expected)
            torch.testing.assert_close(found.means[variable, number], observation(expected).mean.detach().mean(0))
    assert given == []
    torch.testing.assert_close(found.shares.sum(1), torch.ones(layer.variables))


def test_rows_in_parts_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(LatentSpace.of(Layer("bernoulli", 1)))
    whole = describe(model, ROWS)
    monkeypatch.setattr("jsa.evaluation.latent_effects.ROWS_AT_ONCE", 15)
    done: list[int] = []
    parts = describe(model, ROWS, progress=done.append)
    assert done == [15, 15, 10]
    # With one bit nothing is left to be drawn.
    torch.testing.assert_close(parts.means, whole.means)
    torch.testing.assert_close(parts.shares, whole.shares)


def test_a_conditional_model_is_given_its_context() -> None:
    torch.manual_seed(3)
    model = StructuredPrediction(Layer("bernoulli", 4), 2, LatentSpace.of(Layer("bernoulli", 1)), (5,))
    context = bits(rows=40, width=2, seed=1).x.float()
    found = describe(model, TensorRows(ROWS.batch(torch.arange(40)).x, context))
    for value in (0.0, 1.0):
        expected = model.observation(torch.full((40, 1), value), context).mean.detach().mean(0)
        torch.testing.assert_close(found.means[0, int(value)], expected)


def test_nothing_of_the_model_or_of_chance_is_moved() -> None:
    model = network(LatentSpace.of(Layer("bernoulli", 2))).train()
    torch.manual_seed(9)
    expected = torch.rand(1)
    torch.manual_seed(9)
    describe(model, ROWS)
    assert torch.equal(torch.rand(1), expected)
    assert model.training


def test_gaussian_variables_are_refused() -> None:
    with pytest.raises(UsageError, match="this model are Gaussian: encode rows instead"):
        describe(network(LatentSpace.of(Layer("gaussian", 2))), ROWS)


def test_what_explains_most_is_neither_rare_nor_idle() -> None:
    means = torch.tensor([[[0.1], [0.9]], [[0.1], [0.9]], [[0.5], [0.5]]])
    found = Effects(torch.tensor([[0.5, 0.5], [0.999, 0.001], [0.5, 0.5]]), means, rows=10)
    assert found.explained.argsort(descending=True).tolist() == [0, 1, 2]
    assert found.explained[0] == pytest.approx(0.16)
