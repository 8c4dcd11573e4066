"""Pyro programs as model and posterior: a kind of digit, and bits that depend on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from torch import Tensor, nn

from digits import ConvolutionalCodes, digits, flags, tell
from jsa import JSA, Batch, LatentSpace, Layer, Learner, check_model
from plain_torch import train

KINDS, BITS = 10, 20
Program = Callable[[Batch], object]


def states(program: Program, batch: Batch, draws: int) -> Tensor:
    """Run a program so many times for each row and return its latent variables side by side."""
    with pyro.plate("draws", draws, dim=-2), pyro.plate("rows", len(batch), dim=-1):
        nodes: Mapping[str, Any] = poutine.trace(program).get_trace(batch).nodes
    return torch.cat([nodes[name]["value"] for name in ("kind", "bits")], dim=-1)


def score(program: Program, batch: Batch, values: Mapping[str, Tensor]) -> Tensor:
    """Return the log-probability of values for the variables of a program, for each draw and row."""
    conditioned = poutine.condition(program, data=dict(values))
    nodes: Mapping[str, Any] = poutine.trace(conditioned).get_trace(batch).nodes
    scores = [site["fn"].log_prob(site["value"]) for site in nodes.values() if site["type"] == "sample"]
    return sum(scores, start=torch.zeros(()))


class PyroPosterior:
    """A Pyro program as q(h | x)."""

    def __init__(self, program: Program, batch: Batch, latent: LatentSpace) -> None:
        self.program = program
        self.batch = batch
        self.latent = latent

    @torch.no_grad()
    def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
        """Draw states of shape (*shape, batch, width)."""
        drawn = states(self.program, self.batch, math.prod(shape))
        return drawn.reshape(*shape, len(self.batch), self.latent.width)

    def log_prob(self, h: Tensor) -> Tensor:
        """Score states."""
        return score(self.program, self.batch, named(h, self.latent))


def named(h: Tensor, latent: LatentSpace) -> dict[str, Tensor]:
    """Return the parts of states under the names of the variables in the programs."""
    kind, bits = (h[..., where] for where in latent.slices)
    return {"kind": kind, "bits": bits}


class KindsOfDigits(ConvolutionalCodes):
    """A model whose p(x, h) is the program ``generate`` and whose q(h | x) is the program ``infer``."""

    def __init__(self) -> None:
        super().__init__(LatentSpace.of(Layer("categorical", 1, classes=KINDS), Layer("bernoulli", BITS)))
        self.bits_given_kind = nn.Linear(KINDS, BITS, bias=False)
        self.inferred_bits_given_kind = nn.Linear(KINDS, BITS, bias=False)

    def generate(self, batch: Batch) -> None:
        """Draw a kind, then bits, then an image."""
        kind_logits, bit_logits = self.prior_logits.split([KINDS, BITS])
        kind = pyro.sample("kind", dist.OneHotCategorical(logits=kind_logits))
        bits = pyro.sample("bits", dist.Bernoulli(logits=bit_logits + self.bits_given_kind(kind)).to_event(1))
        logits = self.image_logits(torch.cat([kind, bits], dim=-1))
        pyro.sample("image", dist.Bernoulli(logits=logits).to_event(1), obs=batch.x)

    def infer(self, batch: Batch) -> None:
        """Draw a kind given the image, then bits given both."""
        kind_logits, bit_logits = self.encoder(batch.x).split([KINDS, BITS], dim=-1)
        kind = pyro.sample("kind", dist.OneHotCategorical(logits=kind_logits))
        pyro.sample("bits", dist.Bernoulli(logits=bit_logits + self.inferred_bits_given_kind(kind)).to_event(1))

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return score(self.generate, batch, named(h, self.latent))

    def posterior(self, batch: Batch) -> PyroPosterior:
        return PyroPosterior(self.infer, batch, self.latent)


def main(argv: Sequence[str] | None = None) -> None:
    """Check the model, train it and print the validation NLL."""
    given = flags(__doc__, argv)
    torch.manual_seed(0)
    images, valid = digits(given.rows)
    model = KindsOfDigits()
    check_model(model, Batch(images[:8]))
    learner = Learner(model, JSA(model.latent, rows=given.rows, particles=2, switch_after=given.switch_after))
    train(learner, images, given.epochs, given.out, given.resume)
    tell(model, valid)


if __name__ == "__main__":
    main()
