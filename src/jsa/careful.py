"""Whether vectors are values of a layer: their width always, the values themselves where one asks for care."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jaxtyping import Float
from torch import Tensor

from jsa.errors import UsageError
from jsa.latent import Layer

_CAREFUL: ContextVar[bool] = ContextVar("careful", default=False)


@contextmanager
def careful() -> Iterator[None]:
    """Within it distributions look at every value that they score, which would cost too much in every step."""
    token = _CAREFUL.set(True)
    try:
        yield
    finally:
        _CAREFUL.reset(token)


def refuse_wrong_vectors(layer: Layer, h: Float[Tensor, "*samples width"]) -> None:
    """Refuses vectors of another width, which would broadcast to something else; with care, wrong values, too.

    >>> import torch
    >>> refuse_wrong_vectors(Layer("categorical", 1, classes=10), torch.tensor([[3.0]]))
    Traceback (most recent call last):
    jsa.errors.UsageError: 1 categorical variable of 10 classes is a vector of width 10, one-hot, not of width 1
    """
    if h.shape[-1] != layer.width:
        one_hot = ", one-hot," if layer.kind == "categorical" else ","
        raise UsageError(f"{layer} is a vector of width {layer.width}{one_hot} not of width {h.shape[-1]}")
    if _CAREFUL.get() and layer.kind != "gaussian":
        _refuse_wrong_values(layer, h.detach())


def _refuse_wrong_values(layer: Layer, h: Float[Tensor, "*samples width"]) -> None:
    """Refuses what is neither a state of discrete variables nor between their states."""
    wrong = h[~((h >= 0) & (h <= 1))]
    if len(wrong):
        raise UsageError(
            f"{layer} cannot have the value {float(wrong[0]):g}: "
            + ("a bit is 0 or 1, or between them" if layer.kind == "bernoulli" else "a class is one-hot")
            + ", so scale or encode what is observed"
        )
    if layer.kind == "categorical":
        totals = h.unflatten(-1, (layer.variables, layer.classes)).sum(-1)
        # A vector of zeros is a variable that is left out.
        wrong = totals[~(((totals - 1).abs() < 1e-3) | (totals == 0))]
        if len(wrong):
            raise UsageError(f"{layer} cannot have a vector that sums to {float(wrong[0]):g}: a class is one-hot")
