"""``jsa variance``."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jsa.cli.arguments import RunArguments, parse
from jsa.errors import UsageError, check_at_least
from jsa.io.atomic_files import check_destination, write_text
from jsa.runs.config import MethodConfig

if TYPE_CHECKING:
    from jsa.batch import Batch
    from jsa.estimators import Estimator
    from jsa.evaluation.gradient_variance import GradientReport
    from jsa.evaluation.results import LogVariance
    from jsa.runs.build import OpenedRun


@dataclass(frozen=True)
class VarianceArguments(RunArguments):
    """How noisy the gradients of methods are at a trained model, on one fixed minibatch of its training rows.

    For methods with chains there are three figures: the variance given the chains' states, the total variance with the
    states redrawn by long chains, and the squared bias against the posterior's gradient. The method of the run has its
    options and what it learned, such as baselines; those that other methods learn are as they begin, and this is said.
    """

    checkpoint: Literal["best", "last"] = "last"
    """Which weights. Chains and baselines are always those of the last state of the run, so that with best the weights
    are of another epoch than these, and this is said."""
    estimators: tuple[str, ...] = ("jsa", "jsa-rao-blackwell", "hybrid", "msc", "rws", "vimco", "rloo")
    """The methods to compare."""
    draws: int = 1000
    """Gradients of each method."""
    rows: int = 200
    """The batch: the first training rows."""
    method: MethodConfig = field(default_factory=MethodConfig)
    """Each is for every method that takes it. Where not given, the method of the run has what the run was given, others
    have its particles, and else their own defaults; the table tells the particles. With another option than in its run,
    but for the particles, the method of the run has not what it learned there."""
    moves: int = 100
    """Metropolis moves that redraw a chain before each draw of its total variance."""
    reference_moves: int = 20_000
    """Moves of the long chains that give the posterior's gradient, where it cannot be enumerated. A twentieth of them
    comes before the average."""
    equal_cost: bool = False
    """Compare at equal decoder evaluations: a method that costs twice as much counts with twice its variance."""
    snapshot: int | None = None
    """Weights and chains of the end of this epoch, of a run with --snapshot-every, in place of the checkpoint's."""
    json: Path | None = None
    """Also write the figures to this file; null where one does not exist, such as the logarithm of no variance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, rows=self.rows, moves=self.moves)


def run(arguments: Sequence[str]) -> None:
    """Measures as the arguments say."""
    parsed = parse(VarianceArguments, "variance", arguments)
    if parsed.json is not None:
        check_destination(parsed.json, "--json")

    import torch

    from jsa.estimators import PersistentEstimator
    from jsa.evaluation.gradient_variance import check_draws, gradient_report
    from jsa.evaluation.posterior_gradient import can_be_enumerated, check_reference_moves, posterior_gradient
    from jsa.evaluation.results import figures_record
    from jsa.training.progress import evaluation_progress

    check_draws(parsed.draws)
    check_reference_moves(parsed.reference_moves)
    _refuse_options_of_none(parsed)
    opened = parsed.open()
    state = _take_weights(parsed, opened)
    train = opened.splits.train
    batch = train.batch(torch.arange(min(parsed.rows, len(train))))
    torch.manual_seed(parsed.seed)
    # What one of them refuses, it refuses before the work of the others.
    methods = [_prepare(name, parsed, opened, state, batch) for name in dict.fromkeys(parsed.estimators)]
    with_chains = any(isinstance(method.estimator, PersistentEstimator) for method in methods)
    reference = posterior_gradient(opened.model, batch, parsed.reference_moves) if with_chains else None
    _print_head(equal_cost=parsed.equal_cost)
    figures = {}
    for method in methods:
        rounds = 2 if isinstance(method.estimator, PersistentEstimator) else 1
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
        _print_lines(method, report, equal_cost=parsed.equal_cost)
        figures[method.name] = {"particles": method.particles, **figures_record(report)}
    if reference is not None and not can_be_enumerated(opened.model):
        print(f"the bias is against long chains of {parsed.reference_moves:,} moves, less their noise")
    if untrained := [method.name for method in methods if method.untrained]:
        print(
            f"{', '.join(untrained)}: what this method learns beside the model, such as baselines, is untrained here; "
            "measure it at a run of its own"
        )
    _tell_objectives(methods)
    if parsed.json is not None:
        record = {name: getattr(parsed, name) for name in ("draws", "checkpoint", "snapshot", "seed")}
        record |= {"rows": len(batch), "options": parsed.method.given, "estimators": figures}
        write_text(parsed.json, json.dumps(record, indent=2, allow_nan=False) + "\n")


@dataclass(frozen=True)
class _Method:
    """A method that can be measured.

    Attributes:
        untrained: Whether it learns something that this run does not know.
    """

    name: str
    estimator: Estimator
    untrained: bool

    @property
    def particles(self) -> int | None:
        """How many it has; none for a method that takes none."""
        return getattr(self.estimator, "particles", None)


def _refuse_options_of_none(parsed: VarianceArguments) -> None:
    """Refuses an option that none of the methods takes, and a method that there is not."""
    from jsa.estimators.registry import option_defaults

    taken = {option for name in parsed.estimators for option in option_defaults(name)}
    for option in parsed.method.given:
        if option not in taken:
            raise UsageError(f"none of {', '.join(parsed.estimators)} takes --{option}: leave it out")


def _take_weights(parsed: VarianceArguments, opened: OpenedRun) -> Path:
    """Gives the model the weights that were asked for, and says where the chains and baselines are."""
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
        # The chains know nothing of an average of the weights, and a run that goes on may be ahead of its last epoch.
        load_model(folder.state, opened.model)
    elif folder.state.is_file() and folder.last.is_file():
        _, last = load_tensors(folder.last)
        if last.get("epoch") != opened.notes.get("epoch"):
            print(
                f"note: the weights are those of epoch {opened.notes.get('epoch')}, chains and baselines those of "
                f"epoch {last.get('epoch')}: with --checkpoint last all are of one moment"
            )
    return folder.state


def _prepare(name: str, parsed: VarianceArguments, opened: OpenedRun, state: Path, batch: Batch) -> _Method:
    """Builds a method with all that the run knows of it, and lets it make one estimate of two rows, thrown away."""
    import torch

    from jsa.estimators import PersistentEstimator
    from jsa.estimators.registry import build_estimator, option_defaults
    from jsa.runs.build import take_chains
    from jsa.torch_contexts import in_evaluation_mode
    from jsa.training.state import load_estimator

    train, method = opened.splits.train, opened.config.method
    of_the_run = name == opened.config.estimator
    known = method if of_the_run else MethodConfig(particles=method.particles)
    defaults = option_defaults(name)
    options = {option: value for option, value in {**known.given, **parsed.method.given}.items() if option in defaults}
    inputs = train.observed_width + train.context_width
    estimator = build_estimator(name, opened.model.latent, inputs=inputs, rows=len(train), options=options)
    # What it learned is for the options that it learned with; those beside the particles tell what it learns.
    as_it_learned = {**defaults, **options, "particles": None} == {**defaults, **method.given, "particles": None}
    trained = of_the_run and as_it_learned and state.is_file()
    if trained:
        load_estimator(state, estimator)
    if isinstance(estimator, PersistentEstimator):
        take_chains(estimator.cache, opened, state, batch.index)
    with in_evaluation_mode(estimator), torch.random.fork_rng():
        estimator(opened.model, batch.take(torch.arange(min(2, len(batch)))))
    return _Method(name, estimator, not trained and estimator.learns)


def _print_head(*, equal_cost: bool) -> None:
    scaled = " times the decoder evaluations" if equal_cost else ""
    print(f"log of the summed variance{scaled}, with an interval of 95 %, and log of the squared bias")
    _print_line("method", "particles", "", "given the state", "total", "bias", "evaluations")


def _tell_objectives(methods: Sequence[_Method]) -> None:
    """Says where methods climb different objectives: their variances are then of gradients of different sizes."""
    by_objective: dict[str, list[str]] = {}
    for method in methods:
        by_objective.setdefault(method.estimator.description.optimizes, []).append(method.name)
    if len(by_objective) > 1:
        told = "; ".join(f"{objective}: {', '.join(names)}" for objective, names in by_objective.items())
        print(f"these are gradients of different objectives: {told}")


def _print_lines(method: _Method, report: GradientReport, *, equal_cost: bool) -> None:
    """Prints the figures of a method as soon as they are known."""
    cost = math.log(report.decoder_evaluations) if equal_cost else 0.0
    particles = "" if method.particles is None else str(method.particles)
    for group, name in (("theta", method.name), ("phi", "")):
        squared = report.squared_bias.get(group)
        _print_line(
            name,
            particles if name else "",
            group,
            _text(report.given_state[group], cost),
            _text(report.total[group], cost),
            "" if squared is None else f"{math.log(squared):.2f}" if squared > 0 else "below noise",
            f"{report.decoder_evaluations:.2f}" if name else "",
        )


def _print_line(*cells: str) -> None:
    method, particles, group, given_state, total, bias, evaluations = cells
    line = f"{method:20} {particles:>9} {group:6} {given_state:24} {total:24} {bias:>11} {evaluations:>12}"
    print(line.rstrip(), flush=True)


def _text(value: LogVariance, cost: float) -> str:
    if value.log_variance == -math.inf:
        return "no variance"
    return f"{value.log_variance + cost:7.2f} [{value.low + cost:.2f}, {value.high + cost:.2f}]"
