"""The Concrete relaxation: the ELBO of a model whose latent variables are relaxed, with their densities."""

from __future__ import annotations

from typing import ClassVar

import torch

from jsa.batch import Batch, Estimate
from jsa.errors import UsageError
from jsa.estimators.base import Description, Estimator, at_least
from jsa.model import LatentVariableModel
from jsa.model_calls import log_joint, refuse_non_finite
from jsa.relaxation import (
    ALTERNATIVES,
    LatentConditionals,
    discrete,
    log_space,
    positive,
    relaxable_posterior,
    relaxed_draw,
    relaxed_log_density,
    uniforms_for,
)


class Concrete(Estimator):
    r"""The reparameterized gradient of the ELBO of the relaxed model.

    .. math:: \frac1n \sum_k \log p(x | y_k) + \log p_{\tau_p}(y_k) - \log q_\tau(y_k | x)

    where every factor of the prior and of q is replaced by the density of its relaxation. This is a lower bound on the
    likelihood of the *relaxed* model, and its gradient is unbiased for that bound. It is not a bound for the discrete
    model, and does not become one at low temperature: with equal temperatures the divergence between the densities is
    that between logistic (or Gumbel) variables, whatever the temperature, and exceeds the one between the states.

    The discrete log p(y) cannot replace the density of the prior: in logit space the density of q along its own draws
    does not depend on the logits at all, so nothing would keep q from collapsing. The model must therefore give the
    factors of its prior in a method ``latent_conditionals``.

    Args:
        particles: The number n of draws per row.
        temperature: The temperature tau of q.
        prior_temperature: The temperature of the prior's factors; if None, that of q.

    References:
        Maddison, Mnih and Teh, The Concrete distribution: a continuous relaxation of discrete random variables, ICLR
        2017.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO of the relaxed model",
        unbiased="yes; biased for the ELBO of the discrete model",
        latents="Bernoulli, categorical",
        decoder_evaluations="n",
        reference="Maddison et al., ICLR 2017",
    )

    def __init__(self, particles: int = 1, temperature: float = 0.5, prior_temperature: float | None = None) -> None:
        super().__init__()
        self.particles = at_least(particles, 1, "Concrete")
        self.temperature = positive(temperature, "the temperature of Concrete")
        self.prior_temperature = positive(
            temperature if prior_temperature is None else prior_temperature, "the prior temperature of Concrete"
        )

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Draw relaxed states and let the gradient flow through them."""
        if batch.known is not None:
            # The density of a relaxed prior does not tend to a probability as a state becomes certain.
            raise UsageError(f"Concrete cannot learn from known latents: {ALTERNATIVES}, or gumbel-softmax")
        posterior = relaxable_posterior(model, batch, "Concrete")
        if not isinstance(model, LatentConditionals):
            raise UsageError(
                f"Concrete needs the factors of the prior, and {type(model).__name__} has no method "
                f"'latent_conditionals': {ALTERNATIVES}, or gumbel-softmax"
            )
        layers = relaxed_draw(posterior, uniforms_for(posterior, self.particles), self.temperature)
        h = torch.cat([layer.value for layer in layers], dim=-1)
        # log_joint includes the discrete factors of the prior: replace them by the densities.
        joint = log_joint(model, batch, h)
        inference = torch.zeros_like(joint)
        for layer, factor in zip(layers, model.latent_conditionals(batch, h), strict=True):
            prior = discrete(factor)
            point = log_space(prior.layer, layer.z, self.temperature)
            density = relaxed_log_density(prior, point, self.prior_temperature)
            joint = joint + density - prior.log_prob(layer.value)
            inference = inference + relaxed_log_density(layer.distribution, point, self.temperature)
        bound = joint - inference
        refuse_non_finite(batch, joint.detach(), inference.detach(), bound.detach())
        return Estimate(-batch.mean(bound), batch.mean(bound.detach()), bound.detach(), {})
