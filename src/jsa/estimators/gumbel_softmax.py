"""Gumbel-Softmax: the ELBO at relaxed states, with the entropy of the discrete inference model."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from jsa.batch import Batch, Estimate
from jsa.estimators.base import Description, Estimator, at_least
from jsa.latent import Layer
from jsa.model import LatentVariableModel
from jsa.model_calls import log_joint, refuse_non_finite
from jsa.relaxation import (
    LatentConditionals,
    Temperature,
    discrete,
    entropy,
    positive,
    relaxable_posterior,
    relaxed,
    relaxed_draw,
    uniforms_for,
)


class GumbelSoftmax(Estimator):
    r"""The reparameterized gradient of the ELBO with relaxed states in place of discrete ones.

    .. math:: \frac1n \sum_k \log p(x, y_k) + \sum_i H(q(h_i | x, y_{k,<i})), \quad
              y_i = \sigma(z_i / \tau) \text{ or } \mathrm{softmax}(z_i / \tau)

    is differentiated through y. The entropies are those of the discrete layers, and analytic. If the model gives the
    factors of its prior (``latent_conditionals``), the log-probability of the last layer is replaced by its expectation
    given the layers before it: for one layer, the objective is then the relaxed reconstruction minus the analytic
    divergence KL(q(h | x) || p(h)). A deeper layer is drawn given the relaxed layers before it. As the temperature
    tends to 0, the bias for the ELBO vanishes and the variance grows.

    Args:
        particles: The number n of draws per row.
        temperature: The temperature tau.

    References:
        Jang, Gu and Poole, Categorical reparameterization with Gumbel-Softmax, ICLR 2017.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO at relaxed states",
        unbiased="no: biased for the ELBO, less so at low temperature",
        latents="Bernoulli, categorical",
        decoder_evaluations="n",
        reference="Jang et al., ICLR 2017",
    )
    name: ClassVar[str] = "Gumbel-Softmax"

    def __init__(self, particles: int = 1, temperature: float = 0.5) -> None:
        super().__init__()
        self.particles = at_least(particles, 1, self.name)
        self.temperature = positive(temperature, f"the temperature of {self.name}")

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Draw relaxed states and let the gradient flow through them."""
        posterior = relaxable_posterior(model, batch, self.name)
        layers = relaxed_draw(posterior, uniforms_for(posterior, self.particles), self.temperature, self._value)
        h = torch.cat([layer.value for layer in layers], dim=-1)
        joint = log_joint(model, batch, h)
        inference = torch.stack([layer.distribution.log_prob(layer.value) for layer in layers]).sum(0)
        log_weights = (joint - inference).detach()
        refuse_non_finite(batch, joint.detach(), inference.detach(), log_weights)
        bound = joint
        for layer in layers:
            bound = bound + entropy(layer.distribution)
        if isinstance(model, LatentConditionals):
            # log_prob is linear in the state, so its value at the mean is its expectation.
            top, prior = layers[-1], discrete(model.latent_conditionals(batch, h)[-1])
            bound = bound + prior.log_prob(top.distribution.mean) - prior.log_prob(top.value)
        return Estimate(-batch.mean(bound), batch.mean(bound.detach()), log_weights, {})

    @staticmethod
    def _value(layer: Layer, z: Tensor, temperature: Temperature) -> Tensor:
        """Return the part of the state vector for these perturbed logits."""
        return relaxed(layer, z, temperature)
