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
"""What is added to a logit to leave no probability: finite, for zero times it is zero, and within half precision."""


class Perceptron(nn.Module):
    """Linear layers with an activation between them; none after the last.

    An input that is a context of the whole batch is given apart, as its part of the first product, which is computed
    once a row instead of once a sample: the parameters are those of a network on the concatenation.

    Args:
        inputs: The width of the main input.
        hidden: The widths of the hidden layers, none for a linear map.
        outputs: The width of the output.
        context: The width of the context, 0 for none.
        one_hot: The number of classes where the main input is made of one-hot variables, 0 where it is not.
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
        """The part of the first product that the context alone determines, with the bias."""
        return F.linear(context, self.first.weight[:, self.inputs :], self.first.bias)

    def forward(
        self, main: Float[Tensor, "*samples inputs"], of_context: Float[Tensor, "batch hidden"] | None = None
    ) -> Float[Tensor, "*samples outputs"]:
        """The output for each main input, given what ``of_context`` made of the context of its row."""
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
    """A layer of variables that is factorized given the output of a network.

    Args:
        layer: The variables.
        network: What gives their parameters.
        values: How many of the values of the layer each variable can take, the first ones; None for all.
    """

    impossible: Tensor | None

    def __init__(self, layer: Layer, network: Perceptron, values: Sequence[int] | None = None) -> None:
        super().__init__()
        self.layer = layer
        self.network = network
        # It follows from the data, and is no part of what is learned.
        self.register_buffer("impossible", impossible_values(layer, values), persistent=False)

    def forward(self, main: Tensor, of_context: Tensor | None = None) -> Factorized:
        """The distribution of the layer."""
        parameters = self.network(main, of_context)
        return factorized(self.layer, parameters if self.impossible is None else parameters + self.impossible)


def impossible_values(layer: Layer, values: Sequence[int] | None) -> Float[Tensor, " parameters"] | None:
    """What to add to the logits of a layer, so that each variable has only its first values; None for nothing.

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
            f"values are {layer.variables} numbers from 1 to {layer.classes} for a layer of {layer.variables} bits or "
            f"variables of {layer.classes} classes, not {tuple(values)} for a {layer.kind} layer"
        )
    if min(values) == layer.classes:
        return None
    # The logit of a bit is that of its second value.
    numbers = torch.arange(1, 2) if layer.kind == "bernoulli" else torch.arange(layer.classes)
    return torch.where(numbers < torch.tensor(values).unsqueeze(-1), 0.0, IMPOSSIBLE).flatten()


class Tanh(nn.Module):
    """tanh by the logistic function, which torch computes three times as fast, to the last digit but one.

    It overwrites its argument, as the other activations do.
    """

    def forward(self, value: Tensor) -> Tensor:
        """2 sigmoid(2 x) - 1."""
        return torch.rsub(value.mul_(2).sigmoid_(), -1.0, alpha=-2)


def _activation(style: Style) -> nn.Module:
    # In place where the derivative can be had from the result: a pass over memory less.
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
    """Whether these vectors of categorical variables may be multiplied by gathering, and whether that is faster.

    It is, by half, on the processor and where no graph is kept: the backward of a gather is slower than a product.
    Relaxed vectors have no class to gather; they are told from one-hot ones by their fractions.
    """
    if torch.is_grad_enabled() or h.device.type != "cpu" or classes < 3:
        return False
    # A sum is a fifth of the time of asking whether any is not zero, and fractions of probabilities cannot cancel.
    return not bool(h.frac().sum())


def gather_sum(
    h: Float[Tensor, "*samples width"], linear: nn.Linear, classes: int
) -> Float[Tensor, "*samples outputs"]:
    """What the linear map gives for one-hot vectors, their variables side by side.

    Example:
        >>> linear = nn.Linear(6, 2)
        >>> h = torch.tensor([[1.0, 0, 0, 0, 1, 0]])
        >>> torch.allclose(gather_sum(h, linear, classes=3), linear(h))
        True
    """
    variables = h.shape[-1] // classes
    # A product with 0, 1, 2, ... finds the classes in a fifth of the time that argmax takes.
    chosen = (h.reshape(-1, classes) @ torch.arange(classes, dtype=h.dtype)).long().view(-1, variables)
    rows = chosen + classes * torch.arange(variables)
    total = F.embedding_bag(rows, linear.weight.t().contiguous(), mode="sum") + linear.bias
    return total.view(*h.shape[:-1], -1)
