"""Codes, samples, reconstructions and effects of a model as a user writes it: pictures, convolutions, own parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Distribution, Independent

import jsa
from jsa import (
    JSA,
    Batch,
    BeliefNetwork,
    Bernoulli,
    Gaussian,
    LatentSpace,
    LatentVariableModel,
    Layer,
    Learner,
    Posterior,
    TensorRows,
    TorchPosterior,
    check_model,
)
from jsa.errors import UsageError
from jsa.evaluation import codes, latent_effects, reconstructions
from jsa.evaluation.rows import Joined

ROWS, SHAPE = 12, (1, 4, 4)


@dataclass
class Draws:
    """A posterior with the two methods that one must have."""

    logits: Tensor

    def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
        return torch.bernoulli(self.logits.sigmoid().expand(*shape, *self.logits.shape))

    def log_prob(self, h: Tensor) -> Tensor:
        return Bernoulli(self.logits).log_prob(h)


class Halves(Draws):
    def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
        return torch.full((*shape, *self.logits.shape), 0.5)


class WithMean(Draws):
    @property
    def mean(self) -> Tensor:
        return self.logits.sigmoid()


@dataclass
class Seen:
    """What p(x | h) must be at least."""

    mean: Tensor

    def sample(self) -> Tensor:
        return torch.bernoulli(self.mean)


def torch_bits(logits: Tensor) -> Distribution:
    return Independent(TorchBernoulli(logits=logits), 3)


def flat_bits(logits: Tensor) -> Bernoulli:
    return Bernoulli(logits.flatten(1))


def own_bits(logits: Tensor) -> Seen:
    return Seen(logits.sigmoid())


OBSERVATIONS = pytest.mark.parametrize("seen", [torch_bits, flat_bits, own_bits])


class Pictures(LatentVariableModel):
    """Pictures of one channel from six bits."""

    def __init__(self, seen: Callable[[Tensor], Any] = torch_bits, q: Callable[[Tensor], Any] = Draws) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.latent = LatentSpace.of(Layer("bernoulli", 6))
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 2, stride=2), nn.Flatten(), nn.Linear(16, 6))
        self.dropout = nn.Dropout(0.5)
        self.decoder = nn.Sequential(
            nn.Linear(6, 16), nn.Unflatten(1, (4, 2, 2)), nn.ConvTranspose2d(4, 1, 2, stride=2)
        )
        self.seen, self.q = seen, q

    def posterior(self, batch: Batch) -> Posterior:
        found: Posterior = self.q(3 * self.encoder(self.dropout(batch.x)))
        return found

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        logits = self.decoder(h.flatten(0, 1)).flatten(1).unflatten(0, h.shape[:2])
        return Bernoulli(logits).log_prob(batch.x.flatten(1)) + Bernoulli(torch.zeros(6)).log_prob(h)

    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Tensor:
        return torch.bernoulli(torch.full((*shape, 6), 0.5))

    def observation(self, h: Tensor, context: Tensor | None = None) -> Any:
        return self.seen(self.decoder(self.dropout(h)))


@pytest.fixture
def x() -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(2, (ROWS, *SHAPE), generator=generator).float()


def decoded(model: Pictures, h: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model.decoder(h).sigmoid()
    return found


def states(model: Pictures, x: Tensor, seed: int) -> Tensor:
    """The draws that a seed gives, by the model's own methods alone."""
    torch.manual_seed(seed)
    with torch.no_grad():
        return model.eval().posterior(Batch(x)).sample(())


def test_a_posterior_that_only_draws_gives_codes_without_means(x: Tensor) -> None:
    model = Pictures()
    found = jsa.encode(model, x, seed=4)
    assert torch.equal(found.states.float(), states(model, x, seed=4))
    assert found.states.dtype == torch.uint8
    assert found.means is None
    with pytest.raises(UsageError, match=r"q\(h \| x\) gave draws alone: for means, return a LayeredPosterior"):
        _ = found.first_means


@pytest.mark.parametrize(
    "q", [WithMean, Bernoulli, lambda logits: TorchPosterior(Independent(TorchBernoulli(logits=logits), 1))]
)
def test_a_posterior_with_means_gives_them(x: Tensor, q: Callable[[Tensor], Any]) -> None:
    model = Pictures(q=q)
    with torch.no_grad():
        expected = (3 * model.encoder(x)).sigmoid()
    torch.testing.assert_close(jsa.encode(model, x).means, expected)


def test_means_are_of_the_first_layer() -> None:
    model = BeliefNetwork(
        Layer("bernoulli", 4), LatentSpace.of(Layer("categorical", 2, classes=3), Layer("bernoulli", 2))
    )

    class Flat(BeliefNetwork):
        def posterior(self, batch: Batch) -> Any:
            logits = torch.zeros(len(batch), self.latent.width)
            logits[:, :6] = torch.eye(6)[: len(batch)]
            return Whole(logits)

    class Whole(WithMean):
        def sample(self, shape: tuple[int, ...] = ()) -> Tensor:
            return torch.tensor([1.0, 0, 0, 0, 0, 1, 1, 0]).expand(*shape, len(self.logits), 8)

    flat = Flat(model.observed, model.latent)
    found = jsa.encode(flat, torch.zeros(3, 4))
    assert found.states.tolist() == [[0, 2, 1, 0]] * 3
    torch.testing.assert_close(found.means, torch.eye(6)[:3].sigmoid())
    means = jsa.encode(model, torch.zeros(3, 4)).means
    assert means is not None
    assert means.shape == (3, 6)


@OBSERVATIONS
def test_samples_come_from_the_prior_and_the_decoder(seen: Callable[[Tensor], Any]) -> None:
    model = Pictures(seen)
    found = jsa.sample(model, 500, seed=1)
    assert found.h.shape == (500, 6)
    assert found.x.numel() == found.means.numel() == 500 * 16
    torch.testing.assert_close(found.means.reshape(500, *SHAPE), decoded(model, found.h))
    assert set(found.x.unique().tolist()) == {0.0, 1.0}
    # Draws of p(x | h) and not of something else: their mean differs from it by chance alone.
    x, means = found.x.flatten(1), found.means.flatten(1)
    error = (means * (1 - means)).sum(0).sqrt() / 500
    assert float(((x.mean(0) - means.mean(0)).abs() / error).max()) < 5
    assert float((x.mean(0) - means.flip(1).mean(0)).abs().div(error).max()) > 5


@OBSERVATIONS
def test_reconstructions_keep_the_shape_of_pictures(x: Tensor, seen: Callable[[Tensor], Any]) -> None:
    model = Pictures(seen)
    found = jsa.reconstruct(model, x, seed=2)
    assert torch.equal(found.x, x)
    torch.testing.assert_close(found.means, decoded(model, states(model, x, seed=2)))
    assert not torch.allclose(found.means, decoded(model, states(model, x, seed=3)))


@OBSERVATIONS
def test_effects_are_those_of_pictures(x: Tensor, seen: Callable[[Tensor], Any]) -> None:
    model = Pictures(seen)
    found = jsa.describe(model, x, seed=2)
    h = states(model, x, seed=2)
    assert found.means.shape == (6, 2, *SHAPE)
    torch.testing.assert_close(found.shares, torch.stack([1 - h.mean(0), h.mean(0)], dim=1))
    for bit in range(6):
        for value in (0, 1):
            changed = h.clone()
            changed[:, bit] = value
            torch.testing.assert_close(found.means[bit, value], decoded(model, changed).mean(0))
    explained = (
        found.shares[:, 0] * found.shares[:, 1] * (found.means[:, 1] - found.means[:, 0]).square().sum((1, 2, 3))
    )
    torch.testing.assert_close(found.explained, explained)


CALLS: dict[str, Callable[[Any, Any], object]] = {
    "encode": lambda model, x: jsa.encode(model, x),
    "sample": lambda model, x: jsa.sample(model, 12),
    "reconstruct": lambda model, x: jsa.reconstruct(model, x),
    "describe": lambda model, x: jsa.describe(model, x),
}
EACH = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@EACH
@pytest.mark.parametrize("training", [True, False])
def test_nothing_of_the_model_or_of_chance_is_moved(
    x: Tensor, call: Callable[[Any, Any], object], training: bool
) -> None:
    model = Pictures().train(training)
    modes: list[bool] = []
    model.dropout.register_forward_hook(lambda module, given, found: modes.append(module.training))
    model.decoder.eval()
    before = torch.get_rng_state()
    call(model, x)
    assert torch.equal(torch.get_rng_state(), before)
    assert modes
    assert not any(modes)
    assert (model.training, model.dropout.training, model.decoder.training) == (training, training, False)


@EACH
def test_the_same_seed_gives_the_same_and_chunks_do_not_matter(
    x: Tensor, call: Callable[[Any, Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Pictures(flat_bits, Bernoulli)
    whole, again = call(model, x), call(model, x)
    for module, name in (
        (codes, "ROWS_AT_ONCE"),
        (reconstructions, "ROWS_AT_ONCE"),
        (latent_effects, "ROWS_AT_ONCE"),
    ):
        monkeypatch.setattr(module, name, 5)
    monkeypatch.setattr("jsa.evaluation.ancestral_samples.STATES_AT_ONCE", 5)
    parts = call(model, x)
    for name, value in vars(whole).items():
        if isinstance(value, Tensor):
            assert torch.equal(value, getattr(again, name))
            torch.testing.assert_close(value, getattr(parts, name))


@pytest.mark.parametrize("name", ["encode", "reconstruct", "describe"])
def test_rows_are_asked_for_on_the_device_of_the_model(x: Tensor, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = Pictures(), []

    class Asked(TensorRows):
        def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
            asked.append(device)
            return super().batch(index)

    for move in ("to", "cpu", "_apply"):
        monkeypatch.setattr(model, move, lambda *given, **named: pytest.fail("the model was moved"))
    call: Any = getattr(jsa, name)
    call(model, Asked(x))
    elsewhere = torch.device("cpu", 0)
    call(model, Asked(x), device=elsewhere)
    assert asked == [torch.device("cpu"), elsewhere]


@pytest.mark.parametrize("name", ["encode", "reconstruct", "describe", "sample"])
def test_progress_counts_all_rows(x: Tensor, name: str) -> None:
    done: list[int] = []
    call: Any = getattr(jsa, name)
    call(Pictures(), *([] if name == "sample" else [x]), progress=done.append)
    assert sum(done) == (100 if name == "sample" else ROWS)


class Conditional(Pictures):
    """Pictures given a number, which one of the bits is."""

    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Tensor:
        assert context is not None
        h = super().sample_latent((*shape, len(context)))
        h[:, 0] = context[:, 0]
        return h

    def observation(self, h: Tensor, context: Tensor | None = None) -> Any:
        assert context is not None
        assert torch.equal(h[:, 0], context[:, 0])
        return super().observation(h)


def test_each_context_has_its_sample() -> None:
    contexts = torch.tensor([[1.0], [0.0], [1.0]])
    found = jsa.sample(Conditional(), contexts=contexts)
    assert found.h[:, 0].tolist() == [1, 0, 1]
    assert found.contexts is not None
    assert torch.equal(found.contexts, contexts)
    with pytest.raises(UsageError, match="Conditional cannot be sampled"):
        jsa.sample(Conditional())


def test_a_model_check_accepts_what_can_be_sampled(x: Tensor) -> None:
    for seen in (torch_bits, flat_bits, own_bits):
        model = Pictures(seen).eval()
        check_model(model, Batch(x, torch.arange(ROWS)), draws=200)


class Unsampled(Pictures):
    observation = None  # type: ignore[assignment]


class Fixed(Pictures):
    """A model that draws a given tensor."""

    def __init__(self, h: Tensor) -> None:
        super().__init__()
        self.h = h

    def sample_latent(self, shape: tuple[int, ...], context: Tensor | None = None) -> Tensor:
        return self.h


class Forgetful(Pictures):
    def posterior(self, batch: Batch) -> Any:
        return Draws(torch.zeros(len(batch), 5))


def gaussian() -> BeliefNetwork:
    return BeliefNetwork(Layer("bernoulli", 16), LatentSpace.of(Layer("gaussian", 2)))


X = torch.zeros(3, *SHAPE)
VECTORS = BeliefNetwork(Layer("bernoulli", 12), LatentSpace.of(Layer("bernoulli", 3)))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: jsa.sample(Learner(Pictures(), JSA(Pictures().latent, rows=3))), "learner.model if it is a Learner"),  # type: ignore[arg-type]
        (lambda: jsa.encode(nn.Linear(2, 2), X), "Linear is not a LatentVariableModel"),  # type: ignore[arg-type]
        (lambda: jsa.sample(Unsampled()), "does not define it: write its method observation, see"),
        (lambda: jsa.describe(Unsampled(), X), "write its method observation"),
        (lambda: jsa.reconstruct(Unsampled(), X), "write its method observation"),
        (lambda: jsa.sample(Pictures(lambda p: p)), "observation returned Tensor, which lacks mean or sample"),
        (lambda: jsa.sample(Pictures(lambda p: Seen(p[:2].sigmoid()))), r"\(2, 1, 4, 4\): it must be a tensor of 100"),
        (lambda: jsa.reconstruct(Pictures(lambda p: Seen(0.5)), X), "has type float: it must be a tensor of 3 rows"),  # type: ignore[arg-type]
        (lambda: jsa.describe(Pictures(lambda p: TorchCategorical(logits=p)), X), "return one with a mean, such as"),
        (lambda: jsa.sample(Fixed(torch.zeros(5, 6))), r"shape \(5, 6\) for 100 states of width 6"),
        (lambda: jsa.sample(Fixed(torch.full((100, 6), 0.5))), "or what is no state of the latent space"),
        (lambda: jsa.encode(Forgetful(), X), r"returned shape \(3, 5\) for states of shape \(3, 6\)"),
        (lambda: jsa.encode(Pictures(q=lambda p: Halves(p)), X), "no state of the latent space"),
        (lambda: jsa.encode(Pictures(), X[:0]), "there are no rows to evaluate"),
        (lambda: jsa.encode(Pictures(), [[0.0]]), "list cannot be evaluated as data"),  # type: ignore[arg-type]
        (lambda: jsa.encode(Pictures(), X, seed=2**64), "seed must be of at most 64 bits"),
        (lambda: jsa.sample(Pictures(), seed=0.5), "seed must be a whole number, not 0.5"),  # type: ignore[arg-type]
        (lambda: jsa.sample(Pictures(), 0), "count must be 1 or more, not 0"),
        (lambda: jsa.sample(Conditional(), contexts=torch.zeros(0, 1)), "there are no contexts"),
        (lambda: jsa.sample(VECTORS, image_shape=(3, 3)), r"rows of shape \(12,\) are no images of 3 x 3 pixels"),
        (lambda: jsa.describe(VECTORS, torch.zeros(2, 12), image_shape=(3, 3)), "give another image-shape"),
        (lambda: jsa.reconstruct(VECTORS, torch.zeros(2, 12)).png(), r"rows of shape \(12,\) .* are not images"),
        (lambda: jsa.sample(Pictures()).png(0), "scale must be 1 or more"),
        (lambda: jsa.describe(gaussian(), torch.zeros(2, 16)), "this model are Gaussian: encode rows instead"),
        (lambda: jsa.describe(VECTORS, torch.zeros(2, 12)).text(["a"]), "x has 12 numbers, each with a label"),
        (lambda: jsa.describe(VECTORS, torch.zeros(2, 12)).text(variables=0), "variables must be 1 or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()


def test_a_posterior_that_ignores_known_values_is_refused(x: Tensor) -> None:
    known = torch.full((ROWS, 6), torch.nan)
    known[:, 0] = 1 - states(Pictures(), x, seed=0)[:, 0]
    with pytest.raises(UsageError, match="contradicts the known values of row 0"):
        jsa.encode(Pictures(), TensorRows(x, known=known))


def test_gaussian_codes_are_real_numbers() -> None:
    found = jsa.encode(gaussian(), torch.zeros(4, 16))
    assert found.states.dtype == torch.float32
    assert isinstance(gaussian().posterior(Batch(torch.zeros(4, 16))).first, Gaussian)


def test_datasets_one_after_the_other_have_all_that_rows_have() -> None:
    def rows(start: int, count: int) -> TensorRows:
        x = torch.arange(start, start + count).float().unsqueeze(1)
        return TensorRows(x, context=x + 100, known=x.where(x % 2 == 0, torch.nan), weight=x.flatten())

    joined, whole = Joined([rows(0, 3), rows(3, 1), rows(4, 4)]), rows(0, 8)
    assert len(joined) == 8
    for index in (torch.arange(8), torch.tensor([7, 0, 3, 0]), torch.tensor([5])):
        found, expected = joined.batch(index), whole.batch(index)
        for name in ("x", "index", "context", "known", "weight"):
            torch.testing.assert_close(getattr(found, name), getattr(expected, name), equal_nan=True)
