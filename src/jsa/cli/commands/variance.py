"""``jsa variance``."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jsa.cli.arguments import RunArguments, parse
from jsa.errors import UsageError


@dataclass(frozen=True)
class VarianceArguments(RunArguments):
    """How noisy the gradients of methods are at a trained model, on one fixed minibatch of its training rows.

    For methods with chains there are three figures: the variance given the chains' states, the total variance with the
    states redrawn by long chains, and the squared bias against the posterior's gradient. The method of the run has its
    options and what it learned, such as baselines; those that other methods learn are as they begin, and this is said.
    """

    estimators: tuple[str, ...] = ("jsa", "jsa-rao-blackwell", "hybrid", "msc", "rws", "vimco", "rloo")
    """The methods to compare."""
    draws: int = 1000
    """Gradients of each method."""
    rows: int = 200
    """The batch: the first training rows."""
    particles: int | None = None
    """Particles of each method that takes them; that of the run where not given."""
    moves: int = 100
    """Metropolis moves that redraw a chain before each draw of its total variance."""
    reference_moves: int = 20_000
    """Moves of the long chains that give the posterior's gradient, where it cannot be enumerated."""
    equal_cost: bool = False
    """Compare at equal decoder evaluations: a method that costs twice as much counts with twice its variance."""
    snapshot: int | None = None
    """Weights and chains of the end of this epoch, of a run with --snapshot-every, in place of the checkpoint's."""
    json: Path | None = None
    """Also write the figures to this file."""


def run(arguments: Sequence[str]) -> None:
    """Measures as the arguments say."""
    parsed = parse(VarianceArguments, "variance", arguments)
    if parsed.rows < 1:
        raise UsageError(f"rows is 1 or more, not {parsed.rows}")

    import torch

    from jsa.assembly import take_chains
    from jsa.estimators import PersistentEstimator
    from jsa.estimators.build import build_estimator, option_names
    from jsa.evaluation.gradient_variance import gradient_report, posterior_gradient
    from jsa.files import write_text
    from jsa.records import to_record
    from jsa.training.report import evaluation_progress
    from jsa.training.state import load_estimator, load_model

    option_sets = {name: option_names(name) for name in parsed.estimators}
    opened = parsed.open()
    state = opened.folder.state
    if parsed.snapshot is not None:
        state = opened.folder.snapshot(parsed.snapshot)
        if not state.is_file():
            kept = sorted(int(path.stem.removeprefix("epoch-")) for path in opened.folder.snapshots.glob("epoch-*"))
            known = ", ".join(map(str, kept)) or "none: train with --snapshot-every"
            raise UsageError(f"{parsed.run} has no snapshot of epoch {parsed.snapshot}: it has {known}")
        load_model(state, opened.model)
    train = opened.splits.train
    batch = train.batch(torch.arange(min(parsed.rows, len(train))))
    particles = parsed.particles or opened.config.method.particles
    torch.manual_seed(parsed.seed)
    reference = None
    reports = {}
    untrained = []
    for name in parsed.estimators:
        of_the_run = name == opened.config.estimator
        options = dict(opened.config.method.given) if of_the_run else {}
        if particles and "particles" in option_sets[name]:
            options["particles"] = particles
        inputs = train.observed_width + train.context_width
        estimator = build_estimator(name, opened.model.latent, inputs=inputs, rows=len(train), options=options)
        if of_the_run and state.is_file():
            load_estimator(state, estimator)
        elif any(True for _ in estimator.parameters()):
            untrained.append(name)
        if isinstance(estimator, PersistentEstimator):
            if reference is None:
                reference = posterior_gradient(opened.model, batch, parsed.reference_moves)
            take_chains(estimator.cache, opened, state, batch.index)
        rounds = 2 if isinstance(estimator, PersistentEstimator) else 1
        with evaluation_progress(rounds * parsed.draws, name) as progress:
            reports[name] = gradient_report(
                opened.model,
                estimator,
                batch,
                parsed.draws,
                moves=parsed.moves,
                reference=reference if rounds == 2 else None,
                progress=progress,
            )
    print("log of the summed variance, with an interval of 95 %, and log of the squared bias")
    print(f"{'method':20} {'':6} {'given the state':24} {'total':24} {'bias':>8} {'evaluations':>12}")
    for name, report in reports.items():
        cost = math.log(report.decoder_evaluations) if parsed.equal_cost else 0.0
        for group in ("theta", "phi"):
            cells = [
                f"{value.log_variance + cost:7.2f} [{value.low + cost:.2f}, {value.high + cost:.2f}]"
                for value in (report.given_state[group], report.total[group])
            ]
            squared = report.squared_bias.get(group)
            bias = "" if squared is None else f"{math.log(squared):.2f}" if squared > 0 else "below noise"
            evaluations = f"{report.decoder_evaluations:.2f}" if group == "theta" else ""
            label = name if group == "theta" else ""
            print(f"{label:20} {group:6} {cells[0]:24} {cells[1]:24} {bias:>8} {evaluations:>12}")
    if untrained:
        print(
            f"{', '.join(untrained)}: what this method learns beside the model, such as baselines, is untrained here; "
            "measure it at a run of its own"
        )
    if parsed.json is not None:
        record = {"draws": parsed.draws, "rows": len(batch), "particles": particles, "seed": parsed.seed}
        figures = {name: to_record(report) for name, report in reports.items()}
        write_text(parsed.json, json.dumps({**record, "estimators": figures}, indent=2) + "\n")
