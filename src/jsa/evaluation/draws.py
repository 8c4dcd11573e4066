"""Random draws that belong to a row and a sample number, however the work is cut into chunks.

Draws come in blocks of ``BLOCK`` samples of one row, each block from a generator seeded by the seed, the row's number
and the block's number. They do not touch torch's global generator, so evaluating in the middle of a training run
changes nothing in it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel, Posterior, log_prob
from jsa.posteriors import NoiseDriven
from jsa.types import Batch

BLOCK = 50


class RowDraws:
    """The draws from q(h | x) of the rows of a batch, block by block."""

    def __init__(self, model: LatentVariableModel, batch: Batch, posterior: Posterior, seed: int) -> None:
        self._latent = model.latent
        self._rows = batch.index.tolist()
        self._like = batch.x
        self._seed = seed
        self._posterior = posterior
        if not isinstance(posterior, NoiseDriven):
            # A posterior that only samples draws from the global generator, so each row must be drawn on its own.
            positions = torch.arange(len(batch), device=batch.index.device).split(1)
            self._row_posteriors = [model.posterior(batch.take(position)) for position in positions]

    def blocks(
        self, first: int, count: int
    ) -> tuple[Float[Tensor, "samples batch width"], Float[Tensor, "samples batch"]]:
        """The samples of ``count`` blocks from the block number ``first`` on, and their log q."""
        if isinstance(self._posterior, NoiseDriven):
            return self._posterior.from_uniforms(self._uniforms(self._latent, first, count))
        h = torch.cat([self._sampled(block) for block in range(first, first + count)])
        return h, log_prob(self._posterior, h)

    def _uniforms(self, latent: LatentSpace, first: int, count: int) -> Tensor:
        device = self._like.device
        generator = torch.Generator(device)
        # float32 whatever the model's precision, so that both precisions see the same draws.
        uniforms = torch.empty(count, BLOCK, len(self._rows), latent.variables, device=device)
        for position, row in enumerate(self._rows):
            for block in range(count):
                generator.manual_seed(_mixed(self._seed, row, first + block))
                uniforms[block, :, position].uniform_(generator=generator)
        return uniforms.flatten(0, 1).to(self._like.dtype)

    def _sampled(self, block: int) -> Tensor:
        devices = [self._like.device] if self._like.device.type != "cpu" else []
        with torch.random.fork_rng(devices):
            columns = []
            for row, posterior in zip(self._rows, self._row_posteriors, strict=True):
                torch.manual_seed(_mixed(self._seed, row, block))
                columns.append(posterior.sample((BLOCK,)))
        return torch.cat(columns, dim=1)


def _mixed(seed: int, row: int, block: int) -> int:
    """A seed of 32 bits, which is all that the CPU generator uses, different for neighbouring rows and blocks.

    For one seed the map from (row, block) is a bijection up to 2^20 rows and 4,096 blocks (204,800 samples): the last
    five lines are the finaliser of MurmurHash3, which can be inverted.
    """
    value = ((row << 12) ^ block ^ (seed * 0x9E3779B1)) & 0xFFFFFFFF
    value ^= value >> 16
    value = (value * 0x85EBCA6B) & 0xFFFFFFFF
    value ^= value >> 13
    value = (value * 0xC2B2AE35) & 0xFFFFFFFF
    return value ^ (value >> 16)
