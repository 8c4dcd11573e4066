"""``jsa variance``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from jsa.cli.arguments import RunArguments, parse
from jsa.errors import UsageError
from jsa.io.atomic_files import check_destination
from jsa.io.json_records import write_json
from jsa.ranges import whole
from jsa.runs.config import MethodConfig

if TYPE_CHECKING:
    from jsa.batch import Batch
    from jsa.estimators import Estimator
    from jsa.evaluation.gradient_variance import GradientReport
    from jsa.evaluation.results import LogVariance
    from jsa.front.run import Run
    from jsa.model import LatentVariableModel


@dataclass(frozen=True)
class VarianceArguments(RunArguments):
    """Compare the gradient variance of methods at a trained model, on one fixed minibatch of training rows.

    Methods with chains have three figures: the variance given the states of the chains, the total variance with the
    states redrawn by long chains, and the squared bias relative to the posterior's gradient. The method of the run
    keeps its options and learned parts, such as baselines; those of other methods are untrained, and a note says so.
    """

    checkpoint: Literal["best", "last"] = "last"
    """The weights to use. Chains and baselines are always those of the last state of the run."""
    estimators: tuple[str, ...] = ("jsa", "jsa-rao-blackwell", "hybrid", "msc", "rws", "vimco", "rloo")
    """The methods to compare; package.module:Class is an own one."""
    draws: Annotated[int, whole(20)] = 1000
    """Gradients to draw per method."""
    rows: Annotated[int, whole(1)] = 200
    """The size of the minibatch: training rows, spread evenly."""
    method: MethodConfig = field(default_factory=MethodConfig)
    """Options for every method that takes them. By default the method of the run has those of the run, and other
    methods have its particles, unless these are its default, and their own defaults. If an option other than the
    particles differs from the run, the method starts untrained."""
    moves: Annotated[int, whole(1)] = 100
    """Metropolis moves that redraw a chain before each draw of the total variance."""
    reference_moves: Annotated[int, whole(10)] = 20_000
    """Moves of the long chains that estimate the posterior's gradient if it cannot be enumerated. The first twentieth
    is discarded."""
    snapshot: Annotated[int | None, whole(1)] = None
    """Use the weights and chains at the end of this epoch, for a run with --snapshot-every."""
    json: Path | None = None
    """Write the figures to this JSON file; one that does not exist, such as the logarithm of 0, is null."""


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa variance``."""
    parsed = parse(VarianceArguments, "variance", arguments)
    if parsed.json is not None:
        check_destination(parsed.json, "--json")

    import torch

    from jsa.evaluation.gradient_variance import gradient_report
    from jsa.evaluation.posterior_gradient import can_be_enumerated, posterior_gradient
    from jsa.evaluation.results import figures_record
    from jsa.evaluation.rows import Subset
    from jsa.training.progress import evaluation_progress

    kinds = _kinds(parsed)
    _refuse_options_of_none(parsed, kinds)
    opened = parsed.open()
    state = _take_weights(parsed, opened)
    train = opened.splits.train
    batch = train.batch(Subset.spread(train, parsed.rows).numbers)
    torch.manual_seed(parsed.seed)
    # All methods are built before any is measured, so that a refusal comes before the work.
    methods = [_prepare(name, kinds, parsed, opened, state, batch) for name in kinds]
    with_chains = any(method.estimator.chains is not None for method in methods)
    move = _seconds_of_a_move(opened.model, batch) if with_chains else 0.0
    _announce(parsed, methods, 0.0 if can_be_enumerated(opened.model) else move * parsed.reference_moves, move)
    reference = posterior_gradient(opened.model, batch, parsed.reference_moves) if with_chains else None
    _print_head()
    figures = {}
    for method in methods:
        rounds = 1 if method.estimator.chains is None else 2
        with evaluation_progress(rounds * parsed.draws, method.name) as progress:
            report = gradient_report(
                opened.model,
                method.estimator,
                batch,
                parsed.draws,
                moves=parsed.moves,
                reference=reference if rounds == 2 else None,
                progress=progress,
            )
        _print_lines(method, report)
        figures[method.name] = {"particles": method.particles, **figures_record(report)}
    if reference is not None and not can_be_enumerated(opened.model):
        print(f"the bias is against long chains of {parsed.reference_moves:,} moves, less their noise")
    if untrained := [method.name for method in methods if method.untrained]:
        print(
            f"{', '.join(untrained)}: learned parts other than the model, such as baselines, are untrained here; "
            "measure this method on a run of its own"
        )
    _tell_objectives(methods)
    if parsed.json is not None:
        record = {name: getattr(parsed, name) for name in ("draws", "checkpoint", "snapshot", "seed")}
        record |= {"rows": len(batch), "options": parsed.method.given, "estimators": figures}
        write_json(parsed.json, record)


@dataclass(frozen=True)
class _Method:
    """A method to measure.

    Attributes:
        untrained: Whether it has learned parts that this run does not have.
        seconds: How long a gradient takes.
    """

    name: str
    estimator: Estimator
    untrained: bool
    seconds: float

    @property
    def particles(self) -> int | None:
        """The number of particles; None for a method without particles."""
        return getattr(self.estimator, "particles", None)


def _kinds(parsed: VarianceArguments) -> dict[str, type[Estimator]]:
    """Return the classes of the methods, or refuse an unknown one."""
    from jsa.cli.own import imported
    from jsa.estimators.registry import estimator_class

    return {name: imported(None, name).estimator or estimator_class(name) for name in dict.fromkeys(parsed.estimators)}


def _refuse_options_of_none(parsed: VarianceArguments, kinds: Mapping[str, type[Estimator]]) -> None:
    """Refuse an option that no method takes."""
    from jsa.estimators.registry import option_defaults

    taken = {option for kind in kinds.values() for option in option_defaults(kind)}
    for option in parsed.method.given:
        if option not in taken:
            raise UsageError(f"none of {', '.join(parsed.estimators)} takes --{option}: leave it out")


def _take_weights(parsed: VarianceArguments, opened: Run) -> Path:
    """Load the weights into the model and return the file of the chains and baselines."""
    from jsa.io.tensor_files import load_tensors
    from jsa.training.state import load_model

    folder = opened.folder
    if parsed.snapshot is not None:
        snapshot = folder.snapshot(parsed.snapshot)
        if not snapshot.is_file():
            kept = sorted(int(path.stem.removeprefix("epoch-")) for path in folder.snapshots.glob("epoch-*"))
            known = ", ".join(map(str, kept)) or "none: train with --snapshot-every"
            raise UsageError(f"{parsed.run} has no snapshot of epoch {parsed.snapshot}: it has {known}")
        load_model(snapshot, opened.model)
        return snapshot
    if folder.state.is_file() and parsed.checkpoint == "last":
        # The chains belong to the weights of the state, not to averaged weights or to those of the last whole epoch.
        load_model(folder.state, opened.model)
    elif folder.state.is_file() and folder.last.is_file():
        _, last = load_tensors(folder.last)
        if last.get("epoch") != opened.notes.get("epoch"):
            print(
                f"note: the weights are those of epoch {opened.notes.get('epoch')}, chains and baselines those of "
                f"epoch {last.get('epoch')}: use --checkpoint last to have all of the same epoch"
            )
    return folder.state


def _prepare(
    name: str,
    kinds: Mapping[str, type[Estimator]],
    parsed: VarianceArguments,
    opened: Run,
    state: Path,
    batch: Batch,
) -> _Method:
    """Build a method with all that the run knows of it, and refuse a gradient that does not fit into memory."""
    from jsa.estimators.registry import build_estimator, option_defaults
    from jsa.evaluation.rows import Subset
    from jsa.runs.build import take_chains
    from jsa.runs.cost import step_cost
    from jsa.runs.feasibility import refuse_beyond_memory
    from jsa.training.state import load_estimator

    train, method = opened.splits.train, opened.config.method
    of_the_run = name == opened.config.estimator
    # An own method of the run that is not among these is not here: only a flag may name its class.
    known = opened.config.estimator
    own = {} if known not in kinds and opened.config.has_own_estimator else option_defaults(kinds.get(known, known))
    chosen = method.particles != own.get("particles", method.particles)
    ours = method if of_the_run else MethodConfig(particles=method.particles if chosen else None)
    defaults = option_defaults(kinds[name])
    options = {option: value for option, value in {**ours.given, **parsed.method.given}.items() if option in defaults}
    inputs = train.schema.observed_width + train.schema.context_width

    def build(particles: int | None) -> Estimator:
        here = options if particles is None else {**options, "particles": particles}
        return build_estimator(kinds[name], opened.model.latent, inputs=inputs, rows=len(train), options=here)

    estimator, cost = build(None), step_cost(opened.model, build, Subset(train, batch.row_numbers), len(batch))
    lower = "" if name == "enumeration" else " or --particles"
    refuse_beyond_memory(cost.bytes, f"a gradient of {name} with {len(batch):,} rows", f"lower --rows{lower}")
    # Learned parts are valid for the options that they were learned with, apart from the number of particles.
    as_it_learned = {**defaults, **options, "particles": None} == {**defaults, **method.given, "particles": None}
    trained = of_the_run and as_it_learned and state.is_file()
    if trained:
        load_estimator(state, estimator)
    if estimator.chains is not None:
        take_chains(estimator.chains, opened.config, opened.folder, state, batch.row_numbers)
    return _Method(name, estimator, not trained and estimator.learns, cost.seconds)


def _seconds_of_a_move(model: LatentVariableModel, batch: Batch) -> float:
    """Return how long a move of the chains of a batch takes."""
    import torch

    from jsa.evaluation.posterior_gradient import MOVES_AT_ONCE, moved
    from jsa.model_calls import posterior_of
    from jsa.runs.cost import cost

    with torch.no_grad(), torch.random.fork_rng():
        posterior = posterior_of(model, batch)
        state = posterior.sample()
        return cost(lambda: moved(model, batch, posterior, state, MOVES_AT_ONCE)).seconds / MOVES_AT_ONCE


def _announce(parsed: VarianceArguments, methods: Sequence[_Method], reference: float, move: float) -> None:
    """Tell about how long the gradients, the moves between them and the long chains take, if that is long."""
    from jsa.runs.feasibility import announce

    rounds = {method.name: 1 if method.estimator.chains is None else 2 for method in methods}
    gradients = sum(parsed.draws * rounds[method.name] * method.seconds for method in methods)
    moves = sum(parsed.draws * parsed.moves * move for method in methods if rounds[method.name] == 2)
    announce(reference + gradients + moves, "this comparison")


def _print_head() -> None:
    print("log of the summed variance with a 95% interval, and log of the squared bias")
    _print_line("method", "particles", "", "given the state", "total", "bias", "evaluations")


def _tell_objectives(methods: Sequence[_Method]) -> None:
    """Note when methods optimize different objectives, because their gradients then differ in size."""
    by_objective: dict[str, list[str]] = {}
    for method in methods:
        by_objective.setdefault(method.estimator.description.optimizes, []).append(method.name)
    if len(by_objective) > 1:
        told = "; ".join(f"{objective}: {', '.join(names)}" for objective, names in by_objective.items())
        print(f"these are gradients of different objectives: {told}")


def _print_lines(method: _Method, report: GradientReport) -> None:
    """Print the figures of a method."""
    particles = "" if method.particles is None else str(method.particles)
    for group, name in (("theta", method.name), ("phi", "")):
        squared = report.squared_bias.get(group)
        _print_line(
            name,
            particles if name else "",
            group,
            _text(report.given_state[group]),
            _text(report.total[group]),
            "" if squared is None else f"{math.log(squared):.2f}" if squared > 0 else "below noise",
            f"{report.decoder_evaluations:.2f}" if name else "",
        )


def _print_line(*cells: str) -> None:
    method, particles, group, given_state, total, bias, evaluations = cells
    line = f"{method:20} {particles:>9} {group:6} {given_state:24} {total:24} {bias:>11} {evaluations:>12}"
    print(line.rstrip(), flush=True)


def _text(value: LogVariance) -> str:
    if value.log_variance == -math.inf:
        return "no variance"
    return f"{value.log_variance:7.2f} [{value.low:.2f}, {value.high:.2f}]"
