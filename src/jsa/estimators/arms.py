"""ARMS: antithetic draws in any number, coupled by a copula."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from jsa.estimators.antithetic import AntitheticBits, Coupling, inside
from jsa.estimators.base import Description, at_least
from jsa.latent import Layer


class ARMS(AntitheticBits):
    r"""Antithetic REINFORCE with n mutually antithetic draws; n = 2 is DisARM.

    For each bit, with D from the uniform Dirichlet distribution on n components, :math:`u_i = 1 - (1 - D_i)^{n-1}` is
    uniform, and the :math:`b_i = [u_i < p]` are negatively correlated, each pair by :math:`\rho(p)`. Then

    .. math:: \nabla_l E_q[f] = E\Big[\frac{1}{(n-1)(1-\rho)} \sum_i (f(b_i) - \bar f)(b_i - p)\Big].

    All n states are distributed as q, and theta gets the mean of grad log p(x, h) over them. With L layers, each is
    coupled while the layers before it are fixed and the layers after it are drawn for each branch: 1 + L (n - 1)
    states, each distributed as q.

    Args:
        particles: The number n of coupled draws of each layer, at least 2.

    References:
        Dimitriev and Zhou, ARMS: Antithetic-REINFORCE-multi-sample gradient for binary variables, ICML 2021.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="yes",
        latents="bernoulli",
        decoder_evaluations="1 + layers (n - 1)",
        reference="Dimitriev & Zhou, ICML 2021",
    )

    def __init__(self, particles: int = 2) -> None:
        super().__init__()
        self.particles = at_least(particles, 2, "ARMS")

    def noise(self, layer: Layer, batch: int, like: Tensor) -> Tensor:
        """Draw the uniforms of the Dirichlet copula."""
        exponential = like.new_empty(self.particles, self.groups, batch, layer.variables).exponential_()
        dirichlet = exponential / exponential.sum(0)
        return inside(-torch.expm1((self.particles - 1) * torch.log1p(-dirichlet)))

    def logit_gradient(self, coupling: Coupling, signals: Tensor) -> Tensor:
        """Return the covariance of signals and bits over the draws, corrected for the correlation of the draws."""
        # The deviations sum to zero, so b can replace b - p.
        deviations = (signals - signals.mean(0)).unsqueeze(-1)
        covariance = (deviations * coupling.states).sum(0) / (self.particles - 1)
        return covariance * inverse_of_one_less_correlation(coupling.logits, self.particles)


def inverse_of_one_less_correlation(logits: Float[Tensor, "*bits"], particles: int) -> Float[Tensor, "*bits"]:
    r"""Return 1 / (1 - rho), where rho is the correlation of two bits of the Dirichlet copula.

    With q = 1 - p, two bits are both zero with probability :math:`M = \max(0, 2 q^{1/(n-1)} - 1)^{n-1}`, so
    :math:`\rho = (M - q^2) / (p q)` and

    .. math:: \frac1{1 - \rho} = \frac{p q}{q - M} = \frac{p}{1 - M / q},

    which lies between 1/2 and 1 and tends to 1 as p tends to 0 or 1. The logarithm of M / q is computed from the
    logits, because 1 - rho as written is a quotient of vanishing numbers at both ends.

    Example:
        >>> inverse_of_one_less_correlation(torch.tensor([-200.0, -1.0, 0.0, 1.0, 200.0]), particles=2)
        tensor([1.0000, 0.7311, 0.5000, 0.7311, 1.0000])
    """
    minus_log_zero = F.softplus(logits)
    threshold = -torch.expm1(-minus_log_zero / (particles - 1))
    # Beyond one half no two draws can both be above the threshold, and the logarithm of M is minus infinity.
    log_ratio = (particles - 1) * torch.log1p(-2 * threshold.clamp_max(0.5)) + minus_log_zero
    probability = logits.sigmoid()
    # A probability that is zero or about to underflow leaves no digits for the quotient, so its limit is used.
    resolved = probability > torch.finfo(logits.dtype).tiny * 2**24
    return torch.where(resolved, probability / -torch.expm1(log_ratio), 1.0)
