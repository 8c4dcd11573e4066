"""The figures of an epoch as means over its steps."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from jsa.types import Estimate


class Means:
    """The means of the scalars of many steps, kept as tensors so that no step waits for a device.

    Attributes:
        sums: The sum of each scalar so far.
        steps: Over how many steps.
    """

    def __init__(self, sums: Mapping[str, Tensor] | None = None, steps: int = 0) -> None:
        self.sums: dict[str, Tensor] = dict(sums or {})
        self.steps = steps

    def add(self, estimate: Estimate) -> None:
        """Takes the scalars of a step."""
        self.steps += 1
        for name, value in {"objective": estimate.objective, **estimate.diagnostics}.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value.clone()

    def values(self) -> dict[str, float]:
        """The means since the beginning."""
        return {name: float(total) / self.steps for name, total in self.sums.items()}
