"""What ``jsa.testing`` says of methods that are wrong in one way each, and that it lets right ones pass."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from helpers.conformance.score_function import (
    centered_by_all,
    centered_by_itself,
    equal_weights,
    twin,
    without_normalized_weights,
)
from helpers.known_rows import with_known
from helpers.small_models import (
    Example,
    Wrapped,
    categorical,
    conditional,
    exact_gradients,
    layers_that_know_the_row,
    one_layer,
    torch_posterior,
    two_layers,
)
from helpers.targets import elbo_gradients, multi_sample_bound
from helpers.wrong_weights import DividedBySum, UnweightedPhi
from jsa import (
    ARM,
    JSA,
    NVIL,
    VIMCO,
    Batch,
    BeliefNetwork,
    BrokenPromiseError,
    Description,
    Estimate,
    Estimator,
    JsaError,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LeaveOneOut,
    MarkovianScoreClimbing,
    Reinforce,
    UsageError,
)
from jsa.estimators.base import score_samples
from jsa.model_calls import posterior_of
from jsa.testing import check_estimator, check_gradient, elbo, inclusive
from jsa.testing.gradients import gradients, student_quantile


class Right(Estimator):
    """REINFORCE, of which each twin changes one thing."""

    description = Description("ELBO", "yes", "all", "n", "a test")

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        draws = score_samples(model, batch, 2)
        signal = draws.log_weights
        loss = -batch.mean(signal * draws.log_inference + draws.log_joint)
        return self.finished(Estimate(loss, batch.mean(signal), signal, {"mean": signal.mean()}), batch)

    def finished(self, estimate: Estimate, batch: Batch) -> Estimate:
        return estimate


class Undescribed(Right):
    """One that does not say what it is."""

    description = Description("ELBO", "", "all", "n", "a test")


class Wordless(Right):
    __doc__ = None


class ReturnsTheLoss(Right):
    """The loss alone."""

    def finished(self, estimate: Estimate, batch: Batch) -> Any:
        return estimate.loss


def changing(about: str, change: Callable[[Estimate, Batch], dict[str, Any]]) -> type[Right]:
    """A twin that changes what is returned."""

    class Changed(Right):
        def finished(self, estimate: Estimate, batch: Batch) -> Estimate:
            # Past the check of shapes, which are those of the tests.
            changed = copy.copy(estimate)
            for name, value in change(estimate, batch).items():
                object.__setattr__(changed, name, value)
            return changed

    Changed.__doc__ = about
    return Changed


class Backward(Right):
    """The gradients are taken inside."""

    def finished(self, estimate: Estimate, batch: Batch) -> Estimate:
        if estimate.loss.requires_grad:
            estimate.loss.backward(retain_graph=True)
        return estimate


class WithoutPhi(Right):
    """The inference model learns nothing."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        draws = score_samples(model, batch, 2)
        signal = draws.log_weights
        return Estimate(-batch.mean(draws.log_joint), batch.mean(signal), signal, {})


class TimesZero(Right):
    """The inference model learns with a rate of zero."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        draws = score_samples(model, batch, 2)
        signal = draws.log_weights
        loss = -batch.mean(0 * draws.log_inference + draws.log_joint)
        return Estimate(loss, batch.mean(signal), signal, {})


class WithAnIdleParameter(Right):
    """It has a parameter that its loss does not contain."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = nn.Parameter(torch.zeros(()))


class Optimizing(Right):
    """It makes the step itself."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        estimate = super().forward(model, batch)
        with torch.no_grad():
            next(model.parameters()).add_(0.1)
        return replace(estimate, loss=super().forward(model, batch).loss)


class Evaluating(Right):
    """It puts the model into evaluation mode and leaves it there."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        model.eval()
        return super().forward(model, batch)


class OnlyWithTheta(Right):
    """Where theta is frozen, it gives no gradient at all."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        estimate = super().forward(model, batch)
        if all(parameter.requires_grad for parameter in model.parameters()):
            return estimate
        theta = [parameter for name, parameter in model.named_parameters() if "generative" in name]
        return replace(estimate, loss=torch.stack([one.sum() for one in theta]).sum().clone().requires_grad_())


class OfItsOwnDice(Right):
    """It draws from another generator than torch's."""

    def finished(self, estimate: Estimate, batch: Batch) -> Estimate:
        return replace(estimate, loss=estimate.loss * (1 + random.random()))


class OtherWithoutGradients(Right):
    """It draws more where no gradient is asked for."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        if not torch.is_grad_enabled():
            torch.rand(1)
        return super().forward(model, batch)


class Forgetful(Right):
    """Its baseline is in no state_dict."""

    def __init__(self) -> None:
        super().__init__()
        self.baseline = 0.0

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        draws = score_samples(model, batch, 2)
        signal = draws.log_weights
        loss = -batch.mean((signal - self.baseline) * draws.log_inference + draws.log_joint)
        if self.training:
            self.baseline = 0.9 * self.baseline + 0.1 * float(signal.mean())
        return Estimate(loss, batch.mean(signal), signal, {})


class LearningInEvaluation(Right):
    """Its baseline follows the rows of the evaluation, too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("baseline", torch.zeros((), dtype=torch.float64))

    def finished(self, estimate: Estimate, batch: Batch) -> Estimate:
        self.get_buffer("baseline").lerp_(estimate.objective, 0.1)
        return estimate


class MovingInEvaluation(JSA):
    """Its chains move in evaluation mode."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        estimate = super().forward(model, batch)
        if not self.training:
            rows = torch.arange(len(batch))
            self.chains.write(rows, 1 - self.chains.read(rows)[0], torch.ones(len(batch), dtype=torch.bool))
        return estimate


class AskingForNumbers(Right):
    """It needs row numbers in evaluation mode."""

    def finished(self, estimate: Estimate, batch: Batch) -> Estimate:
        _ = batch.index.sum()  # type: ignore[union-attr]
        return estimate


class MovingElsewhere(JSA):
    """Its chains move where nothing should be stored."""

    def estimate_from(self, model: LatentVariableModel, batch: Batch, initial: Tensor | None) -> Estimate:
        return self(model, batch)


class CenteredByTheBatch(Right):
    """The spread of the rows, by which it divides, is that of two rows or more."""

    def finished(self, estimate: Estimate, batch: Batch) -> Estimate:
        signal = estimate.log_weights.mean(0)
        return replace(estimate, loss=estimate.loss / (signal - signal.mean()).abs().sum())


class IgnoringWeights(Right):
    """All rows count alike."""

    def finished(self, estimate: Estimate, batch: Batch) -> Estimate:
        return estimate

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        return super().forward(model, replace(batch, weight=None))


class IgnoringKnowledge(Right):
    """What is known is drawn as if it were not."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        return super().forward(model, batch.with_nothing_known())


class NeedingLayers(Right):
    """It takes layers for granted."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        _ = posterior_of(model, batch).own.first  # type: ignore[attr-defined]
        return super().forward(model, batch)


class BitsForGranted(Right):
    """It takes bits for granted, and fails elsewhere."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        if any(layer.kind != "bernoulli" for layer in model.latent.layers):
            raise ValueError("bits, please")
        return super().forward(model, batch)


class BoundOverZero(Right):
    """It is not finite where latents are Gaussian."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        estimate = super().forward(model, batch)
        kinds = {layer.kind for layer in model.latent.layers}
        return replace(estimate, loss=estimate.loss * torch.nan) if "gaussian" in kinds else estimate


class OfAGraph(Right):
    """It keeps a graph of its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.ones(1, requires_grad=True) * 2


WRONG: list[tuple[Callable[[LatentVariableModel], Estimator], str]] = [
    (lambda model: Undescribed(), "Undescribed has no full description"),
    (lambda model: Wordless(), "Wordless has no docstring"),
    (lambda model: ReturnsTheLoss(), "returns Tensor: return an Estimate"),
    (lambda model: changing("a", lambda e, b: {"loss": e.loss.expand(2)})(), "returns as loss what is not one number"),
    (lambda model: changing("a", lambda e, b: {"loss": e.loss * torch.inf})(), "returns -?inf as loss: it must be fin"),
    (lambda model: changing("a", lambda e, b: {"loss": e.loss.detach()})(), "has a loss without gradient"),
    (lambda model: changing("a", lambda e, b: {"objective": e.loss})(), "has a gradient in its objective: detach it"),
    (lambda model: changing("a", lambda e, b: {"objective": 0.5})(), "returns as objective what is not one n"),
    (lambda model: changing("a", lambda e, b: {"diagnostics": {"rows": b.x.sum()}})(), "a gradient in its rows"),
    (
        lambda model: changing("a", lambda e, b: {"diagnostics": {"n": e.log_weights}})(),
        "returns as n what",
    ),
    (lambda model: changing("a", lambda e, b: {"diagnostics": [1]})(), "diagnostics that are no mapping"),
    (lambda model: changing("a", lambda e, b: {"log_weights": e.log_weights.T})(), r"log_weights of shape \(3, 2\)"),
    (lambda model: changing("a", lambda e, b: {"log_weights": [0.0]})(), "log_weights that are no tensor"),
    (lambda model: changing("a", lambda e, b: {"log_weights": e.log_weights + e.loss})(), "gradient in its log_wei"),
    (
        lambda model: changing("a", lambda e, b: {"log_weights": e.log_weights * torch.nan})(),
        "that are NaN or",
    ),
    (lambda model: Backward(), r"a gradient before backward is called"),
    (lambda model: WithoutPhi(), r"has a loss that does not reach inference\.0\."),
    (lambda model: TimesZero(), r"gives inference\..* a gradient of zero at all of 20 steps"),
    (lambda model: WithAnIdleParameter(), "has a loss that does not reach estimator.idle"),
    (lambda model: Optimizing(), "changes .* itself: leave that to the optimizer"),
    (lambda model: Evaluating(), "changes the mode of the model"),
    (lambda model: OnlyWithTheta(), r"does not teach inference.* if the generative model is frozen"),
    (lambda model: OfItsOwnDice(), "gives another result for the same seed"),
    (lambda model: OtherWithoutGradients(), r"other log_weights inside torch\.no_grad"),
    (lambda model: Forgetful(), "goes on otherwise after its state_dict is loaded"),
    (lambda model: LearningInEvaluation(), "changes baseline in evaluation mode"),
    (lambda model: MovingInEvaluation(model.latent, 3), "changes its chains in evaluation mode"),
    (lambda model: AskingForNumbers(), "fails in evaluation mode without row numbers by At"),
    (lambda model: MovingElsewhere(model.latent, 3), "moves its chains in estimate_from"),
    (lambda model: CenteredByTheBatch(), "gives a batch of one row a loss of -?inf"),
    (lambda model: IgnoringWeights(), "does not count rows by their weights"),
    (lambda model: IgnoringKnowledge(), "another gradient than that of log p.x, h. where all of h is known"),
    (
        lambda model: NeedingLayers(),
        "a step with a posterior that has only sample and log_prob by AttributeErr",
    ),
    (lambda model: BitsForGranted(), "fails in a step with categorical latents by ValueError .bits, please."),
    (lambda model: BoundOverZero(), "has a loss of nan with gaussian latents"),
]


@pytest.mark.parametrize(("make", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_a_broken_promise_is_named(make: Callable[[LatentVariableModel], Estimator], sentence: str) -> None:
    example = one_layer()
    estimator = make(example.model)
    with pytest.raises(BrokenPromiseError, match=sentence) as refusal:
        check_estimator(estimator, example.model, example.batch)
    assert isinstance(refusal.value, AssertionError)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("kind", [DividedBySum, UnweightedPhi])
def test_wrong_weights_are_seen(kind: type[DividedBySum]) -> None:
    class Twin(kind):  # type: ignore[misc, valid-type]
        """A wrong twin."""

        description = Reinforce.description

        def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
            return self.method(model, batch) if batch.weight is None else super().forward(model, batch)

    example = one_layer()
    with pytest.raises(BrokenPromiseError, match="does not count rows by their weights"):
        check_estimator(Twin(Reinforce()), example.model, example.batch)


@pytest.mark.parametrize("make", [one_layer, two_layers, categorical, conditional, layers_that_know_the_row])
def test_a_right_method_passes_at_every_model(make: Callable[[], Example]) -> None:
    example = make()
    check_estimator(Right(), example.model, example.batch)


def test_nothing_that_it_is_given_changes() -> None:
    example = two_layers()
    estimator = NVIL(example.model.latent, 4).double()
    before = [copy.deepcopy(part.state_dict()) for part in (estimator, example.model)]
    estimator.eval()
    random_state = torch.get_rng_state()
    check_estimator(estimator, example.model, example.batch)
    assert torch.equal(random_state, torch.get_rng_state())
    assert not estimator.training
    for part, state in zip((estimator, example.model), before, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in part.state_dict().items())
        assert all(parameter.grad is None for parameter in part.parameters())


def test_rows_are_drawn_from_a_model_that_can_be_sampled() -> None:
    model = BeliefNetwork(Layer("categorical", 3, 4), LatentSpace.of(Layer("bernoulli", 4)))
    check_estimator(VIMCO(3), model)
    check_estimator(JSA(model.latent, rows=2), model)
    check_estimator(ARM(), model)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: check_estimator(Right(), Wrapped(one_layer().model)),
            "rows cannot be drawn from Wrapped",
        ),
        (lambda: check_estimator(VIMCO, one_layer().model), "VIMCO is not an instance of Estimator"),  # type: ignore[arg-type]
        (lambda: check_estimator(ARM(), categorical().model, categorical().batch), "ARM is for bernoulli latents"),
        (lambda: check_estimator(Right(), conditional().model), "needs a context in every batch"),
        (lambda: check_estimator(Right(), one_layer().model, Batch(one_layer().batch.x)), "no row numbers"),
        (lambda: check_estimator(OfAGraph(), one_layer().model), r"cannot be copied \(Only Tensors created"),
        (lambda: check_gradient(JSA(one_layer().model.latent, 5), *parts(one_layer()), inclusive), "with rows=3000"),
        (lambda: check_gradient(Right(), *parts(one_layer()), elbo, repetitions=19), "at least 20 repetitions, not 19"),
        (lambda: check_gradient(Right(), *parts(one_layer()), elbo, copies=2), "too noisy to be judged: its standard"),
    ],
)
def test_what_cannot_be_checked_is_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()


def parts(example: Example) -> tuple[LatentVariableModel, Batch]:
    return example.model, example.batch


def chains(kind: type[JSA] | type[MarkovianScoreClimbing]) -> Callable[[LatentVariableModel], Estimator]:
    return lambda model: kind(model.latent, rows=3000, particles=3)


def bound_of_two(model: LatentVariableModel, batch: Batch) -> Tensor:
    return multi_sample_bound(model, batch, 2)


@pytest.mark.parametrize(
    ("make", "objective"),
    [
        (lambda model: Right(), elbo),
        (lambda model: LeaveOneOut(), elbo),
        (lambda model: VIMCO(2), bound_of_two),
        (chains(JSA), inclusive),
        (chains(MarkovianScoreClimbing), inclusive),
    ],
)
@pytest.mark.parametrize("example", [one_layer, torch_posterior])
def test_a_right_gradient_passes(
    make: Callable[[LatentVariableModel], Estimator],
    objective: Callable[[LatentVariableModel, Batch], Tensor],
    example: Callable[[], Example],
) -> None:
    model, batch = parts(example())
    found = check_gradient(make(model), model, batch, objective)
    assert found.agrees
    assert found.error < 0.05


class FreshChains(JSA):
    """Its chains start anew whatever the stage."""

    def initial_states(self, batch: Batch, posterior: object) -> Tensor | None:
        return None


@pytest.mark.parametrize(
    ("make", "objective"),
    [
        (lambda model: twin(1, centered_by_itself)(model, Batch(torch.ones(1, 1))), elbo),
        (lambda model: twin(2, centered_by_all)(model, Batch(torch.ones(1, 1))), elbo),
        (lambda model: twin(2, without_normalized_weights)(model, Batch(torch.ones(1, 1))), bound_of_two),
        (lambda model: twin(2, equal_weights)(model, Batch(torch.ones(1, 1))), bound_of_two),
        (lambda model: LeaveOneOut(), bound_of_two),
        (lambda model: FreshChains(model.latent, rows=3000, particles=3), inclusive),
    ],
)
def test_a_wrong_gradient_is_refused(
    make: Callable[[LatentVariableModel], Estimator], objective: Callable[[LatentVariableModel, Batch], Tensor]
) -> None:
    model, batch = parts(one_layer())
    with pytest.raises(BrokenPromiseError, match="has another gradient than the objective"):
        check_gradient(make(model), model, batch, objective)


@pytest.mark.parametrize("name", ["one-layer", "two-layers", "categorical", "conditional", "layers-that-know-the-row"])
def test_the_exact_objectives_are_those_of_the_tests(name: str) -> None:
    """Which enumerate in their own way, one row after the other where something is known."""
    from helpers.small_models import by_row

    example = with_known(name)
    for objective, target in ((elbo, elbo_gradients), (inclusive, exact_gradients)):
        found = gradients(example.model, -objective(example.model, example.batch))
        for parameter, expected in by_row(target, example.model, example.batch).items():
            assert torch.allclose(found[parameter], expected, atol=1e-12, rtol=0), parameter


@pytest.mark.parametrize("degrees", [19, 39, 1000])
@pytest.mark.parametrize("tail", [1e-3, 1e-6, 1e-9, 1e-12])
def test_the_quantile_of_students_t(degrees: int, tail: float) -> None:
    assert student_quantile(tail, degrees) == pytest.approx(stats.t.isf(tail, degrees), rel=0.01)


def test_a_broken_promise_is_a_sentence_on_the_command_line() -> None:
    assert issubclass(BrokenPromiseError, JsaError)
