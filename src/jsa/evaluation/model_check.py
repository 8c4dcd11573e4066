"""What is quietly wrong with a model, found before it is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch
from jsa.distributions import validating_values
from jsa.errors import JsaError, UsageError, check_at_least
from jsa.evaluation.drawn_as_scored import check_draws
from jsa.model import LatentVariableModel
from jsa.model_calls import evaluate, log_joint, posterior_of
from jsa.torch_contexts import leaving_no_trace

STATES_COMPARED, ROWS_COMPARED = 3, 4
MIXED = (
    "rows or states know of each other (a wrong reshape, batch normalization), or it is random (dropout); mend it, or "
    "keep such layers in evaluation mode"
)
ALONE = "it must work for whichever rows and states it is given, in any order, and from what it is given alone"
DIMENSIONS = "the functions of deeper layers take states with any number of dimensions before the rows"
NARROWED = "take gives rows what belongs to others (where a deeper layer uses batch, leave out independent_of_x)"


def check_model(model: LatentVariableModel, batch: Batch, draws: int = 10_000) -> None:
    """Refuse a model that would learn something else than it seems to, with a sentence that says what to mend.

    In the mode that the model is in:

    - Draws from q(h | x) have their shape and are states of the latent space.
    - What the distributions of jsa score are values of theirs, also what is observed: bits from 0 to 1, classes
      one-hot.
    - log p(x, h) and log q(h | x) have a gradient, by the states too if the model says that it is relaxable, and leave
      the states as they are.
    - They are one number for each state, the same for a row or state by itself as among others, also if q is narrowed
      to some rows by ``take``.
    - Draws from q have the distribution of log q. Up to 4,096 states, they are compared with all probabilities, which
      must sum to one. In larger spaces, and for Gaussian variables, variables of a draw are redrawn by log q given the
      others: this must not change the distribution of the state.
    - Draws of h and x from a ``Generative`` model have the distribution of log p(x, h), likewise.

    The last two compare draws by statistics whose law is known (``ExchangeablePairs``). A right model is refused once
    in a million calls at most, by all of them together.

    Args:
        model: The model.
        batch: Some rows of the data, two or more.
        draws: How many states are drawn for each of the first rows if they can be enumerated. In larger spaces fewer
            are drawn, and about 40 * draws of their variables are redrawn.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
        >>> check_model(model, Batch(torch.eye(6), torch.arange(6)))
    """
    if len(batch) < 2:
        raise UsageError(f"a model is checked with 2 rows or more, not {len(batch)}: one cannot be taken for another")
    check_at_least(100, draws=draws)
    with leaving_no_trace(model, batch.x.device), torch.enable_grad():
        with validating_values():
            _check_single_calls(model, batch)
        check_draws(model, _rows(batch, range(min(ROWS_COMPARED, len(batch)))), draws)


def _check_single_calls(model: LatentVariableModel, batch: Batch) -> None:
    h = _checked_draws(model, batch)
    _check_gradients(model, batch, h)
    if model.relaxable:
        _check_gradient_by_states(model, batch, h)
    with torch.no_grad():
        _check_log_prob_of_draws(model, batch)
        _check_each_by_itself(model, batch, h)
        _check_deeper_layers(model, batch, h)
        _check_narrowed(model, batch, h)


def _checked_draws(model: LatentVariableModel, batch: Batch) -> Float[Tensor, "samples batch width"]:
    posterior = posterior_of(model, batch)
    name = posterior.name
    h = posterior.sample((STATES_COMPARED,))
    expected = (STATES_COMPARED, len(batch), model.latent.width)
    if h.shape != expected:
        raise UsageError(
            f"{name}.sample(({STATES_COMPARED},)) returned shape {tuple(h.shape)}: it must be {expected}, samples by "
            "rows by the width of a state"
        )
    if not model.latent.contains(h):
        raise UsageError(
            f"{name}.sample drew what is no state of the latent space: bits are 0 or 1, a categorical variable is "
            "one-hot, a Gaussian one is finite"
        )
    return h


def _check_gradients(model: LatentVariableModel, batch: Batch, h: Float[Tensor, "samples batch width"]) -> None:
    posterior, before = posterior_of(model, batch), h.clone()
    evaluated = evaluate(model, batch, posterior, h)
    for name, value in (
        (f"{type(model).__name__}.log_joint", evaluated.log_joint),
        (f"{posterior.name}.log_prob", evaluated.log_inference),
    ):
        if not value.requires_grad:
            raise UsageError(f"{name} has no gradient, so that nothing would be learned from it: do not detach it")
    if not torch.equal(before, h):
        raise UsageError(
            f"{type(model).__name__} changes the states that it is given: take no operations that work in place on them"
        )


def _check_gradient_by_states(
    model: LatentVariableModel, batch: Batch, h: Float[Tensor, "samples batch width"]
) -> None:
    # Bits have two classes, too.
    inwards = [torch.full((layer.width,), 0.2 / layer.classes) for layer in model.latent.layers]
    between = (0.8 * h + torch.cat(inwards).to(h)).requires_grad_()
    value = log_joint(model, batch, between).sum()
    slope = torch.autograd.grad(value, between, allow_unused=True)[0] if value.requires_grad else None
    if slope is None or not bool(slope.any()):
        raise UsageError(
            f"{type(model).__name__} says that it is relaxable, but log_joint has no gradient by the states: compute "
            "it by functions that have one, or leave relaxable False"
        )


def _check_log_prob_of_draws(model: LatentVariableModel, batch: Batch) -> None:
    posterior = posterior_of(model, batch)
    h, as_drawn = posterior.sample_with_log_prob((STATES_COMPARED,))
    name = posterior.name
    size = _size_of_terms(posterior.log_prob(h.roll(1, 1)))
    _compare(as_drawn, posterior.log_prob(h), batch, f"{name}.log_prob", f"{name}.sample_with_log_prob differs", size)


def _check_each_by_itself(model: LatentVariableModel, batch: Batch, h: Float[Tensor, "samples batch width"]) -> None:
    """Chains and weights belong to one row, and batches are cut up to be evaluated."""
    posterior = posterior_of(model, batch)
    joint, inference = log_joint(model, batch, h), posterior.log_prob(h)
    size_of_joint = _size_of_terms(log_joint(model, batch.with_nothing_known(), h.roll(1, 1)))
    size = _size_of_terms(posterior.log_prob(h.roll(1, 1)))
    name = f"{posterior.name}.log_prob"
    for sample in range(STATES_COMPARED):
        states = h[[sample]]
        _compare_joint(model, batch, states, joint[[sample]], MIXED, size_of_joint)
        _compare(posterior_of(model, batch).log_prob(states), inference[[sample]], batch, name, MIXED, size)
    backwards = torch.arange(len(batch), device=h.device).flip(0)
    _compare_joint(model, batch.take(backwards), h.flip(1), joint.flip(1), ALONE, size_of_joint)
    for row in range(min(ROWS_COMPARED, len(batch))):
        # Twice, for some layers refuse a batch of one.
        where = [row, row]
        alone, states = _rows(batch, where), h[:, where]
        _compare_joint(model, alone, states, joint[:, where], MIXED, size_of_joint)
        _compare(posterior_of(model, alone).log_prob(states), inference[:, where], alone, name, MIXED, size)


def _compare_joint(
    model: LatentVariableModel,
    batch: Batch,
    h: Float[Tensor, "samples batch width"],
    expected: Float[Tensor, "samples batch"],
    why: str,
    size: float,
) -> None:
    name = f"{type(model).__name__}.log_joint"
    with _explaining(name, ALONE):
        found = log_joint(model, batch, h)
    _compare(found, expected, batch, name, why, size)


@contextmanager
def _explaining(name: str, why: str) -> Iterator[None]:
    """Says why somebody's code may fail here, though it did not before."""
    try:
        yield
    except JsaError:
        raise
    except Exception as error:
        raise UsageError(f"{name} fails for some rows or states by themselves ({error}): {why}") from error


def _check_deeper_layers(model: LatentVariableModel, batch: Batch, h: Float[Tensor, "samples batch width"]) -> None:
    """Methods that relax or couple layers ask for the deeper ones at states of more dimensions."""
    posterior = posterior_of(model, batch)
    if posterior.layers is not None:
        for states in (h[0], h.unsqueeze(0)):
            with _explaining(f"{type(model).__name__}.posterior", DIMENSIONS):
                posterior.layers.log_prob(states)


def _check_narrowed(model: LatentVariableModel, batch: Batch, h: Float[Tensor, "samples batch width"]) -> None:
    """Chain methods differentiate q at some rows only."""
    posterior = posterior_of(model, batch)
    backwards = torch.arange(len(batch), device=h.device).flip(0)
    narrowed = posterior.take(backwards)
    if narrowed is not None:
        found, expected = narrowed.log_prob(h.flip(1)), posterior.log_prob(h).flip(1)
        size = _size_of_terms(posterior.log_prob(h.roll(1, 1)))
        _compare(found, expected, batch.take(backwards), f"{posterior.name}.take(...).log_prob", NARROWED, size)


def _size_of_terms(of_others: Float[Tensor, "samples batch"]) -> float:
    """Return about how large the terms of log-probabilities are, from those of states that belong to other rows.

    Where a network is almost certain, large terms cancel in the log-probabilities of its own states.
    """
    return float(of_others.abs().where(of_others.isfinite(), 0).max())


def _compare(found: Tensor, expected: Tensor, batch: Batch, name: str, why: str, size: float) -> None:
    rounding = torch.finfo(expected.dtype).eps
    tolerance = max(rounding**0.5, 32 * rounding * size)
    different = ~torch.isclose(found, expected, rtol=rounding**0.5, atol=tolerance)
    if bool(different.any()):
        sample, row = different.nonzero()[0].tolist()
        raise UsageError(
            f"{name} of one state at row {batch.row(row)} is {float(found[sample, row]):.6g} and "
            f"{float(expected[sample, row]):.6g}: {why}"
        )


def _rows(batch: Batch, rows: Sequence[int]) -> Batch:
    """Return some rows as a batch of their own, which unlike taken ones knows nothing of the others."""
    device = batch.x.device
    return batch.take(torch.tensor(list(rows), device=device)).to(device)
