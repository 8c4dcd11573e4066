"""Notice chains that are kept under wrong row numbers."""

from __future__ import annotations

import warnings

import torch
from jaxtyping import Float
from torch import Tensor

LOWEST_WIN_RATE = 0.4
"""Cached states of the right rows won at 0.45 of the visits or more in every pass of 18 trainings, with switches at the
first step and high learning rates among them; those of other rows fell below 0.4 sooner or later."""
FEWEST_VISITS = 2_000
"""With so many visits a rate of one half is seen as 0.4 once in 10^18 times."""


class NumberingWatch:
    """The share of visits at which cached states outweigh fresh proposals, from pass to pass.

    The state of a row wins more often than it loses. That of another row rarely explains the row better than a draw of
    q that has seen it.
    """

    def __init__(self) -> None:
        self._wins = torch.zeros(())
        self._visits = 0
        self._since: float | None = None
        self._told = False

    def add(self, win_rate: Float[Tensor, ""], visits: int, passes: float) -> None:
        """Add a step in stage II, and warn once if the cached states lost for a whole pass.

        Args:
            win_rate: The share of the rows of the batch whose cached state outweighs their first proposal.
            visits: The number of rows of the batch.
            passes: The number of passes through the data so far.
        """
        if self._told:
            return
        if self._since is None:
            self._since = passes
        # Nobody waits for the device until the pass is over.
        self._wins = self._wins.to(win_rate.device) + visits * win_rate.detach()
        self._visits += visits
        if passes - self._since < 1 or self._visits < FEWEST_VISITS:
            return
        rate = float(self._wins) / self._visits
        self._wins, self._visits, self._since = torch.zeros(()), 0, passes
        if rate < LOWEST_WIN_RATE:
            self._told = True
            warnings.warn(
                f"for a whole pass through the data the cached states outweighed a fresh proposal at {rate:.0%} of the "
                "visits only: the batches seem to carry wrong row numbers. Number the rows of the whole data once, as "
                "jsa.numbered(dataset) does, and start the chains anew",
                stacklevel=2,
            )
