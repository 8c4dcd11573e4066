"""Random draws that are tied to a row and a sample number, however the work is divided into chunks.

Draws come in blocks of ``BLOCK`` samples of one row, determined by the seed and the numbers of the row and the block.
They do not use torch's global generator, so an evaluation during training does not change the training.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.model_calls import BatchPosterior, posterior_of

BLOCK = 50


class RowDraws:
    """The draws from q(h | x) of the rows of a batch, block by block."""

    def __init__(self, model: LatentVariableModel, batch: Batch, posterior: BatchPosterior, seed: int) -> None:
        self._latent = model.latent
        self._rows = batch.row_numbers.tolist()
        self._device, self._dtype = batch.x.device, batch.state_dtype
        self._seed = seed
        self._posterior = posterior
        if not posterior.draws_from_uniforms:
            # A posterior that only samples draws from the global generator, so each row must be drawn on its own.
            positions = torch.arange(len(batch), device=batch.x.device).split(1)
            self._row_posteriors = [posterior_of(model, batch.take(position)) for position in positions]

    def blocks(
        self, first: int, count: int
    ) -> tuple[Float[Tensor, "samples batch width"], Float[Tensor, "samples batch"]]:
        """Return the samples of ``count`` blocks, starting with block ``first``, and their log q."""
        if self._posterior.draws_from_uniforms:
            return self._posterior.from_uniforms(self._uniforms(self._latent, first, count))
        h = torch.cat([self._sampled(block) for block in range(first, first + count)])
        return h, self._posterior.log_prob(h)

    def _uniforms(self, latent: LatentSpace, first: int, count: int) -> Tensor:
        device, variables = self._device, latent.variables
        # float32 whatever the model's precision, so that both precisions see the same draws.
        uniforms = torch.empty(count * BLOCK, len(self._rows), variables, device=device)
        fill = fast_uniforms if device.type == "cpu" else device_uniforms
        for position, row in enumerate(self._rows):
            fill(uniforms[:, position], self._seed, row, first)
        return uniforms.to(self._dtype)

    def _sampled(self, block: int) -> Tensor:
        devices = [self._device] if self._device.type != "cpu" else []
        with torch.random.fork_rng(devices):
            columns = []
            for row, posterior in zip(self._rows, self._row_posteriors, strict=True):
                torch.manual_seed(_mixed(self._seed, row, block))
                columns.append(posterior.sample((BLOCK,)))
        return torch.cat(columns, dim=1)


def fast_uniforms(out: Float[Tensor, "samples variables"], seed: int, row: int, first: int) -> None:
    """Fill whole blocks of one row, starting with block ``first``, in half the time of torch's generator.

    Each block has its place in the stream of the row, so blocks can be drawn in any order.
    """
    samples, variables = out.shape
    stream = np.random.PCG64([seed & 0xFFFFFFFF, row])
    # Each word of 64 bits gives two uniforms, and a block has an even number of them.
    stream.advance(first * BLOCK * variables // 2)
    words = stream.random_raw(samples * variables // 2).astype("<u8", copy=False).view("<i4")
    # 24 bits are what a float32 below one can hold, and what torch's own uniforms have.
    torch.mul(torch.from_numpy(words).bitwise_and_(0xFFFFFF).view(samples, variables), 2.0**-24, out=out)


def device_uniforms(out: Float[Tensor, "samples variables"], seed: int, row: int, first: int) -> None:
    """Fill the same blocks on any device with its own generator, so that nothing is copied to the device."""
    generator = torch.Generator(out.device)
    for block, part in enumerate(out.split(BLOCK)):
        generator.manual_seed(_mixed(seed, row, first + block))
        part.uniform_(generator=generator)


def _mixed(seed: int, row: int, block: int) -> int:
    """Return a seed of 32 bits, all that the CPU generator uses, which differs for neighboring rows and blocks.

    For one seed the map from (row, block) is a bijection up to 2^20 rows and 4,096 blocks (204,800 samples): the last
    five lines are the finalizer of MurmurHash3, which can be inverted.
    """
    value = ((row << 12) ^ block ^ (seed * 0x9E3779B1)) & 0xFFFFFFFF
    value ^= value >> 16
    value = (value * 0x85EBCA6B) & 0xFFFFFFFF
    value ^= value >> 13
    value = (value * 0xC2B2AE35) & 0xFFFFFFFF
    return value ^ (value >> 16)
