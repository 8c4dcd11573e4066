"""What the published program does otherwise and a figure of the paper depends on. It is not part of the library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor

from jsa.estimators import ESTIMATORS, JSA
from jsa.estimators.base import Description
from jsa.model import LatentVariableModel, Posterior
from jsa.samplers.trajectory import Trajectory, evaluate_candidates
from jsa.types import Batch

STALE_WEIGHT = "jsa-stale-weight"


class StaleWeightJSA(JSA):
    """JSA with the sampler of the published categorical experiment, which never updates the running weight.

    Every proposal is compared with the state that the chain had at the beginning of the visit. Such a chain has another
    invariant distribution than the posterior: with many particles it ends near a draw of q whose weight exceeds that of
    the initial state.
    """

    description: ClassVar[Description] = Description(
        optimises="nothing that is known",
        unbiased="no: its chains do not leave the posterior invariant",
        latents="all",
        decoder_evaluations="n + 1, and a backward over the states visited",
        reference="the program published with Ou & Song, UAI 2020",
    )

    def move(
        self, model: LatentVariableModel, batch: Batch, posterior: Posterior, initial: Tensor | None
    ) -> Trajectory:
        """Moves the chains of a batch without ever updating the weight that proposals are compared with."""
        evaluated = evaluate_candidates(model, batch, posterior, initial, self.particles)
        uniforms = torch.rand(self.particles, len(batch), dtype=evaluated.h.dtype, device=evaluated.h.device)
        return Trajectory(evaluated, stale_weight_path(evaluated.log_weights, uniforms))


def stale_weight_path(log_weights: Tensor, uniforms: Tensor) -> Tensor:
    """The states that are visited: after each move the last proposal that was accepted.

    >>> log_weights = torch.tensor([[0.0], [2.0], [1.0]])
    >>> stale_weight_path(log_weights, torch.tensor([[0.9], [0.9]])).flatten()  # 2 is accepted although 1 is better
    tensor([1, 2])
    """
    accepted = uniforms.log() + log_weights[0] < log_weights[1:]
    numbers = torch.arange(1, len(log_weights), device=log_weights.device).unsqueeze(1)
    return torch.where(accepted, numbers, 0).cummax(0).values


@contextmanager
def published_methods() -> Iterator[None]:
    """Makes the methods of the published program known by name."""
    ESTIMATORS[STALE_WEIGHT] = StaleWeightJSA
    try:
        yield
    finally:
        del ESTIMATORS[STALE_WEIGHT]
