"""Small models as users write them, for images: their own classes, in a module that a flag can name."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Independent

import jsa


class Convolutional(jsa.LatentVariableModel):
    """Images of one channel, 8 pixels wide and high, with batch normalization and dropout."""

    def __init__(self, latents: int = 4, *, width: int = 3) -> None:
        super().__init__()
        self.latent = jsa.LatentSpace.of(jsa.Layer("bernoulli", latents))
        self.prior = nn.Parameter(torch.zeros(latents))
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(width * 16, latents),
        )
        self.decoder = nn.Sequential(
            nn.Linear(latents, width * 16),
            nn.ReLU(),
            nn.Unflatten(1, (width, 4, 4)),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )

    def posterior(self, batch: jsa.Batch) -> jsa.TorchPosterior:
        return jsa.TorchPosterior(Independent(Bernoulli(logits=self.encoder(batch.x.view(-1, 1, 8, 8))), 1))

    def log_joint(self, batch: jsa.Batch, h: Tensor) -> Tensor:
        logits = self.decoder(h.flatten(0, -2)).view(*h.shape[:-1], 64)
        found: Tensor = Bernoulli(logits=logits).log_prob(batch.x.flatten(1)).sum(-1)
        return found + Bernoulli(logits=self.prior).log_prob(h).sum(-1)

    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Tensor:
        return Bernoulli(logits=self.prior).sample(shape)

    def observation(self, h: Tensor, context: Tensor | None = None) -> Bernoulli:
        return Bernoulli(logits=self.decoder(h))


class OtherMethod(jsa.ReweightedWakeSleep):
    """A method of somebody's own."""


def convolutional(schema: jsa.Schema) -> Convolutional:
    """What a flag names."""
    assert schema.observed_columns == 64
    return Convolutional()


def no_model(schema: jsa.Schema) -> str:
    return "no model"


def images(count: int = 120) -> Tensor:
    """Bars across images, so that there is something to learn."""
    generator = torch.Generator().manual_seed(0)
    bars = torch.rand(count, 1, 8, 1, generator=generator) < 0.3
    noise = torch.rand(count, 1, 8, 8, generator=generator) < 0.05
    return (bars.expand(-1, 1, 8, 8) ^ noise).float()
