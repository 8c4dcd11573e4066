"""The base class of all kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import nn

from jsa.kernels.proposal import Proposal
from jsa.kernels.target import Start, Target
from jsa.kernels.trajectory import Trajectory
from jsa.latent import LatentSpace


class Kernel(nn.Module, ABC):
    """A Markov kernel that leaves the posterior p(h | x) invariant.

    It is a module, so that what it adapts is saved and loaded with the estimator that uses it. All draws are from
    torch's global generator.
    """

    independent: bool
    """Whether its proposals are draws of whole states from q(h | x), independent of the chain's state."""
    proposals: int
    """The number of states of each row that a move evaluates."""

    @abstractmethod
    def move(self, target: Target, chains: Start = None, times: int = 1, *, adapt: bool = False) -> Trajectory:
        """Move each row's chain this many times.

        Args:
            target: The distribution to leave invariant.
            chains: Where the chains stand; None starts them from draws of q.
            times: The number of moves, one after the other. What does not depend on the state is evaluated together.
            adapt: Whether the kernel may tune itself. The chains are exact only while it does not.
        """

    def check(self, latent: LatentSpace) -> None:
        """Refuse a latent space in which a proposal of the kernel moves nothing."""
        for part in self.modules():
            if isinstance(part, Proposal):
                part.check(latent)

    def __repr__(self) -> str:
        """Return the call that makes such a kernel."""
        parts = [*(repr(part) for part in self.children()), *filter(None, [self.extra_repr()])]
        return f"{type(self).__name__}({', '.join(parts)})"
