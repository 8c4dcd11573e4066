"""The best epochs by validation NLL, and how long there was no better one."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class ValidatedEpoch:
    """An epoch and its validation NLL. Of two equal figures the earlier epoch is the better one."""

    nll: float
    epoch: int


@dataclass
class LeadingEpochs:
    """The epochs of lowest validation NLL so far, the best one first.

    >>> leading = LeadingEpochs(kept=2)
    >>> leading.record(5, 101.0), leading.record(10, 103.0), leading.record(15, 102.0), leading.record(20, 104.0)
    (True, True, True, False)
    >>> [found.epoch for found in leading.epochs], leading.validations_without_gain
    ([5, 15], 3)
    """

    kept: int = 1
    epochs: tuple[ValidatedEpoch, ...] = ()
    validations_without_gain: int = 0

    @property
    def best(self) -> ValidatedEpoch:
        """The best epoch; epoch 0 with an infinite NLL before the first validation."""
        return self.epochs[0] if self.epochs else ValidatedEpoch(math.inf, 0)

    def record(self, epoch: int, nll: float) -> bool:
        """Record the validation NLL of an epoch and tell whether that epoch is one of the leading ones."""
        better = nll < self.best.nll
        self.validations_without_gain = 0 if better else self.validations_without_gain + 1
        found = ValidatedEpoch(nll, epoch)
        self.epochs = tuple(sorted([*self.epochs, found])[: self.kept])
        return found in self.epochs
