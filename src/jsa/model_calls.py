"""Checked calls of a model and of its posterior: a wrong shape would broadcast, and something else would be trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from jsa.batch import HALVES, Batch
from jsa.distributions import Factorized
from jsa.errors import NumericalError, UsageError
from jsa.model import LatentVariableModel, LayeredJoint, Posterior
from jsa.posteriors import LayeredPosterior

LOGITS_AT_ONCE = 800_000
FEWEST_STATES, MOST_STATES = 1_000, 4_000


def states_at_once(batch: Batch) -> int:
    """Return about how many states to evaluate at once when no graph is kept.

    Few enough for their logits to stay in the CPU cache, and enough for matrix products to run at full speed.
    """
    return min(MOST_STATES, max(FEWEST_STATES, LOGITS_AT_ONCE // max(1, math.prod(batch.x.shape[1:]))))


class BatchPosterior:
    """q(h | x) of the rows of a batch, as every estimator sees it: what a model returned, wrapped and checked.

    Besides ``sample`` and ``log_prob``, a posterior may offer ``sample_with_log_prob``, ``take``, ``from_uniforms`` and
    ``known_log_prob``, with the meaning that they have in ``LayeredPosterior``. Each method here has a fallback or
    refuses.

    Attributes:
        own: The object that the model returned.
        layers: The same object if it is a ``LayeredPosterior``, else None.
    """

    def __init__(self, own: Posterior) -> None:
        self.own = own
        self.layers = own if isinstance(own, LayeredPosterior) else None

    @property
    def name(self) -> str:
        """The name of its class, for error sentences."""
        return type(self.own).__name__

    def layered(self, method: str) -> LayeredPosterior:
        """Return the posterior with the logits of its layers, or refuse one without layers for this method."""
        if self.layers is None:
            raise UsageError(
                f"{method} needs the logits of q(h | x), which a LayeredPosterior has but {self.name} does not: use "
                "vimco, rloo or jsa"
            )
        return self.layers

    def sample(self, shape: tuple[int, ...] = ()) -> Float[Tensor, "*samples batch width"]:
        """Draw states of shape (*shape, batch, width), without gradient."""
        return self.own.sample(shape).detach()

    def log_prob(self, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
        """Score states. The posterior sees exactly one dimension before the rows."""
        states = _with_samples(h)
        return _without_samples(_checked(f"{self.name}.log_prob", self.own.log_prob(states), states), h)

    def sample_with_log_prob(
        self, shape: tuple[int, ...] = ()
    ) -> tuple[Float[Tensor, "*samples batch width"], Float[Tensor, "*samples batch"]]:
        """Draw states and score them, with gradient if enabled, in one pass if the posterior offers that."""
        offered = self._offered("sample_with_log_prob")
        if offered is None:
            h = self.sample(shape)
            return h, self.log_prob(h)
        h, log_inference = offered(shape)
        return h.detach(), log_inference

    def take(self, rows: Int64[Tensor, " taken"]) -> BatchPosterior | None:
        """Return the posterior of these rows without another encoder pass; None if it does not offer that."""
        offered = self._offered("take")
        taken = None if offered is None else offered(rows)
        return None if taken is None else BatchPosterior(taken)

    @property
    def draws_from_uniforms(self) -> bool:
        """Whether the posterior offers ``from_uniforms``, so that draws can be tied to a row."""
        return self._offered("from_uniforms") is not None

    def from_uniforms(
        self, uniforms: Float[Tensor, "*samples variables"]
    ) -> tuple[Float[Tensor, "*samples width"], Float[Tensor, "*samples"]]:
        """Return the draw that these uniforms determine, and its log-probability."""
        offered = self._offered("from_uniforms")
        assert offered is not None
        drawn: tuple[Tensor, Tensor] = offered(uniforms)
        return drawn

    def known_log_prob(self, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
        """Score the known values of each row as if they were drawn, at states that agree with them."""
        offered = self._offered("known_log_prob")
        if offered is None:
            raise UsageError(
                f"{self.name} cannot score known values: return a LayeredPosterior, or define known_log_prob(h)"
            )
        value: Tensor = offered(h)
        return value

    def _offered(self, method: str) -> Callable[..., Any] | None:
        return getattr(self.own, method, None)


def posterior_of(model: LatentVariableModel, batch: Batch) -> BatchPosterior:
    """Return q(h | x) of a batch from one pass of the inference network. A factorized distribution is one layer."""
    refuse_no_model(model)
    if not isinstance(batch, Batch):
        raise UsageError(
            f"a model learns from a jsa.Batch, not from {type(batch).__name__}: pass Batch(x, row_numbers)"
        )
    if len(batch) == 0:
        raise UsageError("this batch has no rows, and the mean of no losses is not a number: skip it")
    if batch.known is not None:
        model.latent.refuse_wrong_known(batch.known)
    posterior = model.posterior(batch)
    if isinstance(posterior, Factorized):
        posterior = LayeredPosterior(model.latent, posterior, known=batch.known)
    if not isinstance(posterior, Posterior):
        raise UsageError(
            f"{type(model).__name__}.posterior returned {type(posterior).__name__}, which lacks sample or log_prob: "
            "return a LayeredPosterior, a TorchPosterior, or an object with both"
        )
    return BatchPosterior(posterior)


def refuse_no_model(model: LatentVariableModel) -> None:
    """Refuse what is no model, such as a Learner, and a model without a latent space."""
    _refuse_compiled(model)
    name = type(model).__name__
    if not (hasattr(model, "posterior") and hasattr(model, "log_joint")):
        raise UsageError(f"{name} is not a LatentVariableModel: subclass it, or pass learner.model if it is a Learner")
    if getattr(model, "latent", None) is None:
        raise UsageError(f"{name} has no latent space: set self.latent = LatentSpace.of(...)")


def _refuse_compiled(model: LatentVariableModel) -> None:
    """Refuse ``torch.compile`` where it would compile nothing, or so many pieces that steps become slower."""
    remedy = (
        "write @torch.compile above log_joint and posterior in the class of the model, or compile its networks, as in "
        "model.decoder = torch.compile(model.decoder)"
    )
    if getattr(model, "_orig_mod", None) is not None or getattr(model, "_compiled_call_impl", None) is not None:
        raise UsageError(f"a model compiled as a whole runs uncompiled, because no estimator calls forward: {remedy}")
    if torch.compiler.is_compiling():
        sentence = f"torch.compile breaks a Learner or a training step into many pieces and makes it slower: {remedy}"
        # Without it the compiler takes the exception for something that it cannot trace, and runs this uncompiled.
        torch._dynamo.graph_break(sentence)
        raise UsageError(sentence)


def log_joint(
    model: LatentVariableModel, batch: Batch, h: Float[Tensor, "*samples batch width"]
) -> Float[Tensor, "*samples batch"]:
    """Call ``model.log_joint`` and check its result. The model sees exactly one dimension before the rows.

    States that contradict the known values of their row are refused: a posterior that ignores ``batch.known`` would
    learn as if nothing were known.
    """
    states = _states_of(model, batch, h)
    value = model.log_joint(batch, states)
    return _without_samples(_checked(f"{type(model).__name__}.log_joint", value, states), h)


def log_joint_terms(
    model: LatentVariableModel, batch: Batch, h: Float[Tensor, "*samples batch width"]
) -> list[Float[Tensor, "*samples batch"]] | None:
    """Call ``model.log_joint_terms`` with the same checks; None if the model has no such method."""
    if not isinstance(model, LayeredJoint):
        return None
    states = _states_of(model, batch, h)
    name = f"{type(model).__name__}.log_joint_terms"
    terms = enumerate(model.log_joint_terms(batch, states))
    return [_without_samples(_checked(f"term {number} of {name}", term, states), h) for number, term in terms]


def _states_of(
    model: LatentVariableModel, batch: Batch, h: Float[Tensor, "*samples batch width"]
) -> Float[Tensor, "samples batch width"]:
    """Check and count states that are about to pass through the joint density."""
    expected = len(batch), model.latent.width
    if h.shape[-2:] != expected:
        raise UsageError(
            f"the posterior of {type(model).__name__} drew states of shape {tuple(h.shape)}: their last two dimensions "
            f"must be {expected}, the rows of the batch and the width of a state"
        )
    refuse_contradictions(model, batch, h)
    if (counter := _COUNTER.get()) is not None:
        counter.states += h.shape[:-1].numel()
    return _with_samples(h)


def _with_samples(h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "samples batch width"]:
    """Return the states with one dimension before the rows, on which a user's model may rely."""
    return h if h.ndim == 3 else h.reshape(-1, *h.shape[-2:])


def _without_samples(
    value: Float[Tensor, "samples batch"], h: Float[Tensor, "*samples batch width"]
) -> Float[Tensor, "*samples batch"]:
    """Return one number for each state, in the dimensions of the states."""
    return value if h.ndim == 3 else value.reshape(h.shape[:-1])


def _checked(name: str, value: Tensor, h: Float[Tensor, "samples batch width"]) -> Float[Tensor, "samples batch"]:
    """Return one number for each state, or refuse another shape or half precision."""
    if value.shape != h.shape[:-1]:
        raise UsageError(
            f"{name} returned shape {tuple(value.shape)} for states of shape {tuple(h.shape)}: it must be "
            f"{tuple(h.shape[:-1])}, one number per state (sum over its variables)"
        )
    if value.dtype in HALVES:
        raise UsageError(
            f"{name} returned {value.dtype}, in which a sum of log-probabilities is off by nats: sum in float32. The "
            "distributions of jsa do so for logits of any precision, those of torch if given logits.float()"
        )
    return value


def refuse_contradictions(model: LatentVariableModel, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> None:
    """Refuse states that contradict the known values of their row."""
    if batch.known is None:
        return
    contradicting = ~batch.agrees(h)
    if bool(contradicting.any()):
        row = batch.row(int(contradicting.nonzero()[0, -1]))
        raise UsageError(
            f"{type(model).__name__} got a state that contradicts the known values of row {row}: its posterior must "
            "return known values unchanged, as LayeredPosterior(..., known=batch.known) does"
        )


def log_joint_of_all(
    model: LatentVariableModel, batch: Batch, states: Float[Tensor, "states width"]
) -> Float[Tensor, "states batch"]:
    """Return log p(x, h) of the same states for every row; minus infinity where they contradict its known values."""
    h = states.unsqueeze(1).expand(-1, len(batch), -1)
    value = log_joint(model, batch.with_nothing_known(), h)
    return value if batch.known is None else value.where(batch.agrees(h), -torch.inf)


def state_dtype(model: LatentVariableModel, batch: Batch) -> torch.dtype:
    """Return the precision of enumerated states: the higher of that of the rows and of the model's parameters."""
    return reduce(torch.promote_types, {parameter.dtype for parameter in model.parameters()}, batch.state_dtype)


@dataclass(frozen=True)
class EvaluatedStates:
    """States of the rows of a batch with their log-probabilities and weights.

    Attributes:
        posterior: q(h | x) of the rows.
        h: The states.
        log_joint: log p(x, h), with its graph if gradients were enabled.
        log_inference: log q(h | x), likewise.
        log_weights: Their difference, without gradient; minus infinity for a state of probability zero.
    """

    posterior: BatchPosterior
    h: Float[Tensor, "*samples batch width"]
    log_joint: Float[Tensor, "*samples batch"]
    log_inference: Float[Tensor, "*samples batch"]
    log_weights: Float[Tensor, "*samples batch"]

    def check(self, batch: Batch) -> None:
        """Refuse a log-weight that is NaN or plus infinity."""
        refuse_non_finite(batch, self.log_joint.detach(), self.log_inference.detach(), self.log_weights)


def evaluate(
    model: LatentVariableModel,
    batch: Batch,
    posterior: BatchPosterior,
    h: Float[Tensor, "samples batch width"],
    log_inference: Float[Tensor, "samples batch"] | None = None,
) -> EvaluatedStates:
    """Evaluate states in one pass. A log-weight that is NaN is an error that names the term and the row.

    The arguments are those of ``evaluate_unchecked``.
    """
    evaluated = evaluate_unchecked(model, batch, posterior, h, log_inference)
    evaluated.check(batch)
    return evaluated


def evaluate_unchecked(
    model: LatentVariableModel,
    batch: Batch,
    posterior: BatchPosterior,
    h: Float[Tensor, "samples batch width"],
    log_inference: Float[Tensor, "samples batch"] | None = None,
) -> EvaluatedStates:
    """Evaluate states whose log-weights the caller checks, with whatever else it asks the device for.

    Args:
        model: The model.
        batch: The rows.
        posterior: q(h | x) of the rows.
        h: The states.
        log_inference: log q(h | x), if known from drawing the states.
    """
    parts = [log_joint(model, batch, part) for part in _parts(batch, h)]
    joint = parts[0] if len(parts) == 1 else torch.cat(parts)
    inference = posterior.log_prob(h) if log_inference is None else log_inference
    return EvaluatedStates(posterior, h, joint, inference, joint.detach() - inference.detach())


def _parts(batch: Batch, h: Float[Tensor, "samples batch width"]) -> tuple[Tensor, ...]:
    """Return the states in parts to be evaluated one after the other.

    When no graph is kept, the logits of some hundred states stay in the CPU cache, and memory is reused.
    """
    if torch.is_grad_enabled() or h.device.type != "cpu":
        return (h,)
    samples, rows = h.shape[:2]
    # Parts of equal size, because a small remainder would run at less than full speed.
    return h.tensor_split(min(samples, max(1, round(samples * rows / states_at_once(batch)))))


def refuse_non_finite(batch: Batch, joint: Tensor, proposal: Tensor, weights: Tensor) -> None:
    """Raise an error that names the term and the row of a log-weight that is NaN or plus infinity."""
    if bool((weights < torch.inf).all()):
        return
    refuse_wrong_joint(batch, joint)
    _refuse_where(batch, "posterior.log_prob", proposal, ~proposal.isfinite())
    raise NumericalError("a log-weight is not finite")


def refuse_wrong_joint(batch: Batch, joint: Float[Tensor, "*samples batch"]) -> None:
    """Refuse a log p(x, h) that is NaN or plus infinity, with its row."""
    _refuse_where(batch, "log_joint", joint, ~(joint < torch.inf))


def _refuse_where(batch: Batch, term: str, values: Tensor, wrong: Tensor) -> None:
    if bool(wrong.any()):
        position = tuple(wrong.nonzero()[0].tolist())
        row = batch.row(position[-1])
        raise NumericalError(f"{term} is {float(values[position])} at row {row}{_of_gaps(batch, position[-1])}")


def _of_gaps(batch: Batch, position: int) -> str:
    """Return the remedy for a row with missing values in a model that does not support them."""
    if not bool(batch.x[position].isnan().any()):
        return ""
    return ", which has missing values (NaN): use a model that supports them, such as BeliefNetwork(..., missing=True)"


@dataclass
class Counter:
    """The number of states that passed through the joint density, counted for each row of a batch."""

    states: int = 0


_COUNTER: ContextVar[Counter | None] = ContextVar("counter", default=None)


@contextmanager
def counting() -> Iterator[Counter]:
    """Count the states that ``log_joint`` and ``log_joint_terms`` pass to a model inside this block."""
    counter = Counter()
    token = _COUNTER.set(counter)
    try:
        yield counter
    finally:
        _COUNTER.reset(token)
