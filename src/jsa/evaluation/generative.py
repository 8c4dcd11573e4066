"""Checked calls of a model that can be sampled: its prior, and p(x | h)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Float, Num
from torch import Tensor

from jsa.errors import JsaError, UsageError, is_out_of_memory
from jsa.model import Generative, LatentVariableModel, Observation
from jsa.model_calls import refuse_no_model


def generative(model: LatentVariableModel) -> Generative:
    """Return the model, or refuse one that cannot be sampled."""
    refuse_no_model(model)
    missing = [name for name in ("sample_latent", "observation") if not callable(getattr(model, name, None))]
    if missing:
        raise UsageError(
            f"p(x | h) is needed, but {type(model).__name__} does not define it: write its "
            f"{'methods' if len(missing) > 1 else 'method'} {' and '.join(missing)}, see jsa.Generative"
        )
    return model  # type: ignore[return-value]


def prior_states(model: LatentVariableModel, count: int, context: Tensor | None = None) -> Float[Tensor, "count width"]:
    """Draw this many states from the prior, or one for each of as many contexts, and check them."""
    decoder, name = generative(model), type(model).__name__
    with explaining(name):
        h = decoder.sample_latent((count,) if context is None else (), context)
    if h.shape != (count, model.latent.width) or not model.latent.contains(h):
        raise UsageError(
            f"{name}.sample_latent returned shape {tuple(h.shape)} for {count} states of width {model.latent.width}, "
            "or what is no state of the latent space"
        )
    return h


def observation(
    model: LatentVariableModel, h: Float[Tensor, "rows width"], context: Tensor | None = None
) -> Observation:
    """Return p(x | h) of some states, or refuse what has neither means nor draws."""
    name = type(model).__name__
    with explaining(name):
        found = generative(model).observation(h, context)
    if not (hasattr(type(found), "mean") or "mean" in vars(found)) or not callable(getattr(found, "sample", None)):
        raise UsageError(
            f"{name}.observation returned {type(found).__name__}, which lacks mean or sample: return a distribution of "
            "jsa or of torch.distributions, or an object with both"
        )
    return found


def mean_of(model: LatentVariableModel, observed: Observation, rows: int) -> Float[Tensor, "rows *observed"]:
    """Return the mean of p(x | h) of so many states, or refuse a distribution that has none."""
    with explaining(type(model).__name__):
        mean = _of_rows(observed.mean, "mean", model, observed, rows)
    if bool(mean.isnan().any()):
        raise UsageError(
            f"the mean of the {type(observed).__name__} that {type(model).__name__}.observation returned is not a "
            "number: return one with a mean, such as jsa.Categorical or torch.distributions.OneHotCategorical for "
            "classes"
        )
    return mean


def draw_of(model: LatentVariableModel, observed: Observation, rows: int) -> Num[Tensor, "rows *observed"]:
    """Return a draw from p(x | h) for each of so many states."""
    with explaining(type(model).__name__):
        return _of_rows(observed.sample(), "draw", model, observed, rows)


def _of_rows(found: object, what: str, model: LatentVariableModel, observed: Observation, rows: int) -> Tensor:
    if not isinstance(found, Tensor) or found.shape[:1] != (rows,):
        form = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"type {type(found).__name__}"
        raise UsageError(
            f"the {what} of the {type(observed).__name__} that {type(model).__name__}.observation returned has {form}: "
            f"it must be a tensor of {rows} rows, as many as there are states"
        )
    return found


def in_shape_of(x: Tensor, mean: Float[Tensor, "rows *observed"]) -> Tensor:
    """Return means in the shape of the observations, where a model returns as many numbers in another shape.

    >>> import torch
    >>> in_shape_of(torch.zeros(5, 1, 2, 2), torch.zeros(5, 4)).shape
    torch.Size([5, 1, 2, 2])
    """
    return mean.reshape(x.shape) if mean.numel() == x.numel() else mean


@contextmanager
def explaining(name: str) -> Iterator[None]:
    """Say what the methods of a model that can be sampled must do, where somebody's code fails inside this block."""
    try:
        yield
    except JsaError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise UsageError(
            f"{name} cannot be sampled ({error}): sample_latent(shape, context) must draw h, and observation(h, "
            "context) return p(x | h)"
        ) from error
