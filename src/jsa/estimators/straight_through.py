"""Straight-through Gumbel-Softmax: discrete states in the forward pass, relaxed ones in the backward pass."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from jsa.estimators.base import Description
from jsa.estimators.gumbel_softmax import GumbelSoftmax
from jsa.latent import Layer
from jsa.relaxation import Temperature, straight_through


class StraightThrough(GumbelSoftmax):
    r"""Gumbel-Softmax with discrete states that have the gradient of the relaxed ones.

    .. math:: h = \mathrm{hard}(z) - \mathrm{sg}(y) + y

    replaces y in the bound of :class:`~jsa.estimators.gumbel_softmax.GumbelSoftmax`. The states are draws from
    q(h | x), so the bound is an unbiased estimate of the ELBO, and so is its gradient for theta. The gradient for phi
    is biased at every temperature, because slopes at the states replace differences between them.

    Args:
        particles: The number n of draws per row.
        temperature: The temperature tau of the backward pass.

    References:
        Jang, Gu and Poole, Categorical reparameterization with Gumbel-Softmax, ICLR 2017, section 2.2.
        Bengio, Léonard and Courville, Estimating or propagating gradients through stochastic neurons for conditional
        computation, 2013.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="for theta; no for phi",
        latents="Bernoulli, categorical",
        decoder_evaluations="n",
        reference="Jang et al., ICLR 2017",
    )
    name: ClassVar[str] = "straight-through Gumbel-Softmax"

    @staticmethod
    def _value(layer: Layer, z: Tensor, temperature: Temperature) -> Tensor:
        return straight_through(layer, z, temperature)
