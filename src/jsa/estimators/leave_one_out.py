"""REINFORCE with the mean signal of the other draws as baseline."""

from __future__ import annotations

from typing import ClassVar

from jsa.batch import Batch, Estimate
from jsa.estimators.base import Description, Estimator, at_least, score_samples
from jsa.model import LatentVariableModel


class LeaveOneOut(Estimator):
    r"""RLOO: each draw's baseline is the mean signal of the others.

    .. math:: \frac1n \sum_k \Big( f_k - \frac1{n-1} \sum_{j \ne k} f_j \Big) \nabla_\phi \log q(h_k | x)
              + \nabla_\theta \log p(x, h_k)

    The rows that the paper labels VIMCO were computed with this method.

    Args:
        particles: The number n of draws per row, at least 2.

    References:
        Salimans and Knowles, On using control variates with stochastic approximation for variational Bayes and its
        connection to stochastic linear regression, 2014;
        Kool, van Hoof and Welling, Buy 4 REINFORCE samples, get a baseline for free!, 2019.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="yes",
        latents="all",
        decoder_evaluations="n",
        reference="Salimans & Knowles 2014; Kool et al. 2019",
    )

    def __init__(self, particles: int = 2) -> None:
        super().__init__()
        self.particles = at_least(particles, 2, "RLOO")

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Draw states and center each signal by the others."""
        draws = score_samples(model, batch, self.particles)
        signal = draws.log_weights
        others = (signal.sum(0) - signal) / (self.particles - 1)
        loss = -batch.mean((signal - others) * draws.log_inference + draws.log_joint)
        return Estimate(loss, batch.mean(signal), signal, {})
