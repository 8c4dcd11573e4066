"""The loss of weighted-sample methods, minus a weighted mean of log p(x, h) + log q(h | x), at the lowest cost."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jsa.batch import Batch, weighted
from jsa.estimators.base import Estimator
from jsa.model import LatentVariableModel
from jsa.model_calls import EvaluatedStates, log_joint


class WeightedEstimator(Estimator, ABC):
    """A method that evaluates candidates, weighs them, and differentiates log p + log q at those that count.

    A backward pass costs two forward passes. So if most candidates count, one pass with a graph is cheapest; if few do,
    it is a pass without a graph over all and a second, differentiated one over those few. Which of them count is known
    only after the first pass and changes little from one step to the next: the share of the last step decides.
    """

    bookkeeping: ClassVar[tuple[str, ...]] = ("counting_share",)
    counting_share: Tensor

    def __init__(self) -> None:
        super().__init__()
        # In the state_dict, because the choice moves the last digits: a run that goes on must choose alike.
        self.register_buffer("counting_share", torch.ones(()))
        self.register_load_state_dict_post_hook(_take_share)  # type: ignore[no-untyped-call]
        # The same as a number, which nobody waits for.
        self._share = 1.0

    @contextmanager
    def evaluating_candidates(self) -> Iterator[None]:
        """Evaluate candidates inside this block with or without a graph, whichever was cheaper at the last step."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and _one_pass_is_cheaper(self._share)):
            yield

    def remember(self, weighted: WeightedLoss) -> Float[Tensor, ""]:
        """Return the loss, and remember for the next step how many candidates counted."""
        if self.training:
            self.counting_share.fill_(weighted.counting_share)
            self._share = weighted.counting_share
        return weighted.loss


class WeightedLoss(NamedTuple):
    """A loss, and the share of the candidates that counted in it."""

    loss: Float[Tensor, ""]
    counting_share: float


def weighted_loss(
    model: LatentVariableModel,
    batch: Batch,
    evaluated: EvaluatedStates,
    weights: Float[Tensor, "candidates batch"],
    inference_scale: float = 1.0,
) -> WeightedLoss:
    """Return minus the batch mean of sum_k w_k (log p(x, h_k) + log q(h_k | x)), over the states that count only.

    The weights, which sum to one for each row, and the states are constants.

    Args:
        model: The model.
        batch: The rows.
        evaluated: The candidates. Their graph is used if they have one and if that costs less than another pass over
            those that count.
        weights: The weight of each candidate.
        inference_scale: A factor of the second term.
    """
    counting = non_negligible(weights)
    # All that the device is asked for, at once.
    log_weights = evaluated.log_weights
    sound, finite = (log_weights < torch.inf).all(), log_weights.isfinite().all()
    answers = torch.cat([torch.stack([sound, finite]), counting.flatten()]).cpu()
    if not bool(answers[0]):
        evaluated.check(batch)
    candidate, here = answers[2:].view(counting.shape).nonzero(as_tuple=True)
    candidate, row = candidate.to(weights.device), here.to(weights.device)
    weights = weighted(weights, batch.weight)
    share = len(row) / weights.numel()
    if (
        evaluated.log_joint.requires_grad
        and _one_pass_is_cheaper(share)
        # The gradient at a state of probability zero may be NaN, which stays NaN after multiplication by zero.
        and bool(answers[1])
    ):
        terms = evaluated.log_joint + inference_scale * evaluated.log_inference
        return WeightedLoss(-(weights.where(counting, 0) * terms).sum() / len(batch), share)

    visited, weight = evaluated.h[candidate, row], weights[candidate, row]
    total = (weight * log_joint(model, batch.take(here), visited)).sum()
    narrowed = evaluated.posterior.take(row)
    if narrowed is not None:
        total = total + inference_scale * (weight * narrowed.log_prob(visited)).sum()
    else:
        # A user-defined posterior may not support a selection of rows: evaluate all states, with weight
        # zero for the dropped ones.
        inference = evaluated.posterior.log_prob(evaluated.h)
        total = total + inference_scale * (weights * inference.where(counting, 0)).sum()
    return WeightedLoss(-total / len(batch), share)


def _take_share(estimator: WeightedEstimator, _: object) -> None:
    """Take over a share that was loaded."""
    estimator._share = float(estimator.counting_share)


def non_negligible(weights: Float[Tensor, "candidates batch"]) -> Bool[Tensor, "candidates batch"]:
    """Return which candidates count: most proposals to a chain are rejected and carry no weight.

    A weight below the square of the machine precision is dropped too: it is lost in any sum, and products with it are
    denormal numbers, which slow down a backward pass severalfold.
    """
    return weights > torch.finfo(weights.dtype).eps ** 2


def _one_pass_is_cheaper(counting_share: float) -> bool:
    """Return whether differentiating all candidates (1 + 2 passes) is cheaper than evaluating all and some again."""
    return 1 + 3 * counting_share >= 3
