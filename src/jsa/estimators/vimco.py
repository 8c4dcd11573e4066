"""VIMCO: the gradient of the multi-sample bound with a leave-one-out baseline."""

from __future__ import annotations

from typing import ClassVar

import torch

from jsa.batch import Batch, Estimate
from jsa.estimators.base import Description, Estimator, at_least, score_samples
from jsa.importance import leave_one_out_bounds, log_mean_weight
from jsa.model import LatentVariableModel


class VIMCO(Estimator):
    r"""Variational inference for Monte Carlo objectives.

    .. math:: \sum_k (L - L_{-k} - \bar w_k) \nabla_\phi \log q(h_k | x) + \bar w_k \nabla_\theta \log p(x, h_k)

    where L is the log of the mean weight, L_{-k} is L with f_k replaced by the mean of the others, and w-bar are
    the normalized weights. The term in w-bar comes from the derivative of L itself.

    Args:
        particles: The number n of draws per row, at least 2.

    References:
        Mnih and Rezende, Variational inference for Monte Carlo objectives, ICML 2016.
    """

    description: ClassVar[Description] = Description(
        optimizes="multi-sample bound",
        unbiased="yes",
        latents="all",
        decoder_evaluations="n",
        reference="Mnih & Rezende, ICML 2016",
    )

    def __init__(self, particles: int = 2) -> None:
        super().__init__()
        self.particles = at_least(particles, 2, "VIMCO")

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Draw states and weight each score by the contribution of its draw to the bound."""
        draws = score_samples(model, batch, self.particles)
        weights = draws.log_weights
        bound = log_mean_weight(weights)
        gain = bound - leave_one_out_bounds(weights)
        normalized = weights.softmax(0)
        # A state of probability zero has weight zero and must not count, although its log-weight is minus infinity.
        joint = torch.where(normalized > 0, draws.log_joint, 0)
        surrogate = (gain - normalized) * draws.log_inference + normalized * joint
        return Estimate(-batch.mean(surrogate.sum(0)), batch.mean(bound), weights, {})
