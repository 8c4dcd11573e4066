"""Markovian score climbing."""

from __future__ import annotations

from typing import ClassVar

from jsa.estimators.base import Description
from jsa.estimators.gradient_states import Gradient
from jsa.estimators.persistent import PersistentEstimator
from jsa.kernels import ConditionalImportance, Kernel


class MarkovianScoreClimbing(PersistentEstimator):
    r"""MSC: chains that move by conditional importance sampling, with the gradient averaged over all candidates.

    .. math:: \sum_{k=0}^n \bar w_k \nabla \left[ \log p_\theta(x, h_k) + \log q_\phi(h_k | x) \right]

    with the chain's state as candidate 0; the new state is a draw in proportion to the weights.

    References:
        Naesseth, Lindsten and Blei, Markovian score climbing: variational inference with KL(p||q), NeurIPS 2020.
    """

    default_gradient: ClassVar[Gradient] = "conditional-importance"
    description: ClassVar[Description] = Description(
        optimizes="log p(x) for theta, KL(p(h|x) || q(h|x)) for phi",
        unbiased="in stage II, when the chains follow the posterior; stage I is biased",
        latents="all",
        decoder_evaluations="n + 1, and a backward over the states that count",
        reference="Naesseth et al., NeurIPS 2020",
    )

    @staticmethod
    def moves_of(particles: int) -> Kernel:
        """Return one move of conditional importance sampling with this many proposals."""
        return ConditionalImportance(particles)
