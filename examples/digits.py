"""What the examples share: binarized digits, a convolutional model of them, and the flags."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from jsa import JSA, Batch, Bernoulli, LatentSpace, LatentVariableModel, Layer, Learner, likelihood
from jsa.data import load
from jsa.evaluation.rows import Subset
from jsa.model import Posterior

BATCH_SIZE = 100
SAMPLES = 200
"""Importance samples per row of the validation NLL."""


def flags(description: str | None, argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the flags that all examples take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--epochs", type=int, default=5, help="passes through the data")
    parser.add_argument("--switch-after", type=float, default=3, help="passes before stage II begins")
    parser.add_argument("--rows", type=int, default=50_000, help="training rows, spread over all 50,000")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the checkpoints")
    parser.add_argument("--resume", action="store_true", help="continue after the last checkpoint, if there is one")
    given = parser.parse_args(argv)
    if not 0 < given.rows <= 50_000:
        parser.error(f"--rows must be 1 to 50000, not {given.rows}")
    if given.out.exists() and not given.resume:
        parser.error(f"{given.out} exists: add --resume to continue, or give another folder")
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def digits(rows: int) -> tuple[Tensor, Tensor]:
    """Return training images, and a validation image for every fifty of them, as vectors of 784 bits."""
    splits = load("mnist-static")
    train = Subset.spread(splits.train, rows)
    valid = Subset.spread(splits.valid, max(1, rows // 50))
    return train.batch(torch.arange(len(train))).x, valid.batch(torch.arange(len(valid))).x


class ConvolutionalCodes(LatentVariableModel):
    """Images from latent variables by transposed convolutions, and the reverse by convolutions.

    Args:
        latent: The latent variables. The encoder gives each of them a logit.
    """

    def __init__(self, latent: LatentSpace) -> None:
        super().__init__()
        self.latent = latent
        self.prior_logits = nn.Parameter(torch.zeros(latent.width))
        self.encoder = nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)),
            nn.Conv2d(1, 16, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, latent.width),
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent.width, 32 * 7 * 7),
            nn.ReLU(),
            nn.Unflatten(1, (32, 7, 7)),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1),
            nn.Flatten(),
        )

    def image_logits(self, h: Tensor) -> Tensor:
        """Return the logits of the pixels of p(x | h); networks of images take one dimension before the image."""
        logits: Tensor = self.decoder(h.flatten(0, -2))
        return logits.unflatten(0, h.shape[:-1])

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return Bernoulli(self.prior_logits).log_prob(h) + Bernoulli(self.image_logits(h)).log_prob(batch.x)

    def posterior(self, batch: Batch) -> Posterior:
        return Bernoulli(self.encoder(batch.x))


def learner_of_bits(rows: int, switch_after: float) -> Learner:
    """Return a model with 40 bits and its estimator, which begins stage II by itself."""
    model = ConvolutionalCodes(LatentSpace.of(Layer("bernoulli", 40)))
    return Learner(model, JSA(model.latent, rows=rows, particles=2, switch_after=switch_after))


def tell(model: LatentVariableModel, valid: Tensor) -> None:
    """Print the validation NLL."""
    print("validation NLL", likelihood(model, valid, samples=SAMPLES))
