"""Proposals from q(h | x), whatever the current state."""

from __future__ import annotations

from typing import ClassVar

from torch import nn


class Independence(nn.Module):
    """Proposals of whole states from q(h | x): variables of every kind move together.

    They do not depend on the chain, so ``MetropolisHastings`` draws and evaluates those of all moves at once.

    References:
        Liu, Monte Carlo Strategies in Scientific Computing (Springer, 2008), section 5.4.2.
    """

    name: ClassVar[str] = "independence"
