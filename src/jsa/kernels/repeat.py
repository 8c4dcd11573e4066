"""The same kernel several times."""

from __future__ import annotations

from jsa.errors import check_at_least
from jsa.kernels.base import Kernel
from jsa.kernels.target import Start, Target
from jsa.kernels.trajectory import Trajectory


class Repeat(Kernel):
    """Move this many times by the same kernel. If that is reversible, so is this.

    Args:
        kernel: The kernel.
        times: The number of its moves.
    """

    def __init__(self, kernel: Kernel, times: int) -> None:
        super().__init__()
        check_at_least(1, times=times)
        self.kernel = kernel
        self.times = times
        self.independent = kernel.independent
        self.proposals = times * kernel.proposals

    def extra_repr(self) -> str:
        return f"{self.times}"

    def move(self, target: Target, chains: Start = None, times: int = 1, *, adapt: bool = False) -> Trajectory:
        return self.kernel.move(target, chains, times * self.times, adapt=adapt)
