"""Reweighted wake-sleep."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch, Estimate
from jsa.errors import UsageError
from jsa.estimators.base import Description, at_least
from jsa.estimators.weighted import WeightedEstimator, weighted_loss
from jsa.importance import effective_sample_size, log_mean_weight
from jsa.model import Generative, LatentVariableModel
from jsa.model_calls import evaluate_unchecked, posterior_of


class ReweightedWakeSleep(WeightedEstimator):
    r"""RWS: importance-weighted gradients for the model and for the inference model.

    .. math:: \sum_k \bar w_k \nabla \left[ \log p_\theta(x, h_k) + \log q_\phi(h_k | x) \right],
              \quad h_k \sim q(h | x)

    is the wake phase, for theta and for phi. In the sleep phase q learns from draws of the model, by log q(h | x) at
    (x, h) from p; ``sleep`` is its share in the gradient of phi.

    Args:
        particles: The number n of draws per row.
        sleep: The share of the sleep phase in the gradient of phi: 0 as in the paper, 1 for sleep alone.

    References:
        Bornschein and Bengio, Reweighted wake-sleep, ICLR 2015;
        Le, Kosiorek, Siddharth, Teh and Wood, Revisiting reweighted wake-sleep for models with stochastic
        control flow, UAI 2019.
    """

    description: ClassVar[Description] = Description(
        optimizes="multi-sample bound for theta, KL(p(h|x) || q(h|x)) for phi",
        unbiased="for theta; the wake phase of phi has a bias of order 1/n, sleep is unbiased under the model's own x",
        latents="all",
        decoder_evaluations="n, and a backward over the states that count",
        reference="Bornschein & Bengio, ICLR 2015; Le et al., UAI 2019",
    )

    def __init__(self, particles: int = 2, sleep: float = 0.0) -> None:
        super().__init__()
        self.particles = at_least(particles, 1, "RWS")
        if not 0 <= sleep <= 1:
            raise UsageError(f"the share of the sleep phase is a number from 0 to 1, not {sleep}")
        self.sleep = sleep

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Draw and weight states, and add the sleep phase if it has a share."""
        posterior = posterior_of(model, batch)
        with self.evaluating_candidates():
            evaluated = evaluate_unchecked(model, batch, posterior, *posterior.sample_with_log_prob((self.particles,)))
        weights = evaluated.log_weights
        loss = self.remember(weighted_loss(model, batch, evaluated, weights.softmax(0), 1 - self.sleep))
        if self.sleep:
            loss = loss + self.sleep * _dream_loss(model, batch)
        diagnostics = {"effective_sample_size": effective_sample_size(weights).mean()}
        return Estimate(loss, batch.mean(log_mean_weight(weights)), weights, diagnostics)


def _dream_loss(model: LatentVariableModel, batch: Batch) -> Float[Tensor, ""]:
    """Return minus the mean of log q(h | x) over one draw of (x, h) from the model per row of the batch.

    The draw has the context and the missing values of its row, and so also its weight.
    """
    if not isinstance(model, Generative):
        raise UsageError(
            f"the sleep phase draws from the model, which {type(model).__name__} does not support: define its methods "
            "sample_latent and observation, or use sleep=0"
        )
    with torch.no_grad():
        h = model.sample_latent((len(batch),)) if batch.context is None else model.sample_latent((), batch.context)
        x = model.observation(h, batch.context).sample()
        if x.shape == batch.x.shape:
            # A draw gets the missing values of its row, because q learns to infer from rows with missing values.
            x = x.masked_fill(batch.x.isnan(), torch.nan)
    return -batch.mean(posterior_of(model, Batch(x, batch.index, batch.context)).log_prob(h))
