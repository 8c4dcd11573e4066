"""Joint stochastic approximation with expected multiplicities."""

from __future__ import annotations

from typing import ClassVar

from jsa.estimators.base import Description
from jsa.estimators.gradient_states import Gradient
from jsa.estimators.persistent import PersistentEstimator


class RaoBlackwellJSA(PersistentEstimator):
    r"""JSA with the gradient averaged over the acceptances: less variance from the same network passes.

    The weight of a candidate is the expected share of moves after which the chain is there, given candidates and
    weights. With a_0 = 1, proposal k takes the share r_j = min(1, w_k / w_j) from each earlier candidate j,

    .. math:: a_k = \sum_{j<k} a_j r_j, \qquad a_j \leftarrow a_j (1 - r_j),

    and the weights are the mean of a over the moves. The chain itself is still sampled.

    References:
        Casella and Robert, Rao-Blackwellization of sampling schemes, Biometrika 83 (1996).
    """

    default_gradient: ClassVar[Gradient] = "rao-blackwell"
    description: ClassVar[Description] = Description(
        optimizes="log p(x) for theta, KL(p(h|x) || q(h|x)) for phi",
        unbiased="in stage II, when the chains follow the posterior; stage I is biased",
        latents="all",
        decoder_evaluations="n + 1, and a backward over the states that count",
        reference="Casella & Robert, Biometrika 1996; this library",
    )
