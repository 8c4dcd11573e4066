"""Which epoch is the best, and for how long there was no better one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class BestEpoch:
    """The lowest validation NLL so far.

    >>> best = BestEpoch()
    >>> best.record(5, 101.0), best.record(10, 102.0), best.record(15, 100.0)
    (True, False, True)
    >>> best.epoch, best.validations_without_gain
    (15, 0)
    """

    epoch: int = 0
    nll: float = float("inf")
    validations_without_gain: int = 0

    def record(self, epoch: int, nll: float) -> bool:
        """Takes the validation NLL of an epoch and says whether it is the lowest."""
        if nll < self.nll:
            self.epoch, self.nll, self.validations_without_gain = epoch, nll, 0
            return True
        self.validations_without_gain += 1
        return False
