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
from jsa.models.presets import Style

IMPOSSIBLE = -1000.0
"""Added to a logit to give probability zero. It is finite, so that zero times it is zero, and fits half precision."""


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
        style: Style | None = None,
    ) -> None:
        super().__init__()
        style = style or Style()
        self.inputs = inputs
        self.one_hot = one_hot
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
        return F.linear(context, self.first.weight[:, self.inputs :], self.first.bias)

    def forward(
        self, main: Float[Tensor, "*samples inputs"], of_context: Float[Tensor, "batch hidden"] | None = None
    ) -> Float[Tensor, "*samples outputs"]:
        """Return the output for each main input, given the part of its row's context from ``of_context``."""
        first, *rest = self.layers
        assert isinstance(first, nn.Linear)
        if of_context is not None:
            value = F.linear(main, first.weight[:, : self.inputs]).add_(of_context)
        elif self.one_hot and gather_sum_wins(main, self.one_hot):
            value = gather_sum(main, first, self.one_hot)
        else:
            value = first(main)
        for linear in rest:
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
    h: Float[Tensor, "*samples width"], linear: nn.Linear, classes: int
) -> Float[Tensor, "*samples outputs"]:
    """Apply the linear map to one-hot vectors, whose variables are side by side.

    Example:
        >>> linear = nn.Linear(6, 2)
        >>> h = torch.tensor([[1.0, 0, 0, 0, 1, 0]])
        >>> torch.allclose(gather_sum(h, linear, classes=3), linear(h))
        True
    """
    variables = h.shape[-1] // classes
    # A product with 0, 1, 2, ... finds the classes in a fifth of the time of argmax.
    chosen = (h.reshape(-1, classes) @ torch.arange(classes, dtype=h.dtype)).long().view(-1, variables)
    rows = chosen + classes * torch.arange(variables)
    total = F.embedding_bag(rows, linear.weight.t().contiguous(), mode="sum") + linear.bias
    return total.view(*h.shape[:-1], -1)
