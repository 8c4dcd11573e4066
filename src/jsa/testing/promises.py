"""What every method promises whatever it estimates, at one model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jsa.batch import Batch, Estimate
from jsa.errors import BrokenPromiseError, JsaError, UsageError, shortened
from jsa.estimators import Description, Estimator
from jsa.io.arguments import parameter_names
from jsa.latent import LatentSpace, Layer
from jsa.model import Generative, LatentVariableModel, Posterior
from jsa.model_calls import evaluate, posterior_of
from jsa.models.belief_network import BeliefNetwork
from jsa.parameter_groups import parameter_groups
from jsa.torch_contexts import seeded

ROWS = 6
"""The rows that are drawn from a model where none are given."""
TRIES = 20
"""A gradient may be zero by chance: when all draws of a row agree, for example."""
STEPS = 3


def check_estimator(estimator: Estimator, model: LatentVariableModel, batch: Batch | None = None) -> None:
    """Refuse a method that breaks a promise of every method, with a sentence that says which and what to mend.

    - It has a docstring and a full ``Description``.
    - The loss is one finite number, the objective and each diagnostic too; log-weights are samples by rows. Only the
      loss has a gradient.
    - One ``backward`` reaches every parameter that p or q depends on and those of the method. It changes no parameter,
      gradient or mode of the model, also with one row, and with theta frozen it teaches the rest.
    - Equal seeds give equal results, also without gradients.
    - Everything that it remembers is in its ``state_dict``. In evaluation mode it stores nothing and needs no row
      numbers; ``estimate_from`` moves no chain.
    - For the same draws, the gradient is linear in the weights of the rows.
    - Where all latents are known, theta learns log p(x, known), or the method refuses known latents.
    - A posterior that only has ``sample`` and ``log_prob``, and latents of every kind, work or are refused by a
      ``UsageError``.

    Whether the gradient is the right one is for ``check_gradient`` to say. The check works on copies, with seeds of its
    own, and takes about a second for a small model.

    Args:
        estimator: The method, made for this model. Chains are in memory and have as many rows as the batch.
        model: A model that it supports, where nothing is wrong (``check_model``).
        batch: Some rows with their numbers; by default, rows are drawn from a ``Generative`` model without context.

    Raises:
        BrokenPromiseError: A promise is broken. It is an AssertionError too, so that test runners count a failure.
        UsageError: The method refuses the model, or the check cannot be made.

    Example:
        >>> from jsa import VIMCO
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 4)))
        >>> check_estimator(VIMCO(particles=3), model)
    """
    _refuse_others(estimator)
    with seeded(0), torch.enable_grad(), warnings.catch_warnings():
        # Of a copy that is not trained on.
        warnings.filterwarnings("ignore", message="stage II begins without chains")
        rows = _drawn_rows(estimator, model) if batch is None else batch
        _ = rows.row_numbers
        trial = _Trial(estimator, model, rows)
        for promise in PROMISES:
            promise(trial)


def _refuse_others(estimator: object) -> None:
    if not isinstance(estimator, Estimator):
        name = estimator.__name__ if isinstance(estimator, type) else _name(estimator)
        raise UsageError(f"{name} is not an instance of Estimator: subclass jsa.Estimator, and pass an instance")


def _drawn_rows(estimator: Estimator, model: LatentVariableModel) -> Batch:
    if not isinstance(model, Generative):
        raise UsageError(
            f"rows cannot be drawn from {_name(model)}, which lacks sample_latent or observation: give "
            "check_estimator(estimator, model, batch) some rows"
        )
    count = ROWS if estimator.chains is None else min(ROWS, estimator.chains.rows)
    return Batch(model.observation(model.sample_latent((count,))).sample(), torch.arange(count))


@dataclass(frozen=True)
class _Trial:
    """A method at a model, of which each promise takes copies."""

    own: Estimator
    own_model: LatentVariableModel
    batch: Batch

    @property
    def name(self) -> str:
        return _name(self.own)

    def estimator(self) -> Estimator:
        """Return a copy that is as the method was given."""
        try:
            return copy.deepcopy(self.own).train()
        except (TypeError, RuntimeError) as error:
            raise UsageError(
                f"{self.name} cannot be copied ({shortened(error)}): keep its chains in memory, and what it remembers "
                "without a graph"
            ) from error

    def model(self) -> LatentVariableModel:
        """Return a copy of the model, without gradients."""
        model = copy.deepcopy(self.own_model)
        model.zero_grad()
        return model

    def step(
        self,
        estimator: Estimator,
        model: LatentVariableModel,
        batch: Batch | None = None,
        *,
        seed: int = 1,
        what: str = "a step",
    ) -> Estimate:
        """Return the estimate of a step that begins from this seed; the error of one that fails says what it is."""
        torch.manual_seed(seed)
        with self.explaining(what):
            return estimator(model, self.batch if batch is None else batch)

    @contextmanager
    def explaining(self, what: str) -> Iterator[None]:
        """Turn an exception that is no sentence into one."""
        try:
            yield
        except JsaError:
            raise
        except Exception as error:
            raise BrokenPromiseError(
                f"{self.name} fails in {what} by {type(error).__name__} ({shortened(error)}): mend it, or refuse what "
                "it does not support by a UsageError"
            ) from error

    def promise(self, kept: bool, broken: str) -> None:
        """Refuse the method unless a promise is kept."""
        if not kept:
            raise BrokenPromiseError(f"{self.name} {broken}")


def says_what_it_is(trial: _Trial) -> None:
    """Check docstring and description."""
    about = getattr(trial.own, "description", None)
    full = isinstance(about, Description) and all(getattr(about, field.name) for field in fields(about))
    trial.promise(full, "has no full description: set the class variable description = Description(...)")
    trial.promise(bool(type(trial.own).__doc__), "has no docstring: say what it estimates, and cite the paper")


def returns_an_estimate(trial: _Trial) -> None:
    """Check that numbers have their shapes and are finite, and that only the loss has a gradient."""
    # The rows as well: what follows from them without a parameter has no gradient either.
    x = trial.batch.x.detach()
    batch = replace(trial.batch, x=x.clone().requires_grad_() if x.is_floating_point() else x)
    estimate = trial.step(trial.estimator(), trial.model(), batch)
    trial.promise(isinstance(estimate, Estimate), f"returns {_name(estimate)}: return an Estimate")
    trial.promise(isinstance(estimate.diagnostics, Mapping), "has diagnostics that are no mapping: return a dict")
    numbers = {"objective": estimate.objective, **estimate.diagnostics}
    for name, value in {"loss": estimate.loss, **numbers}.items():
        trial.promise(
            isinstance(value, Tensor) and value.shape == (), f"returns as {name} what is not one number: take a mean"
        )
        trial.promise(bool(value.isfinite()), f"returns {float(value.detach())} as {name}: it must be finite")
    for name, value in numbers.items():
        trial.promise(not value.requires_grad, f"has a gradient in its {name}: detach it")
    trial.promise(estimate.loss.requires_grad, "has a loss without gradient: nothing would be learned")
    weights = estimate.log_weights
    trial.promise(isinstance(weights, Tensor), "has log_weights that are no tensor")
    trial.promise(not weights.requires_grad, "has a gradient in its log_weights: detach it")
    trial.promise(
        weights.ndim == 2 and weights.shape[1] == len(trial.batch),
        f"has log_weights of shape {tuple(weights.shape)}: they are samples by rows, (n, {len(trial.batch)})",
    )
    trial.promise(bool((weights < torch.inf).all()), "has log_weights that are NaN or plus infinity")


def teaches_all(trial: _Trial) -> None:
    """Check that one backward reaches theta, phi and the method's own parameters, and that the model stays as it is."""
    estimator, model = trial.estimator(), trial.model()
    named = dict(model.named_parameters()) | {f"estimator.{name}": one for name, one in estimator.named_parameters()}
    before = {name: parameter.detach().clone() for name, parameter in named.items()}
    modes = [part.training for part in model.modules()]
    reached = {name for name, parameter in estimator.named_parameters(prefix="estimator") if parameter.requires_grad}
    taught: set[str] = set()
    for seed in range(TRIES):
        reached |= _reached(model, trial.batch)
        loss = trial.step(estimator, model, seed=seed).loss
        early = [name for name, parameter in named.items() if parameter.grad is not None]
        trial.promise(not early, f"gives {_first(early)} a gradient before backward is called: leave that to the loop")
        gradients = _gradients(loss, named)
        for name in reached:
            gradient = gradients[name]
            trial.promise(gradient is not None, f"has a loss that does not reach {name}")
            assert gradient is not None
            trial.promise(bool(gradient.isfinite().all()), f"gives {name} a gradient that is not finite")
        taught |= {name for name, gradient in gradients.items() if gradient is not None and bool(gradient.any())}
        if reached <= taught:
            break
    trial.promise(
        reached <= taught, f"gives {_first(sorted(reached - taught))} a gradient of zero at all of {TRIES} steps"
    )
    changed = [name for name, parameter in named.items() if not torch.equal(parameter, before[name])]
    trial.promise(not changed, f"changes {_first(changed)} itself: leave that to the optimizer")
    trial.promise(modes == [part.training for part in model.modules()], "changes the mode of the model")


def teaches_the_rest_with_theta_frozen(trial: _Trial) -> None:
    """Check that a frozen generative model gets no gradient, and that phi gets its own."""
    model, estimator = trial.model(), trial.estimator()
    groups = parameter_groups(model, trial.batch)
    if not groups["phi"]:
        return
    for parameter in groups["theta"]:
        parameter.requires_grad_(False)
    with trial.explaining("a step with theta frozen"):
        trial.step(estimator, model, what="a step with theta frozen").loss.backward()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for parameter in groups["phi"]:
        trial.promise(
            parameter.grad is not None, f"does not teach {names[id(parameter)]} if the generative model is frozen"
        )
    for parameter in groups["theta"]:
        trial.promise(parameter.grad is None, f"teaches {names[id(parameter)]}, which is frozen")


def follows_the_seed(trial: _Trial) -> None:
    """Check that equal seeds give equal results, with gradients or without."""
    found, again = (_result(trial, trial.estimator(), trial.model()) for _ in range(2))
    trial.promise(
        _equal(found, again),
        "gives another result for the same seed: draw from torch's global generator, and from nothing else",
    )
    expected = trial.step(trial.estimator(), trial.model())
    with torch.no_grad():
        value = trial.step(trial.estimator(), trial.model())
    trial.promise(not value.loss.requires_grad, "has a loss with a gradient inside torch.no_grad()")
    trial.promise(
        _equal([expected.objective, expected.log_weights], [value.objective, value.log_weights]),
        "has another objective or other log_weights inside torch.no_grad(), for the same seed",
    )


def keeps_its_state(trial: _Trial) -> None:
    """Check that what it remembers from step to step is saved and loaded."""
    model, estimator, again = trial.model(), trial.estimator(), trial.estimator()
    for seed in range(STEPS):
        trial.step(estimator, model, seed=seed)
    with torch.no_grad():
        for parameter in estimator.parameters():
            parameter.add_(0.3)
    with trial.explaining("load_state_dict"):
        again.load_state_dict(copy.deepcopy(estimator.state_dict()))
    trial.promise(
        _equal(_result(trial, estimator, model), _result(trial, again, model)),
        "goes on otherwise after its state_dict is loaded: keep what it remembers in parameters and buffers",
    )


def stores_nothing_in_evaluation(trial: _Trial) -> None:
    """Check that evaluation leaves the method as it is, and that rows need no numbers there."""
    estimator, model = trial.estimator(), trial.model()
    for seed in range(STEPS):
        trial.step(estimator, model, seed=seed)
    before = _state(estimator)
    with trial.explaining("estimate_from"):
        estimator.estimate_from(model, trial.batch, None)
    trial.promise(_equal(_chains(before), _chains(_state(estimator))), "moves its chains in estimate_from")
    before = _state(estimator)
    estimator.eval()
    trial.step(estimator, model, replace(trial.batch, index=None), what="evaluation mode without row numbers")
    after = _state(estimator)
    changed = [name for name in before if not _equal([before[name]], [after[name]])]
    changed = ["its chains" if name.endswith("_extra_state") else name for name in changed]
    trial.promise(not changed, f"changes {_first(changed)} in evaluation mode: look at self.training before")


def takes_one_row(trial: _Trial) -> None:
    """Check a batch of one row."""
    one = trial.batch.take(torch.tensor([0]))
    estimate = trial.step(trial.estimator(), trial.model(), one, what="a batch of one row")
    trial.promise(
        bool(estimate.loss.isfinite()) and estimate.log_weights.shape[1:] == (1,),
        f"gives a batch of one row a loss of {float(estimate.loss.detach())} and log_weights of shape "
        f"{tuple(estimate.log_weights.shape)}",
    )


def counts_rows_by_weight(trial: _Trial) -> None:
    """Check that the gradient is linear in the weights, for the same draws."""
    # Eighths, which single precision holds exactly, and not of mean 1/2, where a division by the sum goes unseen.
    part = ((torch.arange(len(trial.batch)) % 3 + 1) / 8).to(trial.batch.x.device)
    parts = [
        _result(trial, trial.estimator(), trial.model(), replace(trial.batch, weight=weight))[1:]
        for weight in (None, part, 1 - part)
    ]
    for whole, one, other in zip(*parts, strict=True):
        tolerance = torch.finfo(whole.dtype).eps ** 0.5 * float(one.norm() + other.norm() + whole.norm())
        trial.promise(
            float((one + other - whole).norm()) <= tolerance,
            "does not count rows by their weights: take means over the rows by batch.mean",
        )


def learns_what_is_known(trial: _Trial) -> None:
    """Check that theta learns log p(x, known) where every latent is known."""
    model = trial.model()
    batch = _all_known(model, trial.batch)
    if batch is None or batch.known is None:
        return
    theta = parameter_groups(model, batch)["theta"]
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    named = {names[id(parameter)]: parameter for parameter in theta}
    try:
        found = _gradients(trial.step(trial.estimator(), model, batch).loss, named)
    except UsageError:
        return
    with torch.enable_grad():
        loss = -batch.mean(evaluate(model, batch, posterior_of(model, batch), batch.known.unsqueeze(0)).log_joint)
    for name, expected in _gradients(loss, named).items():
        one, other = (torch.zeros_like(named[name]) if part is None else part for part in (found[name], expected))
        size = float(other.norm()) + 1
        trial.promise(
            float((one - other).norm()) <= torch.finfo(one.dtype).eps ** 0.5 * size,
            f"gives {name} another gradient than that of log p(x, h) where all of h is known: draw from the posterior "
            "that the model returns, or refuse batch.known by a UsageError",
        )


def works_or_refuses(trial: _Trial) -> None:
    """Check that what it does not support is refused by a UsageError."""
    others: dict[str, tuple[LatentVariableModel, Batch]] = {
        "a posterior that has only sample and log_prob": (_PlainPosterior(trial.model()), trial.batch)
    }
    if "latent" not in parameter_names(type(trial.own)):
        x = torch.tensor([[0.0, 1, 1, 0], [1, 1, 0, 1]])
        for layer in (Layer("bernoulli", 2), Layer("categorical", 2, classes=3), Layer("gaussian", 2)):
            network = BeliefNetwork(Layer("bernoulli", 4), LatentSpace.of(layer))
            others[f"{layer.kind} latents"] = network, Batch(x, torch.arange(2))
    for what, (model, batch) in others.items():
        try:
            loss = trial.step(trial.estimator(), model, batch, what=f"a step with {what}").loss
        except UsageError:
            continue
        trial.promise(bool(loss.isfinite()), f"has a loss of {float(loss.detach())} with {what}")


PROMISES: tuple[Callable[[_Trial], None], ...] = (
    says_what_it_is,
    returns_an_estimate,
    teaches_all,
    teaches_the_rest_with_theta_frozen,
    follows_the_seed,
    keeps_its_state,
    stores_nothing_in_evaluation,
    takes_one_row,
    counts_rows_by_weight,
    learns_what_is_known,
    works_or_refuses,
)


class _PlainPosterior(LatentVariableModel):
    """A model whose posterior offers no more than it must."""

    def __init__(self, model: LatentVariableModel) -> None:
        super().__init__()
        self.model, self.latent = model, model.latent

    def log_joint(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
        return self.model.log_joint(batch, h)

    def posterior(self, batch: Batch) -> Posterior:
        return _Plain(self.model.posterior(batch))


@dataclass(frozen=True)
class _Plain:
    own: Posterior

    def sample(self, shape: tuple[int, ...]) -> Float[Tensor, "*samples batch width"]:
        return self.own.sample(shape)

    def log_prob(self, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch"]:
        return self.own.log_prob(h)


def _all_known(model: LatentVariableModel, batch: Batch) -> Batch | None:
    """Return the rows with a state of q as known; None if the model does not support known latents."""
    if any(layer.kind == "gaussian" for layer in model.latent.layers):
        return None
    known = posterior_of(model, batch.with_nothing_known()).sample((1,))[0]
    clamped = replace(batch, known=known)
    try:
        drawn = posterior_of(model, clamped).sample((2,))
    except JsaError:
        return None
    return clamped if bool(clamped.agrees(drawn).all()) else None


def _reached(model: LatentVariableModel, batch: Batch) -> set[str]:
    """Return the parameters at which log p or log q of a draw of q has a gradient that is not zero."""
    posterior = posterior_of(model, batch)
    states = evaluate(model, batch, posterior, posterior.sample((2,)))
    named = dict(model.named_parameters())
    return {
        name
        for value in (states.log_joint.sum(), states.log_inference.sum())
        for name, gradient in _gradients(value, named).items()
        if gradient is not None and bool(gradient.any())
    }


def _gradients(loss: Tensor, named: Mapping[str, nn.Parameter]) -> dict[str, Tensor | None]:
    """Return the gradients of a number by name; None where it does not reach."""
    learning = {name: parameter for name, parameter in named.items() if parameter.requires_grad}
    if not (loss.requires_grad and learning):
        return dict.fromkeys(named)
    found = torch.autograd.grad(loss, list(learning.values()), allow_unused=True, retain_graph=True)
    return dict.fromkeys(named) | dict(zip(learning, found, strict=True))


def _result(
    trial: _Trial, estimator: Estimator, model: LatentVariableModel, batch: Batch | None = None
) -> list[Tensor]:
    """Return the log-weights and all gradients of a step."""
    estimate = trial.step(estimator, model, batch)
    named = {**dict(model.named_parameters()), **dict(estimator.named_parameters(prefix="estimator"))}
    gradients = _gradients(estimate.loss, named)
    return [estimate.log_weights, *(gradient for gradient in gradients.values() if gradient is not None)]


def _state(estimator: Estimator) -> dict[str, Tensor]:
    return {
        name: value.clone() if isinstance(value, Tensor) else torch.tensor(list(repr(value).encode()))
        for name, value in estimator.state_dict().items()
    }


def _chains(state: Mapping[str, Tensor]) -> list[Tensor]:
    return [value for name, value in state.items() if name.endswith("_extra_state")]


def _equal(one: list[Tensor], other: list[Tensor]) -> bool:
    """Whether these are the same tensors: to the bit on the CPU, and to rounding on devices that sum in any order."""
    return len(one) == len(other) and all(
        a.shape == b.shape and (torch.equal(a, b) or (a.device.type != "cpu" and torch.allclose(a, b, equal_nan=True)))
        for a, b in zip(one, other, strict=True)
    )


def _first(names: list[str]) -> str:
    return names[0] if names else ""


def _name(thing: object) -> str:
    return type(thing).__name__
