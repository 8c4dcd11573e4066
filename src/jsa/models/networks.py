"""Deterministic networks between the layers of random variables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from jsa.distributions import Factorized, factorized
from jsa.errors import UsageError
from jsa.latent import Layer
from jsa.models.centering import uniform_moments
from jsa.models.presets import Style

IMPOSSIBLE = -1000.0
"""Added to a logit to give probability zero. It is finite, so that zero times it is zero, and fits half precision."""

RAREST_AT_START = 1e-3
"""The least probability of a value that a new model gives: one that never occurs in training may occur later."""


class Perceptron(nn.Module):
    """Linear layers with an activation between them; none after the last.

    A context is given separately, as its part of the first product, which is computed once per row instead of once per
    sample. The parameters are those of a network on the concatenated inputs.

    Args:
        inputs: The width of the main input.
        hidden: The widths of the hidden layers; empty for a linear map.
        outputs: The width of the output.
        context: The width of the context, 0 for none.
        one_hot: The number of classes if the main input consists of one-hot variables, else 0.
        centered: The layer whose states are the main input, if the network shall see them with mean 0 and variance 1
            under the fixed prior: bits as -1 and 1. None shows them as they are.
        style: The activation and the initialization.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        *,
        context: int = 0,
        one_hot: int = 0,
        centered: Layer | None = None,
        style: Style | None = None,
    ) -> None:
        super().__init__()
        style = style or Style()
        self.inputs = inputs
        self.one_hot = one_hot
        self.shift, self.scale = (0.0, 1.0) if centered is None else uniform_moments(centered)
        widths = [inputs + context, *hidden, outputs]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.activation = _activation(style)
        for linear in self.layers:
            assert isinstance(linear, nn.Linear)
            if style.initialization == "xavier":
                nn.init.xavier_uniform_(linear.weight)
            if style.initial_bias is not None:
                nn.init.constant_(linear.bias, style.initial_bias)

    @property
    def first(self) -> nn.Linear:
        """The first linear layer."""
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        return first

    def of_context(self, context: Float[Tensor, "batch context"]) -> Float[Tensor, "batch hidden"]:
        """Return the context's part of the first product, with the bias."""
        _, bias = self._of_main()
        return F.linear(context, self.first.weight[:, self.inputs :], bias)

    def start_at(self, outputs: Float[Tensor, " outputs"]) -> None:
        """Let the first outputs begin about these values: their bias."""
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.bias[: len(outputs)] = outputs

    def _of_main(self) -> tuple[Tensor, Tensor]:
        """Return the weight and the bias of the first product, for the main input as it is before centering.

        Weights are fewer than states, so centering changes them.
        """
        weight, bias = self.first.weight, self.first.bias
        if self.first.in_features > self.inputs:
            weight = weight[:, : self.inputs]
        if (self.shift, self.scale) == (0.0, 1.0):
            return weight, bias
        weight = weight / self.scale
        return weight, bias - self.shift * weight.sum(-1)

    def forward(
        self, main: Float[Tensor, "*samples inputs"], of_context: Float[Tensor, "batch hidden"] | None = None
    ) -> Float[Tensor, "*samples outputs"]:
        """Return the output for each main input, given the part of its row's context from ``of_context``."""
        weight, bias = self._of_main()
        if of_context is not None:
            value = F.linear(main, weight).add_(of_context)
        elif self.one_hot and gather_sum_wins(main, self.one_hot):
            value = gather_sum(main, weight, bias, self.one_hot)
        else:
            value = F.linear(main, weight, bias)
        for linear in list(self.layers)[1:]:
            value = linear(self.activation(value))
        return value


class Conditional(nn.Module):
    """A layer of variables with independent distributions given the output of a network.

    Args:
        layer: The variables.
        network: The network that returns their parameters.
        values: For each variable, the number of values that it can take, the first ones; None for all.
    """

    impossible: Tensor | None

    def __init__(self, layer: Layer, network: Perceptron, values: Sequence[int] | None = None) -> None:
        super().__init__()
        self.layer = layer
        self.network = network
        # Determined by the data and not learned, so not part of the state_dict.
        self.register_buffer("impossible", impossible_values(layer, values), persistent=False)

    def forward(self, main: Tensor, of_context: Tensor | None = None) -> Factorized:
        """Return the distribution of the layer."""
        parameters = self.network(main, of_context)
        return factorized(self.layer, parameters if self.impossible is None else parameters + self.impossible)

    def start_at(self, mean: Float[Tensor, " width"]) -> None:
        """Let the variables begin with about these means."""
        match self.layer.kind:
            case "bernoulli":
                self.network.start_at(mean.logit(RAREST_AT_START))
            case "categorical":
                self.network.start_at(mean.clamp_min(RAREST_AT_START).log())
            case "gaussian":
                self.network.start_at(mean)


def impossible_values(layer: Layer, values: Sequence[int] | None) -> Float[Tensor, " parameters"] | None:
    """Return what to add to a layer's logits so that each variable takes only its first values; None for nothing.

    Example:
        >>> impossible_values(Layer("categorical", 2, classes=3), [3, 2])
        tensor([    0.,     0.,     0.,     0.,     0., -1000.])
        >>> impossible_values(Layer("bernoulli", 2), [1, 2])
        tensor([-1000.,     0.])
    """
    if values is None:
        return None
    if layer.kind == "gaussian" or len(values) != layer.variables or not set(values) <= {*range(1, layer.classes + 1)}:
        raise UsageError(
            f"values must be {layer.variables} numbers from 1 to {layer.classes} for a layer of {layer.variables} bits "
            f"or variables of {layer.classes} classes, not {tuple(values)} for a {layer.kind} layer"
        )
    if min(values) == layer.classes:
        return None
    # The logit of a bit is that of its second value.
    numbers = torch.arange(1, 2) if layer.kind == "bernoulli" else torch.arange(layer.classes)
    return torch.where(numbers < torch.tensor(values).unsqueeze(-1), 0.0, IMPOSSIBLE).flatten()


class Tanh(nn.Module):
    """tanh through the logistic function, which torch computes three times as fast, exact to the last digit but one.

    It overwrites its argument, like the other activations.
    """

    def forward(self, value: Tensor) -> Tensor:
        """Return 2 sigmoid(2 x) - 1."""
        return torch.rsub(value.mul_(2).sigmoid_(), -1.0, alpha=-2)


def _activation(style: Style) -> nn.Module:
    # In place if the derivative can be computed from the result: one pass over memory less.
    match style.activation:
        case "leaky-relu":
            return nn.LeakyReLU(style.negative_slope, inplace=True)
        case "relu":
            return nn.ReLU(inplace=True)
        case "tanh":
            return Tanh()
        case "elu":
            return nn.ELU(inplace=True)
        case "gelu":
            return nn.GELU()


def gather_sum_wins(h: Float[Tensor, "*samples width"], classes: int) -> bool:
    """Return whether these vectors of categorical variables can be multiplied by gathering, and faster so.

    On the CPU and without a graph it takes half the time; with a graph, the backward pass of a gather is slower than a
    product. Relaxed vectors have no class to gather; their fractions distinguish them from one-hot vectors.
    """
    if torch.is_grad_enabled() or h.device.type != "cpu" or classes < 3:
        return False
    # A sum takes a fifth of the time of any(), and fractional parts of probabilities cannot cancel.
    return not bool(h.frac().sum())


def gather_sum(
    h: Float[Tensor, "*samples width"],
    weight: Float[Tensor, "outputs width"],
    bias: Float[Tensor, " outputs"],
    classes: int,
) -> Float[Tensor, "*samples outputs"]:
    """Apply a linear map to one-hot vectors, whose variables are side by side.

    Example:
        >>> linear = nn.Linear(6, 2)
        >>> h = torch.tensor([[1.0, 0, 0, 0, 1, 0]])
        >>> torch.allclose(gather_sum(h, linear.weight, linear.bias, classes=3), linear(h))
        True
    """
    variables = h.shape[-1] // classes
    # A product with 0, 1, 2, ... finds the classes in a fifth of the time of argmax.
    chosen = (h.reshape(-1, classes) @ torch.arange(classes, dtype=h.dtype)).long().view(-1, variables)
    rows = chosen + classes * torch.arange(variables)
    total = F.embedding_bag(rows, weight.t().contiguous(), mode="sum") + bias
    return total.view(*h.shape[:-1], -1)
