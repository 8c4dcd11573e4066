"""Inference models that users write: what they do otherwise than ours must not change a gradient."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from helpers.methods import estimator_of
from helpers.small_models import TorchPosteriorModel, gradients, one_layer
from jsa import Batch, Posterior


class StraightThroughPosterior:
    """Bits whose draws carry the gradient of a relaxation, as a user of other methods may have them."""

    def __init__(self, logits: Tensor, cut: bool) -> None:
        self.logits, self.cut = logits, cut

    def sample(self, shape: tuple[int, ...]) -> Tensor:
        logits = torch.stack([torch.zeros_like(self.logits), self.logits], -1).expand(*shape, *self.logits.shape, 2)
        drawn = F.gumbel_softmax(logits, hard=True)[..., 1]
        return drawn.detach() if self.cut else drawn

    def log_prob(self, h: Tensor) -> Tensor:
        return (h * self.logits - F.softplus(self.logits)).sum(-1)


class OwnModel(TorchPosteriorModel):
    """The small network with such a posterior."""

    cut = False

    def posterior(self, batch: Batch) -> Posterior:
        return StraightThroughPosterior(self.logits(batch), self.cut)


@pytest.mark.parametrize(
    "name", ["jsa", "jsa-rao-blackwell", "hybrid", "msc", "rws", "reinforce", "rloo", "nvil", "vimco"]
)
def test_a_gradient_of_the_draws_is_cut_off(name: str) -> None:
    example, found = one_layer(), []
    model = OwnModel(example.network)
    for cut in (True, False):
        model.cut = cut
        options = {} if name in ("reinforce", "nvil") else {"particles": 4}
        estimator = estimator_of(name, model, example.batch, seed=3, **options)
        found.append(gradients(model, estimator(model, example.batch).loss))
    for parameter in found[0]:
        assert torch.equal(found[0][parameter], found[1][parameter])


def test_its_draws_would_carry_one() -> None:
    """The power of the test above."""
    example = one_layer()
    model = OwnModel(example.network)
    assert model.posterior(example.batch).sample((2,)).requires_grad
