"""What weighted-sample methods share: the loss, minus a weighted mean of log p(x, h) + log q(h | x), at least cost."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jsa.batch import Batch
from jsa.estimators.base import Estimator
from jsa.model import LatentVariableModel
from jsa.model_calls import EvaluatedStates, log_joint


class WeightedEstimator(Estimator, ABC):
    """A method that evaluates candidates, weighs them, and differentiates log p + log q at those that count.

    A backward pass costs two forward passes. So where most candidates count, one pass with a graph is cheapest; where
    few do, a pass without graph over all and a second one, differentiated, over those few. Which of them count is known
    only after the first pass, and is much the same from one step to the next: the share of the last step decides.
    """

    bookkeeping: ClassVar[tuple[str, ...]] = ("counting_share",)
    counting_share: Tensor

    def __init__(self) -> None:
        super().__init__()
        # In the state_dict, because the choice moves the last digits: a run that goes on must choose alike.
        self.register_buffer("counting_share", torch.ones(()))

    @contextmanager
    def evaluating_candidates(self) -> Iterator[None]:
        """Within it candidates are evaluated with a graph or without, whichever was cheaper at the last step."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and _one_pass_is_cheaper(float(self.counting_share))):
            yield

    def remember(self, weighted: WeightedLoss) -> Float[Tensor, ""]:
        """The loss; how many candidates counted is remembered for the next step."""
        if self.training:
            self.counting_share.fill_(weighted.counting_share)
        return weighted.loss


class WeightedLoss(NamedTuple):
    """A loss, and which share of the candidates it was made of."""

    loss: Float[Tensor, ""]
    counting_share: float


def weighted_loss(
    model: LatentVariableModel,
    batch: Batch,
    evaluated: EvaluatedStates,
    weights: Float[Tensor, "candidates batch"],
    inference_scale: float = 1.0,
) -> WeightedLoss:
    """Minus the batch mean of sum_k w_k (log p(x, h_k) + log q(h_k | x)), over the states that count only.

    The weights, which sum to one for each row, and the states are constants.

    Args:
        model: The model.
        batch: The rows.
        evaluated: The candidates. Their graph is used where they have one and where that costs less than another pass
            over those that count.
        weights: The weight of each candidate.
        inference_scale: A factor of the second term.
    """
    counting = non_negligible(weights)
    candidate, row = counting.nonzero(as_tuple=True)
    share = len(row) / weights.numel()
    if (
        evaluated.log_joint.requires_grad
        and _one_pass_is_cheaper(share)
        # The slope of a state of probability zero may be no number, which a weight of zero does not cure.
        and bool(evaluated.log_weights.isfinite().all())
    ):
        terms = evaluated.log_joint + inference_scale * evaluated.log_inference
        return WeightedLoss(-(weights.where(counting, 0) * terms).sum() / len(batch), share)

    visited, weight = evaluated.h[candidate, row], weights[candidate, row]
    total = (weight * log_joint(model, batch.take(row), visited)).sum()
    narrowed = evaluated.posterior.take(row)
    if narrowed is not None:
        total = total + inference_scale * (weight * narrowed.log_prob(visited)).sum()
    else:
        # A posterior of the user's own may know its rows only as they are: all states pass, and the
        # dropped ones count for nothing.
        inference = evaluated.posterior.log_prob(evaluated.h)
        total = total + inference_scale * (weights * inference.where(counting, 0)).sum()
    return WeightedLoss(-total / len(batch), share)


def non_negligible(weights: Float[Tensor, "candidates batch"]) -> Bool[Tensor, "candidates batch"]:
    """Which candidates count: most of a chain are refused and carry no weight.

    A weight below the square of the precision is dropped too: no sum can show it, and products with it are denormal
    numbers, which slow a backward pass severalfold.
    """
    return weights > torch.finfo(weights.dtype).eps ** 2


def _one_pass_is_cheaper(counting_share: float) -> bool:
    """Whether differentiating all candidates (1 + 2 passes) costs less than evaluating all and differentiating some."""
    return 1 + 3 * counting_share >= 3
