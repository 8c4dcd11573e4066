"""Steps that may be taken back."""

from __future__ import annotations

import torch

from jsa.estimators import PersistentEstimator
from jsa.learner import Learner
from jsa.training.randomness import random_states, restore_random_states


class Attempts:
    """Remembers, before each step, what the step changes before it is known to be sound: random state, buffers, chains.

    Parameters and optimiser are not among it, because they change only after the step was found sound.

    Args:
        learner: The model and its estimator.
        device: Where the training runs.
    """

    def __init__(self, learner: Learner, device: torch.device) -> None:
        # Looked for once: walking through all modules would cost as much as a small step.
        self._owners = [module for module in learner.modules() if any(True for _ in module.buffers(recurse=False))]
        self._chains = learner.estimator.cache if isinstance(learner.estimator, PersistentEstimator) else None
        self._device = device
        self.begin()

    def begin(self) -> None:
        """A step begins."""
        self._random = random_states(self._device)
        self._visits = 0 if self._chains is None else self._chains.visits
        self._buffers = [
            (owner, name, buffer.clone())
            for owner in self._owners
            for name, buffer in owner.named_buffers(recurse=False)
        ]

    @torch.no_grad()
    def take_back(self, *, random: bool) -> None:
        """Puts back buffers and chains, and the random state too if the same step is to be made again."""
        for owner, name, before in self._buffers:
            owner.get_buffer(name).copy_(before)
        if self._chains is not None:
            self._chains.undo(self._visits)
        if random:
            restore_random_states(self._random, self._device)
