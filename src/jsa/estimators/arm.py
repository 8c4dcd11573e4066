"""ARM: augment, reinforce, merge."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from jsa.estimators.antithetic import AntitheticPairs, Coupling
from jsa.estimators.base import Description


class ARM(AntitheticPairs):
    r"""The augment-REINFORCE-merge gradient for bits.

    .. math:: \nabla_l E_q[f] = E_u[(f(b_1) - f(b_2)) (u - \tfrac12)], \quad
              b_1 = [u > \sigma(-l)], \; b_2 = [u < \sigma(l)]

    with the logits l, one uniform u per bit and f = log p(x, h) - log q(h | x). Both states are distributed as q, so
    theta gets the mean of grad log p(x, h) over the two. With L layers, each is coupled while the layers before it are
    fixed and the layers after it are drawn for each branch: 1 + L states per pair, each distributed as q.

    Args:
        particles: The number n of states, even: n / 2 independent pairs are averaged.

    References:
        Yin and Zhou, ARM: Augment-REINFORCE-merge gradient for stochastic binary networks, ICLR 2019.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="yes",
        latents="bernoulli",
        decoder_evaluations="n (1 + layers) / 2",
        reference="Yin & Zhou, ICLR 2019",
    )

    def logit_gradient(self, coupling: Coupling, signals: Tensor) -> Tensor:
        """Multiply the difference of the signals by u - 1/2."""
        _, u = coupling.noise
        first, second = signals.unsqueeze(-1)
        return (first - second) * (u - 0.5)
