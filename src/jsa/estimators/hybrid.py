"""Metropolis chains with conditional-importance gradients."""

from __future__ import annotations

from typing import ClassVar

from jsa.estimators.base import Description
from jsa.estimators.gradient_states import Gradient
from jsa.estimators.persistent import PersistentEstimator


class Hybrid(PersistentEstimator):
    r"""The gradient of Markovian score climbing with the chains of JSA.

    .. math:: \sum_{k=0}^n \bar w_k \nabla \left[ \log p_\theta(x, h_k) + \log q_\phi(h_k | x) \right]

    over the chain's state and n proposals. The chain then makes n Metropolis independence moves over the same
    proposals, which mixes faster than one draw in proportion to the weights. Both are valid if the chain's state
    follows the posterior.
    """

    default_gradient: ClassVar[Gradient] = "conditional-importance"
    description: ClassVar[Description] = Description(
        optimizes="log p(x) for theta, KL(p(h|x) || q(h|x)) for phi",
        unbiased="in stage II, when the chains follow the posterior; stage I is biased",
        latents="all",
        decoder_evaluations="n + 1, and a backward over the states that count",
        reference="this library",
    )
