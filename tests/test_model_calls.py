"""What passes through somebody's own model: states of one form, and sentences about what it gives back wrongly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from helpers.refusals import refuses
from helpers.small_models import one_layer as small
from helpers.small_models import torch_posterior, two_layers
from jsa import (
    JSA,
    Batch,
    Bernoulli,
    Categorical,
    Enumeration,
    Estimator,
    Factorized,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LayeredPosterior,
    Learner,
    Posterior,
    TorchPosterior,
    annealed_likelihood,
    exact_likelihood,
    likelihood,
    row_likelihoods,
)
from jsa.errors import UsageError
from jsa.estimators import VIMCO, LeaveOneOut
from jsa.estimators.registry import ESTIMATORS, build_estimator
from jsa.model_calls import counting, log_joint, log_joint_terms

CLASSES = LatentSpace.of(Layer("categorical", 2, classes=3))
BITS = LatentSpace.of(Layer("bernoulli", 4))


def built(name: str, latent: LatentSpace = BITS, inputs: int = 5) -> Estimator:
    return build_estimator(name, latent, inputs=inputs, rows=6, options={})


class OwnModel(LatentVariableModel):
    """A decoder that counts on three dimensions: samples, rows, and the width of a state."""

    relaxable = True

    def __init__(self, latent: LatentSpace = BITS, q: Callable[[LatentSpace, Tensor], object] | None = None) -> None:
        super().__init__()
        self.latent = latent
        self.q = q or (lambda space, logits: LayeredPosterior(space, one_layer(space, logits)))
        torch.manual_seed(2)
        self.encoder, self.decoder = nn.Linear(5, latent.width), nn.Linear(latent.width, 5)

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        samples, rows, _ = h.shape
        logits = self.decoder(h).view(samples, rows, 5)
        return Bernoulli(logits).log_prob(batch.x) + one_layer(self.latent, torch.zeros(self.latent.width)).log_prob(h)

    def latent_conditionals(self, batch: Batch, h: Tensor) -> list[Factorized]:
        return [one_layer(self.latent, torch.zeros(self.latent.width, dtype=h.dtype))]

    def posterior(self, batch: Batch) -> Posterior:
        return self.q(self.latent, self.encoder(batch.x.to(self.encoder.weight.dtype)))  # type: ignore[return-value]


class Unpacking:
    """A posterior that counts on three dimensions, too."""

    def __init__(self, space: LatentSpace, logits: Tensor) -> None:
        self.bits = Bernoulli(logits)

    def sample(self, shape: tuple[int, ...]) -> Tensor:
        return self.bits.sample(shape)

    def log_prob(self, h: Tensor) -> Tensor:
        samples, rows, _ = h.shape
        return self.bits.log_prob(h).view(samples, rows)


def one_layer(space: LatentSpace, logits: Tensor) -> Factorized:
    layer = space.layers[0]
    return Bernoulli(logits) if layer.kind == "bernoulli" else Categorical(logits, layer.classes)


def rows(count: int = 6) -> Batch:
    x = (torch.rand(count, 5, generator=torch.Generator().manual_seed(1)) < 0.5).float()
    return Batch(x, torch.arange(count))


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_method_gives_a_model_states_of_three_dimensions(name: str) -> None:
    model = OwnModel(CLASSES if name == "arsm" else BITS)
    estimator = built(name, model.latent)
    for stage in (1, 2):
        if estimator.chains is not None:
            estimator.stage = stage
        for _ in range(3):
            estimator(model, rows()).loss.backward()


@pytest.mark.parametrize("estimator", [JSA(BITS, rows=6, particles=3), VIMCO(3), LeaveOneOut(3)])
def test_a_posterior_is_given_states_of_three_dimensions(estimator: nn.Module) -> None:
    for _ in range(3):
        estimator(OwnModel(q=Unpacking), rows()).loss.backward()


def test_evaluations_give_a_model_states_of_three_dimensions() -> None:
    model, x = OwnModel(q=Unpacking), rows().x
    exact = exact_likelihood(model, x).nll
    for found in (likelihood(model, x, samples=2000), annealed_likelihood(model, x, samples=200, steps=5)):
        assert found.nll == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize("name", ["jsa", "vimco", "rebar", "arm", "concrete"])
def test_one_layer_may_be_the_whole_posterior(name: str) -> None:
    short, whole = OwnModel(q=one_layer), OwnModel()
    found = []
    for model in (short, whole):
        torch.manual_seed(4)
        built(name)(model, rows()).loss.backward()
        found.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_likelihoods_take_one_layer_as_the_whole_posterior() -> None:
    found = row_likelihoods(OwnModel(q=one_layer), rows().x, samples=100)
    assert torch.equal(found.nll, row_likelihoods(OwnModel(), rows().x, samples=100).nll)


def test_what_is_known_holds_where_one_layer_is_the_whole_posterior() -> None:
    known = torch.full((6, 4), torch.nan)
    known[:, 1] = 1.0
    batch = Batch(rows().x, rows().index, known=known)
    estimator = JSA(BITS, rows=6)
    estimator(OwnModel(q=one_layer), batch)
    assert (estimator.chains.read(batch.row_numbers)[0][:, 1] == 1).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda space, logits: LayeredPosterior(space, Bernoulli(logits[..., :3])),
        lambda space, logits: LayeredPosterior(space, Categorical(logits, classes=2)),
        lambda space, logits: Bernoulli(logits[..., :1]),
    ],
    ids=["fewer", "another-kind", "one-by-itself"],
)
@pytest.mark.parametrize("name", ["jsa", "vimco", "st-gumbel-softmax", "rebar"])
def test_a_layer_of_other_variables_is_refused(make: Callable[[LatentSpace, Tensor], object], name: str) -> None:
    model = OwnModel(q=make)
    with pytest.raises(
        UsageError, match=r"layer 0 of q\(h \| x\) has .*, but the latent space has 4 bernoulli variables"
    ):
        built(name)(model, rows())
    with pytest.raises(UsageError, match="but the latent space has 4 bernoulli variables"):
        likelihood(model, rows().x, samples=10)


def test_a_torch_posterior_under_autocast_is_refused_and_its_remedy_works() -> None:
    def classes(space: LatentSpace, logits: Tensor) -> TorchPosterior:
        each = torch.distributions.OneHotCategorical(logits=logits.unflatten(-1, (2, 3)))
        return TorchPosterior(torch.distributions.Independent(each, 1))

    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(UsageError, match=r"TorchPosterior\.log_prob returned torch\.bfloat16"):
            VIMCO(2)(OwnModel(CLASSES, classes), rows())
        VIMCO(2)(OwnModel(CLASSES, lambda space, logits: classes(space, logits.float())), rows())


def test_a_model_in_double_precision_takes_rows_in_single_and_a_prior_too() -> None:
    model, batch = OwnModel().double(), rows()
    for method in (JSA(BITS, rows=6), VIMCO(2), Enumeration()):
        method(model, batch).loss.backward()
    exact = exact_likelihood(model, batch.x).nll
    assert exact == pytest.approx(exact_likelihood(OwnModel(), batch.x).nll, abs=1e-5)


class Half(Unpacking):
    def log_prob(self, h: Tensor) -> Tensor:
        return super().log_prob(h).bfloat16()


def unnamed() -> OwnModel:
    model = OwnModel()
    del model.latent
    return model


def deeper_than_it_should_be() -> LayeredPosterior:
    space = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 1, classes=2))
    return LayeredPosterior(space, Bernoulli(torch.zeros(3, 2)), [lambda h: Bernoulli(torch.zeros(3, 2))])


def too_narrow(space: LatentSpace, logits: Tensor) -> Unpacking:
    return Unpacking(space, logits[..., :3])


OTHER_WIDTH = r"drew states of shape .*: their last two dimensions must be \(6, 4\)"
OTHER_INPUTS = r"was made with inputs=7, but x with its context has 5 numbers per row: .* it"
OTHER_LAYER = r"layer 1 of q\(h \| x\) has 2 bernoulli variables, but .* 1 categorical variable of 2 classes"
NO_LATENT = r"OwnModel has no latent space: set self.latent = "

test_slips_are_told_in_a_sentence = refuses(
    (lambda: VIMCO(2)(OwnModel(q=lambda space, logits: logits), rows()), "OwnModel.posterior returned Tensor"),
    (
        lambda: VIMCO(2)(OwnModel(), rows().x),  # type: ignore[arg-type]
        r"not from Tensor: pass Batch\(x, row_numbers\)",
    ),
    (
        lambda: Learner(OwnModel(), VIMCO(2))((rows().x, rows().index)),  # type: ignore[arg-type]
        "not from tuple: pass",
    ),
    (
        lambda: likelihood(Learner(OwnModel(), VIMCO(2)), rows().x),  # type: ignore[arg-type]
        "Learner is not a LatentVariableModel: .* learner.model",
    ),
    (
        lambda: JSA(OwnModel(), rows=6),  # type: ignore[arg-type]
        "JSA needs a LatentSpace, not OwnModel: pass model.latent",
    ),
    (lambda: built("nvil", OwnModel()), "NVIL needs a LatentSpace"),  # type: ignore[arg-type]
    (lambda: built("relax", OwnModel()), "RELAX needs a LatentSpace"),  # type: ignore[arg-type]
    (lambda: JSA(BITS, rows=6.0), "rows must be a whole number, not 6.0"),  # type: ignore[arg-type]
    (
        lambda: Categorical(torch.zeros(12), classes=5),
        "12 logits are not a multiple of 5 classes: give 5 per variable",
    ),
    (lambda: VIMCO(2)(unnamed(), rows()), NO_LATENT),
    (lambda: built("nvil", inputs=7)(OwnModel(), rows()), OTHER_INPUTS),
    (lambda: built("relax", inputs=7)(OwnModel(), rows()), OTHER_INPUTS),
    (lambda: deeper_than_it_should_be().sample((4,)), OTHER_LAYER),
    (lambda: JSA(BITS, rows=6)(OwnModel(q=too_narrow), rows()), OTHER_WIDTH),
    (lambda: VIMCO(2)(OwnModel(q=too_narrow), rows()), OTHER_WIDTH),
    (lambda: VIMCO(2)(OwnModel(q=Half), rows()), r"Half\.log_prob returned torch\.bfloat16.*logits\.float\(\)"),
)


def test_a_number_a_row_may_be_the_context_of_a_baseline() -> None:
    batch = Batch(rows().x, rows().index, context=torch.arange(6))
    estimator = built("nvil", inputs=6)
    estimator(OwnModel(), batch).loss.backward()
    assert torch.equal(batch.inputs[:, -1], torch.arange(6.0))


def test_states_that_pass_through_a_joint_density_are_counted_once_by_either_method() -> None:
    for example, evaluations in ((small(), 2), (two_layers(), 2), (torch_posterior(), 1)):
        h = example.model.posterior(example.batch).sample((5,))
        with counting() as counter:
            log_joint(example.model, example.batch, h)
            assert counter.states == 15
            log_joint_terms(example.model, example.batch, h)
            assert counter.states == 15 * evaluations
        log_joint(example.model, example.batch, h)
        assert counter.states == 15 * evaluations
