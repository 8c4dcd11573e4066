"""What an estimator sees of a model: the joint density and the inference model, and nothing else."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jsa.distributions import Factorised
from jsa.errors import NumericalError, UsageError
from jsa.latent import LatentSpace
from jsa.posteriors import SampledWithLogProb
from jsa.types import HALVES, Batch

LOGITS_AT_ONCE = 800_000
FEWEST_STATES, MOST_STATES = 1_000, 4_000


def states_at_once(batch: Batch) -> int:
    """About how many states are evaluated at once where no graph is kept.

    Few enough for their logits to stay in the processor's cache, enough for the matrix products to run at full speed.
    """
    return min(MOST_STATES, max(FEWEST_STATES, LOGITS_AT_ONCE // max(1, math.prod(batch.x.shape[1:]))))


@runtime_checkable
class Posterior(Protocol):
    """The inference model q(h | x) of a batch: anything with these two methods."""

    def sample(self, shape: tuple[int, ...], /) -> Float[Tensor, "*samples batch width"]:
        """Draws of shape (*shape, batch, width); a gradient that they might carry is cut off."""
        ...

    def log_prob(self, h: Float[Tensor, "*samples batch width"], /) -> Float[Tensor, "*samples batch"]:
        """The log-probability of states, one for each row of the batch."""
        ...


class LatentVariableModel(nn.Module, ABC):
    """A model p(x, h) with its inference model q(h | x): subclass it, say what h is, write the two methods.

    States come in single precision or double. Under autocast nothing is to be done about it; a network whose own
    weights are in half precision needs ``h.to(...)`` in ``log_joint``.

    Attributes:
        latent: What a state h is made of.
        relaxable: Whether ``log_joint`` and the posterior's conditionals take discrete variables with values between
            the states, such as 0.3 for a bit: methods that relax them or expand about a mean ask for it.
    """

    latent: LatentSpace
    relaxable: bool = False

    @abstractmethod
    def log_joint(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
        """log p(x, h), or log p(x, h | context): one number for each state, the rows of the batch last."""

    @abstractmethod
    def posterior(self, batch: Batch) -> Posterior:
        """q(h | x) for each row of the batch: one pass of the inference network, shared by all draws."""


@runtime_checkable
class Generative(Protocol):
    """A model that can also be drawn from: for samples and reconstructions."""

    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Float[Tensor, "*samples width"]:
        """Latent states from the prior: of shape (*shape, width), or (*shape, batch, width) given a context."""
        ...

    def observation(self, h: Float[Tensor, "*samples width"], context: Tensor | None = None) -> Factorised:
        """p(x | h), or p(x | h, context)."""
        ...


@runtime_checkable
class LayeredJoint(Protocol):
    """A model whose joint density falls into terms that the layers fix one after the other."""

    def log_joint_terms(
        self, batch: Batch, h: Float[Tensor, "*samples batch width"]
    ) -> list[Float[Tensor, "*samples batch"]]:
        """The terms of ``log_joint``: term i is fixed as soon as layers 0 ... i are drawn, the last one with all."""
        ...


def log_joint(
    model: LatentVariableModel, batch: Batch, h: Float[Tensor, "*samples batch width"]
) -> Float[Tensor, "*samples batch"]:
    """``model.log_joint`` with its shape checked: a wrong shape would broadcast and train something else.

    States that contradict what is known of their row are refused: a posterior that does not look at ``batch.known``
    would learn as if nothing were known.
    """
    refuse_contradictions(model, batch, h)
    value = model.log_joint(batch, h)
    _refuse_wrong_form(f"{type(model).__name__}.log_joint", value, h)
    return value


def log_joint_terms(
    model: LatentVariableModel, batch: Batch, h: Float[Tensor, "*samples batch width"]
) -> list[Float[Tensor, "*samples batch"]] | None:
    """``model.log_joint_terms`` with the same checks; none where the model has no such method."""
    if not isinstance(model, LayeredJoint):
        return None
    refuse_contradictions(model, batch, h)
    terms = model.log_joint_terms(batch, h)
    for number, term in enumerate(terms):
        _refuse_wrong_form(f"term {number} of {type(model).__name__}.log_joint_terms", term, h)
    return terms


def _refuse_wrong_form(name: str, value: Tensor, h: Float[Tensor, "*samples batch width"]) -> None:
    if value.shape != h.shape[:-1]:
        raise UsageError(
            f"{name} returned shape {tuple(value.shape)} for states of shape {tuple(h.shape)}: it must be "
            f"{tuple(h.shape[:-1])}, one number a state (sum over the observed variables)"
        )
    if value.dtype in HALVES:
        raise UsageError(
            f"{name} returned {value.dtype}, in which a sum of log-probabilities is off by nats: sum in float32, as "
            "jsa's distributions do with logits of any precision"
        )


def refuse_contradictions(model: LatentVariableModel, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> None:
    """Refuses states that contradict what is known of their row, and what is known if it is no state."""
    if batch.known is None:
        return
    model.latent.refuse_wrong_known(batch.known)
    contradicting = ~batch.agrees(h)
    if bool(contradicting.any()):
        row = int(batch.index[contradicting.nonzero()[0, -1]])
        raise UsageError(
            f"{type(model).__name__} was given a state that contradicts what is known of row {row}: its posterior must "
            "draw what is known as it is, for instance LayeredPosterior(..., known=batch.known)"
        )


def log_joint_of_all(
    model: LatentVariableModel, batch: Batch, states: Float[Tensor, "states width"]
) -> Float[Tensor, "states batch"]:
    """log p(x, h) of the same states for every row; minus infinity where they contradict what is known of it."""
    h = states.unsqueeze(1).expand(-1, len(batch), -1)
    value = log_joint(model, batch.with_nothing_known(), h)
    return value if batch.known is None else value.where(batch.agrees(h), -torch.inf)


def log_prob(posterior: Posterior, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
    """``posterior.log_prob`` with its shape checked."""
    value = posterior.log_prob(h)
    if value.shape != h.shape[:-1]:
        raise UsageError(
            f"{type(posterior).__name__}.log_prob returned shape {tuple(value.shape)} for states of shape "
            f"{tuple(h.shape)}: it must be {tuple(h.shape[:-1])}, one number a state (sum over the latent variables)"
        )
    return value


@dataclass(frozen=True)
class EvaluatedStates:
    """States of the rows of a batch with all that methods make of them.

    Attributes:
        posterior: q(h | x) of the rows.
        h: The states.
        log_joint: log p(x, h), with its graph where it was computed with gradients.
        log_inference: log q(h | x), likewise.
        log_weights: Their difference, without gradient; minus infinity is a state of probability zero.
    """

    posterior: Posterior
    h: Float[Tensor, "*samples batch width"]
    log_joint: Float[Tensor, "*samples batch"]
    log_inference: Float[Tensor, "*samples batch"]
    log_weights: Float[Tensor, "*samples batch"]


def draw(
    posterior: Posterior, samples: int
) -> tuple[Float[Tensor, "samples batch width"], Float[Tensor, "samples batch"]]:
    """So many states from q(h | x) for each row, and their log q, with gradient where that is enabled."""
    if isinstance(posterior, SampledWithLogProb):
        h, log_inference = posterior.sample_with_log_prob((samples,))
        return h.detach(), log_inference
    h = posterior.sample((samples,)).detach()
    return h, log_prob(posterior, h)


def evaluate(
    model: LatentVariableModel,
    batch: Batch,
    posterior: Posterior,
    h: Float[Tensor, "samples batch width"],
    log_inference: Float[Tensor, "samples batch"] | None = None,
) -> EvaluatedStates:
    """One pass over states; a log-weight that is no number is an error that names the term and the row.

    Args:
        model: The model.
        batch: The rows.
        posterior: q(h | x) of the rows.
        h: The states.
        log_inference: log q(h | x) where it is known from drawing them.
    """
    parts = [log_joint(model, batch, part) for part in _parts(batch, h)]
    joint = parts[0] if len(parts) == 1 else torch.cat(parts)
    inference = log_prob(posterior, h) if log_inference is None else log_inference
    weights = joint.detach() - inference.detach()
    refuse_non_finite(batch, joint.detach(), inference.detach(), weights)
    return EvaluatedStates(posterior, h, joint, inference, weights)


def _parts(batch: Batch, h: Float[Tensor, "samples batch width"]) -> tuple[Tensor, ...]:
    """The states in parts that are evaluated one after the other.

    Without a graph to keep, the logits of some hundred states stay in the processor's cache, and memory is used again.
    """
    if torch.is_grad_enabled() or h.device.type != "cpu":
        return (h,)
    samples, rows = h.shape[:2]
    # Parts of equal size: a small rest would run at less than full speed.
    return h.tensor_split(min(samples, max(1, round(samples * rows / states_at_once(batch)))))


def refuse_non_finite(batch: Batch, joint: Tensor, proposal: Tensor, weights: Tensor) -> None:
    """Names the term and the row of a log-weight that is no number; minus infinity is one."""
    if bool((weights < torch.inf).all()):
        return
    refuse_wrong_joint(batch, joint)
    _refuse_where(batch, "posterior.log_prob", proposal, ~proposal.isfinite())
    raise NumericalError("a log-weight is not finite")


def refuse_wrong_joint(batch: Batch, joint: Float[Tensor, "*samples batch"]) -> None:
    """Names the row of a log p(x, h) that is no number; minus infinity is one."""
    _refuse_where(batch, "log_joint", joint, ~(joint < torch.inf))


def _refuse_where(batch: Batch, term: str, values: Tensor, wrong: Tensor) -> None:
    if bool(wrong.any()):
        position = tuple(wrong.nonzero()[0].tolist())
        row = int(batch.index[position[-1]])
        raise NumericalError(f"{term} is {float(values[position])} at row {row}{_of_gaps(batch, position[-1])}")


def _of_gaps(batch: Batch, position: int) -> str:
    """What to do about a row of which values are missing, where this model does not know it."""
    if not bool(batch.x[position].isnan().any()):
        return ""
    return ", of which values are missing (NaN): make the model for such, as BeliefNetwork(..., missing=True) is"
