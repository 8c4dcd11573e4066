"""A right model is let through, and each known-wrong one is refused with what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.small_models import EXAMPLES, one_layer, two_layers
from jsa import (
    Batch,
    BeliefNetwork,
    Factorized,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LayeredPosterior,
    Posterior,
    check_model,
)
from jsa.errors import NumericalError, UsageError


class OwnPosterior:
    """Bits as a user may draw them, with a place for a mistake in each method."""

    def __init__(
        self,
        logits: Tensor,
        drawn: Callable[[Tensor], Tensor] = lambda h: h,
        said: Callable[[Tensor], Tensor] = lambda value: value,
        sharper: float = 1.0,
    ) -> None:
        self.logits, self.drawn, self.said, self.sharper = logits, drawn, said, sharper

    def sample(self, shape: tuple[int, ...]) -> Tensor:
        probabilities = (self.sharper * self.logits).sigmoid()
        return self.drawn(torch.bernoulli(probabilities.expand(*shape, *self.logits.shape)))

    def log_prob(self, h: Tensor) -> Tensor:
        return self.said((h * self.logits - nn.functional.softplus(self.logits)).sum(-1))


class SaysTwice(OwnPosterior):
    """Its draws come with other log-probabilities than their own."""

    def sample_with_log_prob(self, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        h = self.sample(shape)
        return h, self.log_prob(h) + 0.1


class OwnModel(LatentVariableModel):
    """Three bits, with a place for a mistake in each method."""

    def __init__(
        self,
        posterior: Callable[[Tensor], Any] = OwnPosterior,
        joint: Callable[[Tensor, Tensor], Tensor] = lambda value, h: value,
        encoder: Callable[[Tensor], Tensor] = lambda logits: logits,
    ) -> None:
        super().__init__()
        self.network: Any = one_layer().model
        self.latent = self.network.latent
        self.make_posterior, self.joint, self.encoder = posterior, joint, encoder

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.joint(self.network.log_joint(batch, h), h)

    def posterior(self, batch: Batch) -> Posterior:
        return self.make_posterior(self.encoder(self.network.posterior(batch).first.logits))


class CutOff(OwnModel):
    """It says that it takes values between the states, and passes no gradient on to them."""

    relaxable = True

    def __init__(self, cut: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.cut = cut

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return super().log_joint(batch, self.cut(h))


class LeavesBehind(OwnModel):
    """Its density uses what its posterior computed, whichever rows these were."""

    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.compute = compute

    def posterior(self, batch: Batch) -> Posterior:
        self.features = self.compute(batch.x)
        return super().posterior(batch)

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return super().log_joint(batch, h) + self.features * h[..., 0]


class Unscaled(OwnModel):
    """Its pictures are of 0 and 255."""

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.network.log_joint(Batch(255 * batch.x, batch.index), h)


class Unpacking(LatentVariableModel):
    """The function of its second layer counts on three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.network: Any = two_layers().model
        self.latent = self.network.latent

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.network.log_joint(batch, h)

    def posterior(self, batch: Batch) -> Posterior:
        right = self.network.posterior(batch)

        def second(h: Tensor) -> Factorized:
            _samples, _rows, _width = h.shape
            return right.deeper[0](h)

        return LayeredPosterior(self.latent, right.first, [second])


def emptied(h: Tensor) -> Tensor:
    h.zero_()
    return h


class TakesTooMuch(LatentVariableModel):
    """Its second layer uses x, and it says that it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.model: Any = EXAMPLES["layers-that-know-the-row"]().model
        self.latent = self.model.latent

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return self.model.log_joint(batch, h)

    def posterior(self, batch: Batch) -> Posterior:
        posterior = self.model.posterior(batch)
        posterior.independent_of_x = True
        return posterior


WRONG: dict[str, tuple[LatentVariableModel, str]] = {
    "rows-not-narrowed": (TakesTooMuch(), r"LayeredPosterior\.take\(\.\.\.\)\.log_prob .* leave out independent_of_x"),
    "no-posterior": (
        OwnModel(lambda logits: logits),
        "OwnModel.posterior returned Tensor, which lacks sample or log",
    ),
    "shape-of-draws": (
        OwnModel(lambda logits: OwnPosterior(logits, drawn=lambda h: h.transpose(0, 1))),
        r"OwnPosterior.sample\(\(3,\)\) returned shape \(4, 3, 3\): it must be \(3, 4, 3\), samples by rows",
    ),
    "values-of-draws": (
        OwnModel(lambda logits: OwnPosterior(logits, drawn=lambda h: 2 * h - 1)),
        "OwnPosterior.sample drew what is no state of the latent space: bits are 0 or 1",
    ),
    "shape-of-log-q": (
        OwnModel(lambda logits: OwnPosterior(logits, said=lambda value: value.mean(-1))),
        r"OwnPosterior.log_prob returned shape \(3,\) for states of shape \(3, 4, 3\): it must be \(3, 4\)",
    ),
    "shape-of-log-joint": (
        OwnModel(joint=lambda value, h: value.mean()),
        r"OwnModel.log_joint returned shape \(\) for states of shape \(3, 4, 3\)",
    ),
    "log-joint-detached": (OwnModel(joint=lambda value, h: value.detach()), "OwnModel.log_joint has no gradient"),
    "log-q-detached": (
        OwnModel(lambda logits: OwnPosterior(logits, said=Tensor.detach)),
        "OwnPosterior.log_prob has no gradient, so that nothing would be learned from it",
    ),
    "states-rounded": (CutOff(torch.round), "CutOff says that it is relaxable, but log_joint has no gradient"),
    "states-detached": (
        CutOff(Tensor.detach),
        "CutOff says that it is relaxable, but log_joint has no gradient by the",
    ),
    "states-overwritten": (
        OwnModel(joint=lambda value, h: value + emptied(h).sum(-1)),
        "OwnModel changes the states that it is given",
    ),
    "two-log-probabilities": (
        OwnModel(SaysTwice),
        r"SaysTwice.log_prob of one state at row 10 is .*: SaysTwice.sample_with_log_prob differs",
    ),
    "rows-mixed-by-p": (
        OwnModel(joint=lambda value, h: value - value.mean(-1, keepdim=True)),
        "OwnModel.log_joint of one state at row 10 is .*: rows or states know of each other",
    ),
    "rows-mixed-by-q": (
        OwnModel(encoder=lambda logits: logits - logits.mean(0)),
        "OwnPosterior.log_prob of one state at row 10 is .*: rows or states know of each other",
    ),
    "rows-exchanged": (
        OwnModel(joint=lambda value, h: value.flip(-1)),
        "OwnModel.log_joint of one state at row 10 is .*: rows or states know of each other",
    ),
    "states-mixed": (
        OwnModel(joint=lambda value, h: value - value.mean(0)),
        "OwnModel.log_joint of one state at row 10 is .*: rows or states know of each other",
    ),
    "dropout": (OwnModel(encoder=nn.Dropout()), "OwnPosterior.log_prob of one state .* or it is random"),
    "features-left-behind": (
        LeavesBehind(lambda x: x @ torch.arange(4.0).double()),
        r"LeavesBehind.log_joint of one state at row 1[0-3] is .*: it must work for whichever rows and states",
    ),
    "features-of-other-rows": (
        LeavesBehind(lambda x: torch.ones_like(x[:, 0])),
        r"LeavesBehind.log_joint fails for some rows or states by themselves \(.*\): it must work for whichever rows",
    ),
    "pixels-not-scaled": (
        Unscaled(),
        "4 bernoulli variables cannot have the value 255: a bit is 0 or 1, or between them, so scale or encode",
    ),
    "deeper-layer-of-three-dimensions": (
        Unpacking(),
        r"Unpacking.posterior fails for some rows or states .*: the functions of deeper layers take states with any",
    ),
    "not-normalized": (
        OwnModel(lambda logits: OwnPosterior(logits, said=lambda value: value + 0.5)),
        r"log_prob is not that of a distribution: q\(h \| x\) of row 10 sums to 1\.64872 over all states",
    ),
    "too-sharp": (
        OwnModel(lambda logits: OwnPosterior(logits, sharper=1.5)),
        r"OwnPosterior.sample does not draw what OwnPosterior.log_prob says: bit . of h .* in 40,000 draws\); draw and",
    ),
    "bits-of-other-places": (
        OwnModel(lambda logits: OwnPosterior(logits, drawn=lambda h: h.flip(-1))),
        "OwnPosterior.sample does not draw what OwnPosterior.log_prob says: ",
    ),
    "bits-that-hang-together": (
        # Each bit by itself is drawn as often as it should be.
        OwnModel(lambda logits: OwnPosterior(0 * logits, drawn=lambda h: h[..., :1].expand(h.shape).contiguous())),
        "says: the product of bit . of h and bit . of h is too large on average",
    ),
}


def rows() -> Batch:
    """Four rows whose numbers are not their places."""
    x = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1]], dtype=torch.float64)
    return Batch(x, torch.arange(10, 14))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_model_is_refused(name: str) -> None:
    model, sentence = WRONG[name]
    torch.manual_seed(1)
    with pytest.raises(UsageError, match=sentence):
        check_model(model, rows())


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_right_model_is_let_through(name: str, dtype: torch.dtype) -> None:
    example = EXAMPLES[name]()
    batch = example.batch
    context = None if batch.context is None else batch.context.to(dtype)
    torch.manual_seed(1)
    check_model(example.model.to(dtype), Batch(batch.x.to(dtype), batch.index, context))


@pytest.mark.parametrize(
    "latent",
    [
        LatentSpace.of(Layer("bernoulli", 200), Layer("bernoulli", 200)),
        LatentSpace.of(Layer("gaussian", 5)),
        LatentSpace.of(Layer("bernoulli", 12)),
    ],
    ids=["too-many-states", "gaussian", "most-states"],
)
def test_any_latent_space_can_be_checked(latent: LatentSpace) -> None:
    torch.manual_seed(1)
    check_model(BeliefNetwork(Layer("bernoulli", 4), latent), Batch(rows().x.float(), torch.arange(4)), draws=1_000)


def test_an_own_model_without_mistakes_is_let_through() -> None:
    torch.manual_seed(1)
    check_model(OwnModel(), rows())


def test_layers_that_work_otherwise_when_trained_may_be_kept_from_it() -> None:
    model = OwnModel(encoder=nn.Dropout())
    torch.manual_seed(1)
    check_model(model.eval(), rows())


def test_what_is_not_finite_is_named() -> None:
    with pytest.raises(NumericalError, match="log_joint is nan at row 10"):
        check_model(OwnModel(joint=lambda value, h: value * torch.nan), rows())


def test_one_row_is_not_enough() -> None:
    with pytest.raises(UsageError, match="2 rows or more, not 1"):
        check_model(OwnModel(), Batch(rows().x[:1], torch.arange(1)))


@torch.no_grad()
def test_it_leaves_no_trace() -> None:
    normalized = nn.BatchNorm1d(3).double()
    model = OwnModel(encoder=normalized)
    assert normalized.running_mean is not None
    before = normalized.running_mean.clone()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    with pytest.raises(UsageError, match="batch normalization"):
        check_model(model, rows())
    assert torch.equal(normalized.running_mean, before)
    assert torch.equal(torch.rand(1), expected)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_layers_are_drawn_from_their_ancestors() -> None:
    example = two_layers()

    class Forgetful(LayeredPosterior):
        """Its second layer is drawn as if the first were zero."""

        def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
            first = self.first.sample(shape)
            return torch.cat([first, self.deeper[0](torch.zeros_like(first)).sample()], dim=-1)

    class Model(LatentVariableModel):
        latent = example.model.latent

        def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
            return example.model.log_joint(batch, h)

        def posterior(self, batch: Batch) -> Posterior:
            right = example.model.posterior(batch)
            assert isinstance(right, LayeredPosterior)
            return Forgetful(right.latent, right.first, right.deeper, independent_of_x=True)

    torch.manual_seed(1)
    with pytest.raises(UsageError, match=r"Forgetful\.sample does not draw what Forgetful\.log_prob says"):
        check_model(Model(), example.batch)
