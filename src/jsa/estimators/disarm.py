"""DisARM, also known as U2G: ARM with the uniforms integrated out."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from jsa.estimators.antithetic import AntitheticPairs, Coupling
from jsa.estimators.base import Description


class DisARM(AntitheticPairs):
    r"""ARM's expectation given its two states: a smaller variance at the same cost.

    .. math:: \tfrac12 (f(b_1) - f(b_2)) (-1)^{b_2} [b_1 \ne b_2] \, \sigma(|l|), \quad
              b_1 = [u > \sigma(-l)], \; b_2 = [u < \sigma(l)]

    for each bit; a bit in which the two states agree contributes nothing. Both states are distributed as q, so theta
    gets the mean of grad log p(x, h) over the two. Layers are treated as in ARM: 1 + L states per pair.

    Args:
        particles: The number n of states, even: n / 2 independent pairs are averaged.

    References:
        Dong, Mnih and Tucker, DisARM: An antithetic gradient estimator for binary latent variables, NeurIPS 2020.
        Yin, Ho, Yan, Qian and Zhou, Probabilistic best subset selection via gradient-based optimization (2020), where
        it is called U2G.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="yes",
        latents="bernoulli",
        decoder_evaluations="n (1 + layers) / 2",
        reference="Dong, Mnih & Tucker, NeurIPS 2020",
    )

    def logit_gradient(self, coupling: Coupling, signals: Tensor) -> Tensor:
        """Return half the difference of the signals, in the bits that differ."""
        first, second = signals.unsqueeze(-1)
        # The difference of the bits is the sign where they differ, and zero where they do not.
        b1, b2 = coupling.states
        return 0.5 * (first - second) * (b1 - b2) * coupling.logits.abs().sigmoid()
