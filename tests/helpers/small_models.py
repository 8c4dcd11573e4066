"""Models whose latent states can be counted, so that every expectation is known exactly.

They are the library's own classes in double precision, with random parameters that are large enough for every
gradient to be far from zero, and a nonlinear decoder.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from jsa import (
    Batch,
    BeliefNetwork,
    Bernoulli,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LayeredPosterior,
    Posterior,
    StructuredPrediction,
    Style,
    TorchPosterior,
)
from jsa.model_calls import posterior_of
from jsa.models.networks import Conditional
from jsa.relaxation import discrete

STYLE = Style(activation="tanh")
Model = TypeVar("Model", bound=torch.nn.Module)
Gradients = dict[str, Tensor]


@dataclass(frozen=True)
class Example:
    """A model with some different rows of data."""

    model: LatentVariableModel
    batch: Batch

    def to(self, dtype: torch.dtype) -> Example:
        """A copy in another precision."""
        context = None if self.batch.context is None else self.batch.context.to(dtype)
        batch = replace(self.batch, x=self.batch.x.to(dtype), context=context)
        return Example(copy.deepcopy(self.model).to(dtype), batch)

    @property
    def network(self) -> BeliefNetwork:
        """The model as the belief network that it is."""
        assert isinstance(self.model, BeliefNetwork)
        return self.model

    @property
    def layers(self) -> LayeredPosterior:
        """q(h | x) of the rows as the layers that it is made of."""
        return posterior_of(self.model, self.batch).layered("a test")

    @property
    def exact(self) -> Enumerated:
        """Every state with its probabilities, without gradient."""
        with torch.no_grad():
            return enumerated(self.model, self.batch)


class Wrapped(LatentVariableModel):
    """A model that is another one, but for what a subclass changes of it."""

    def __init__(self, model: LatentVariableModel) -> None:
        super().__init__()
        self.model, self.latent, self.relaxable = model, model.latent, model.relaxable

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.model.log_joint(batch, h)

    def posterior(self, batch: Batch) -> Posterior:
        return self.model.posterior(batch)


class TorchPosteriorModel(Wrapped):
    """A model as a user may write it, with a torch.distributions object as its inference model."""

    def __init__(self, model: BeliefNetwork) -> None:
        super().__init__(model)
        self.relaxable = False

    def logits(self, batch: Batch) -> Tensor:
        """Those of the inference model."""
        return logits_of(Example(self.model, batch).layers)

    def posterior(self, batch: Batch) -> Posterior:
        logits = self.logits(batch)
        return TorchPosterior(torch.distributions.Independent(torch.distributions.Bernoulli(logits=logits), 1))


class LayersThatKnowTheRow(LatentVariableModel):
    """Two layers, of which the second depends on the first and on x: what a user's function may close over."""

    relaxable = True

    def __init__(self) -> None:
        super().__init__()
        self.latent = LatentSpace.of(Layer("bernoulli", 2), Layer("bernoulli", 2))
        self.network = network(self.latent)
        self.inference_of_second = torch.nn.Linear(6, 2)

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.network.log_joint(batch, h)

    def posterior(self, batch: Batch) -> LayeredPosterior:
        def second(first: Tensor) -> Bernoulli:
            x = batch.x.expand(*first.shape[:-1], -1)
            return Bernoulli(self.inference_of_second(torch.cat([first, x], dim=-1)))

        first = self.network.posterior(batch.with_nothing_known()).first
        return LayeredPosterior(self.latent, first, [second], known=batch.known)


def network(latent: LatentSpace, observed: Layer | None = None, *, missing: bool = False) -> BeliefNetwork:
    """A nonlinear network, of four bits where nothing else is said."""
    return BeliefNetwork(observed or Layer("bernoulli", 4), latent, (5,), prior="learned", style=STYLE, missing=missing)


def one_layer(seed: int = 20, *, missing: bool = False) -> Example:
    """Three bits."""
    model = network(LatentSpace.of(Layer("bernoulli", 3)), missing=missing)
    return Example(randomize(model, seed), bits(rows=3, width=4))


def two_layers(seed: int = 247, *, missing: bool = False) -> Example:
    """Two bits above two bits."""
    latent = LatentSpace.of(Layer("bernoulli", 2), Layer("bernoulli", 2))
    return Example(randomize(network(latent, missing=missing), seed), bits(rows=3, width=4))


def categorical(seed: int = 13, *, missing: bool = False) -> Example:
    """Two variables of three classes, and observations of two variables of four classes."""
    latent = LatentSpace.of(Layer("categorical", 2, classes=3))
    model = network(latent, Layer("categorical", 2, classes=4), missing=missing)
    x = torch.eye(4, dtype=torch.float64)[torch.tensor([[0, 1], [3, 3], [2, 0]])].flatten(1)
    return Example(randomize(model, seed), Batch(x, torch.arange(3)))


def conditional(seed: int = 268, *, missing: bool = False) -> Example:
    """Three bits whose prior depends on a context."""
    latent = LatentSpace.of(Layer("bernoulli", 3))
    model = StructuredPrediction(Layer("bernoulli", 4), 2, latent, (5,), style=STYLE, missing=missing)
    context = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    return Example(randomize(model, seed), replace(bits(rows=3, width=4), context=context))


def torch_posterior(seed: int = 20) -> Example:
    """Three bits with an inference model that only samples and gives probabilities."""
    example = one_layer(seed)
    return Example(TorchPosteriorModel(example.network), example.batch)


def layers_that_know_the_row(seed: int = 250) -> Example:
    """Two bits above two bits, both given x."""
    model = LayersThatKnowTheRow()
    # What the network has of q's second layer is not used.
    model.network.inference[1] = torch.nn.Identity()
    return Example(randomize(model, seed), bits(rows=3, width=4))


EXAMPLES: dict[str, Callable[[], Example]] = {
    "one-layer": one_layer,
    "two-layers": two_layers,
    "categorical": categorical,
    "conditional": conditional,
    "torch-posterior": torch_posterior,
    "layers-that-know-the-row": layers_that_know_the_row,
}


def randomize(model: Model, seed: int, scale: float = 1.0) -> Model:
    """The model in double precision with normal parameters of this standard deviation."""
    generator = torch.Generator().manual_seed(seed)
    model = model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def bits(rows: int, width: int, seed: int = 0) -> Batch:
    """Random binary rows, numbered from 0."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(2, (rows, width), generator=generator).double()
    return Batch(x, torch.arange(rows))


@dataclass(frozen=True)
class RowsInMemory:
    """Rows as the evaluation asks for them, in the precision of the batch."""

    rows: Batch

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        return self.rows.take(index)


@dataclass(frozen=True)
class Enumerated:
    """All latent states of a batch with their log-probabilities, differentiable; states first, rows last."""

    states: Tensor
    log_joint: Tensor
    log_inference: Tensor

    @property
    def log_likelihood(self) -> Tensor:
        return self.log_joint.logsumexp(0)

    @property
    def posterior(self) -> Tensor:
        """The exact posterior probability of each state."""
        return self.log_joint.detach().softmax(0)

    @property
    def inference(self) -> Tensor:
        """The probability of each state under the inference model."""
        return self.log_inference.detach().exp()

    @property
    def log_weights(self) -> Tensor:
        return (self.log_joint - self.log_inference).detach()


def enumerated(model: LatentVariableModel, batch: Batch) -> Enumerated:
    """Every state of the model for every row of the batch, but for those that contradict what is known of every row.

    One that is possible at some rows only has log p(x, h) of minus infinity at the others.
    """
    states = model.latent.enumerate(torch.float64)
    possible = batch.agrees(states.unsqueeze(1).expand(-1, len(batch), -1))
    states, possible = states[possible.any(1)], possible[possible.any(1)]
    h = states.unsqueeze(1).expand(-1, len(batch), -1)
    return Enumerated(states, model.log_joint(batch, h).where(possible, -torch.inf), model.posterior(batch).log_prob(h))


def by_row(
    target: Callable[[LatentVariableModel, Batch], Gradients], model: LatentVariableModel, batch: Batch
) -> Gradients:
    """The mean over rows of what a function gives for each of them, times its weight if it has one."""
    weights = torch.ones(len(batch)) if batch.weight is None else batch.weight
    total = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for row in torch.arange(len(batch)).split(1):
        for name, gradient in target(model, batch.take(row)).items():
            total[name] += weights[row] * gradient / len(batch)
    return total


def state_numbers(model: LatentVariableModel, h: Tensor) -> Tensor:
    """At which place of the enumeration each state stands."""
    states = model.latent.enumerate(h.dtype)
    same = (h.unsqueeze(-2) == states).all(-1)
    assert same.any(-1).all(), "a vector is no state of the latent space"
    return same.long().argmax(-1)


def objective(model: LatentVariableModel, batch: Batch) -> Tensor:
    """The mean over rows of log p(x), and of the expectation of log q under the exact posterior."""
    exact = enumerated(model, batch)
    return (exact.log_likelihood + (exact.posterior * exact.log_inference).sum(0)).mean()


def gradients(model: LatentVariableModel, loss: Tensor) -> Gradients:
    """The gradient of a loss by the names of the parameters."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def largest_difference(found: Gradients, expected: Gradients) -> float:
    """The largest deviation in any parameter."""
    return max(float((found[name] - expected[name]).abs().max()) for name in expected)


def gradients_of(model: LatentVariableModel, loss: Tensor, part: str) -> list[Tensor]:
    """The gradients of the parameters whose names have this in them."""
    parameters = [parameter for name, parameter in model.named_parameters() if part in name]
    return list(torch.autograd.grad(loss, parameters))


def logits_of(posterior: LayeredPosterior) -> Tensor:
    """Those of the first layer."""
    return discrete(posterior.first).logits


def first_linear(conditionals: torch.nn.ModuleList) -> torch.nn.Linear:
    """The first linear map of the first of the conditionals."""
    (conditional, *_) = conditionals
    assert isinstance(conditional, Conditional)
    return conditional.network.first


def exact_gradients(model: LatentVariableModel, batch: Batch) -> Gradients:
    """What JSA descends, by autograd through the enumerated objective."""
    return gradients(model, -objective(model, batch))
