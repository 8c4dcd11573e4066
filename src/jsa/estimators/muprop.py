"""MuProp: the score-function gradient with a linear control variate about the mean."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch, Estimate
from jsa.estimators.base import Description, Estimator, at_least
from jsa.model import LatentVariableModel
from jsa.model_calls import log_joint, refuse_non_finite
from jsa.posteriors import LayeredPosterior
from jsa.relaxation import discrete, entropy, relaxable_posterior


class MuProp(Estimator):
    r"""The score-function gradient minus a first-order expansion about the mean, whose gradient is added back exactly.

    For each layer i with the mean m of q(h_i | h_{<i}) and the state b,

    .. math:: \left(F(b) - F_i(m) - g_i \cdot (b_i - m)\right) \nabla_\phi \log q(b_i | b_{<i})
              + g_i \cdot \nabla_\phi m + \nabla_\phi H(q(h_i | b_{<i})), \quad g_i = F_i'(m)

    where F is log p(x, b) plus the entropies of the layers after i, and F_i(y) is F with y in layer i and each later
    layer at its mean given the layers before it. The entropies are analytic given the ancestors, so log q itself is not
    part of the signal. Any F_i is valid: it is a control variate that costs one mean-field pass per layer.

    Args:
        particles: The number n of draws per row.

    References:
        Gu, Levine, Sutskever and Mnih, MuProp: unbiased backpropagation for stochastic neural networks, ICLR 2016.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="yes",
        latents="Bernoulli, categorical",
        decoder_evaluations="n L + 1 for L layers",
        reference="Gu et al., ICLR 2016",
    )

    def __init__(self, particles: int = 1) -> None:
        super().__init__()
        self.particles = at_least(particles, 1, "MuProp")

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Draw states and expand the objective about the mean of each layer."""
        posterior = relaxable_posterior(model, batch, "MuProp")
        h = posterior.sample((self.particles,))
        joint = log_joint(model, batch, h)
        slices = posterior.latent.slices
        layers = [discrete(posterior.conditional(i, h[..., : where.start])) for i, where in enumerate(slices)]
        log_probs = [layer.log_prob(h[..., where]) for layer, where in zip(layers, slices, strict=True)]
        inference = torch.stack(log_probs).sum(0).detach()
        log_weights = joint.detach() - inference
        refuse_non_finite(batch, joint.detach(), inference, log_weights)
        gain = batch.mean(joint)
        signal = joint.detach()
        for number in reversed(range(len(layers))):
            mean, state = layers[number].mean, h[..., slices[number]]
            value, slope = self._expansion(model, batch, posterior, number, h[..., : slices[number].start], mean)
            residual = signal - value - (slope * (state - mean.detach())).sum(-1)
            gain = gain + batch.mean(residual * log_probs[number]) + batch.mean(self._put_back(slope, mean))
            uncertainty = entropy(layers[number])
            gain = gain + batch.mean(uncertainty)
            # The layer before this one can change this layer's entropy too.
            signal = signal + uncertainty.detach()
        return Estimate(-gain, batch.mean(log_weights), log_weights, {})

    @torch.enable_grad()
    def _expansion(
        self,
        model: LatentVariableModel,
        batch: Batch,
        posterior: LayeredPosterior,
        number: int,
        ancestors: Float[Tensor, "samples batch above"],
        mean: Float[Tensor, "*drawn batch layer"],
    ) -> tuple[Float[Tensor, "expanded batch"], Float[Tensor, "expanded batch layer"]]:
        """Return the mean-field objective from a layer on and its slope, at the layer's mean.

        The first layer has no ancestors, so its expansion is the same for all draws and has one sample.
        """
        ancestors = ancestors[:1] if number == 0 else ancestors
        center = mean.detach().expand(*ancestors.shape[:-1], -1).clone().requires_grad_()
        state = torch.cat([ancestors, center], dim=-1)
        entropies = torch.zeros_like(center[..., 0])
        for deeper in range(number + 1, len(posterior.latent.layers)):
            distribution = discrete(posterior.conditional(deeper, state))
            entropies = entropies + entropy(distribution)
            state = torch.cat([state, distribution.mean], dim=-1)
        value = log_joint(model, batch, state) + entropies
        # Differentiated here, so that the mean-field pass does not reach theta, and reaches phi through the slope only.
        (slope,) = torch.autograd.grad(value.sum(), center)
        return value.detach(), slope

    def _put_back(self, slope: Tensor, mean: Tensor) -> Tensor:
        """Return a term whose gradient in phi is that of the control variate's mean."""
        return (slope * mean).sum(-1)
