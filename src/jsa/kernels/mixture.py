"""One of several kernels, chosen at random."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn

from jsa.errors import UsageError
from jsa.kernels.base import Kernel
from jsa.kernels.target import Start, Target
from jsa.kernels.trajectory import Trajectory, one_after_another

K = TypeVar("K", bound=Kernel)


class Mixture(Kernel):
    """At each move, choose one of these kernels for all rows together, whatever the states.

    If they are reversible, so is this. The choice is made on the CPU, so that nobody waits for the device. Diagnostics
    take its moves together, because the kernels change from step to step.

    Args:
        kernels: The kernels with their probabilities, as a mapping or as pairs. They are divided by their sum.

    Example:
        >>> from jsa.kernels import Block, Independence, MetropolisHastings
        >>> Mixture({MetropolisHastings(Independence()): 1, MetropolisHastings(Block()): 3}).probabilities
        (0.25, 0.75)
    """

    def __init__(self, kernels: Mapping[K, float] | Iterable[tuple[K, float]]) -> None:
        super().__init__()
        pairs = list(kernels.items() if isinstance(kernels, Mapping) else kernels)
        total = sum(probability for _, probability in pairs)
        if not (0 < total < float("inf") and all(probability >= 0 for _, probability in pairs)):
            raise UsageError(
                "a Mixture needs kernels with probabilities that are not negative and not all zero, as in "
                "Mixture({first: 0.5, second: 0.5})"
            )
        # torch does not tell the type of what a list of modules holds.
        self.kernels: Any = nn.ModuleList(kernel for kernel, _ in pairs)
        self.probabilities = tuple(probability / total for _, probability in pairs)
        self.independent = all(kernel.independent for kernel, _ in pairs)
        self.proposals = max(kernel.proposals for kernel, _ in pairs)

    def __repr__(self) -> str:
        pairs = zip(self.kernels, self.probabilities, strict=True)
        return f"Mixture({{{', '.join(f'{kernel!r}: {probability:.3g}' for kernel, probability in pairs)}}})"

    def move(self, target: Target, chains: Start = None, times: int = 1, *, adapt: bool = False) -> Trajectory:
        chosen = torch.multinomial(torch.tensor(self.probabilities, device="cpu"), times, replacement=True)
        kernels = [self.kernels[number] for number in chosen.tolist()]
        return one_after_another([partial(kernel.move, target, adapt=adapt) for kernel in kernels], chains).named(
            "mixture"
        )
