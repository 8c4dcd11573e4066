"""A posterior from torch.distributions: bits in which each depends on the ones before it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Distribution, Independent

from digits import ConvolutionalCodes, digits, flags, tell
from jsa import JSA, Batch, LatentSpace, Layer, Learner, TorchPosterior, check_model
from plain_torch import train

BITS = 20


class Autoregressive(Distribution):
    """Bits whose logits are those of the row plus a linear function of the bits before them.

    Args:
        logits: The logits of the rows.
        weights: How much the bit of a line depends on that of a column; only the part below the diagonal counts.
    """

    arg_constraints = {}  # noqa: RUF012

    def __init__(self, logits: Tensor, weights: Tensor) -> None:
        self.logits = logits
        self.weights = weights.tril(-1)
        super().__init__(logits.shape[:-1], logits.shape[-1:], validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw bit by bit."""
        bits = self.logits.new_zeros(*sample_shape, *self.logits.shape)
        for bit, weights in enumerate(self.weights):
            bits[..., bit] = Bernoulli(logits=self.logits[..., bit] + bits @ weights).sample()
        return bits

    def log_prob(self, value: Tensor) -> Tensor:
        """Score all bits at once: the bits before each of them are given."""
        each = Bernoulli(logits=self.logits + value @ self.weights.T)
        scored: Tensor = Independent(each, 1).log_prob(value)
        return scored


class Dependent(ConvolutionalCodes):
    """The model of the other examples with an autoregressive inference model."""

    def __init__(self) -> None:
        super().__init__(LatentSpace.of(Layer("bernoulli", BITS)))
        self.weights = nn.Parameter(torch.zeros(BITS, BITS))

    def posterior(self, batch: Batch) -> TorchPosterior:
        return TorchPosterior(Autoregressive(self.encoder(batch.x), self.weights))


def main(argv: Sequence[str] | None = None) -> None:
    """Check the model, train it and print the validation NLL."""
    given = flags(__doc__, argv)
    torch.manual_seed(0)
    images, valid = digits(given.rows)
    model = Dependent()
    check_model(model, Batch(images[:8]))
    learner = Learner(model, JSA(model.latent, rows=given.rows, particles=2, switch_after=given.switch_after))
    train(learner, images, given.epochs, given.out, given.resume)
    tell(model, valid)


if __name__ == "__main__":
    main()
