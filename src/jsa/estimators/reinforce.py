"""REINFORCE, the score-function estimator of the ELBO's gradient."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from jsa.batch import Batch, Estimate
from jsa.errors import UsageError
from jsa.estimators.base import Description, Estimator, at_least, follow, mean_signal, score_samples
from jsa.model import LatentVariableModel

Baseline = Literal["none", "running"]


class Reinforce(Estimator):
    r"""REINFORCE: the learning signal times the score.

    .. math:: \frac1n \sum_k (f_k - b) \nabla_\phi \log q(h_k | x) + \nabla_\theta \log p(x, h_k), \quad
              f_k = \log p(x, h_k) - \log q(h_k | x)

    The baseline b must not depend on the draws of this step: ``running`` is the exponential mean of earlier signals,
    by the weights of the rows.

    Args:
        particles: The number n of draws per row.
        baseline: ``none``, or ``running``.
        decay: The decay of the running mean.

    References:
        Williams, Simple statistical gradient-following algorithms for connectionist reinforcement learning, Machine
        Learning 8 (1992).
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="yes",
        latents="all",
        decoder_evaluations="n",
        reference="Williams, Machine Learning 1992",
    )
    running_signal: Tensor
    steps: Tensor

    def __init__(self, particles: int = 1, baseline: Baseline = "none", decay: float = 0.9) -> None:
        super().__init__()
        self.particles = at_least(particles, 1, "REINFORCE")
        if baseline not in get_args(Baseline):
            raise UsageError(f"the baseline of REINFORCE is one of {', '.join(get_args(Baseline))}, not {baseline!r}")
        self.baseline = baseline
        self.decay = decay
        self.register_buffer("running_signal", torch.zeros(()))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Draw states and weight each score by its centered signal."""
        draws = score_samples(model, batch, self.particles)
        signal = draws.log_weights
        centered = signal
        if self.baseline == "running":
            # The running mean starts at zero; the division removes the bias of that start.
            correction = 1 - self.decay ** self.steps.clamp_min(1).to(signal.dtype)
            centered = signal - torch.where(self.steps > 0, self.running_signal / correction, 0.0)
            if self.training:
                follow(self.running_signal, mean_signal(batch, signal), 1 - self.decay)
                self.steps += 1
        loss = -batch.mean(centered * draws.log_inference + draws.log_joint)
        return Estimate(loss, batch.mean(signal), signal, {})
