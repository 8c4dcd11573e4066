"""``jsa train``."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jsa.cli.arguments import parse
from jsa.errors import UsageError
from jsa.io.home_folder import expanded
from jsa.models.presets import preset
from jsa.runs.config import MethodConfig, RunConfig
from jsa.runs.folder import read_config

if TYPE_CHECKING:
    from jsa.runs.run import Outcome


@dataclass(frozen=True)
class TrainArguments(RunConfig):
    """Train a model, test it at its best epoch, and leave everything in a run folder.

    Network options have the defaults of the model, or with --config, like all others, those of an earlier run.
    """

    out: Path | None = None
    """The run folder; a new one in runs/ where not given. An existing one is not overwritten."""
    config: Path | None = None
    """The config.json of an earlier run, or one written by hand: its options become the defaults. With another --model,
    --estimator or --epochs, the network, the method or --switch-epoch has its own defaults again."""
    resume: Path | None = None
    """Continue the run in this folder with its own options; only --learning-rate, --non-finite and --memory-limit may
    change, and --data-dir says where its data is now."""


def run(arguments: Sequence[str]) -> None:
    """Train as the arguments say."""
    resumed = resume_arguments(arguments)
    if resumed is not None:
        _resume(resumed)
        return
    parsed = parse(TrainArguments, "train", arguments, default_arguments(arguments))
    names = [field.name for field in dataclasses.fields(RunConfig)]
    config = RunConfig(**{name: getattr(parsed, name) for name in names})

    # torch is imported only now, after every argument has been found good.
    from jsa.runs.run import run as run_whole
    from jsa.training.signals import StopRequest

    _show(run_whole(config, parsed.out, StopRequest()))


def resume_arguments(arguments: Sequence[str]) -> argparse.Namespace | None:
    """Return what goes with --resume, None without it; all other options are those of the run."""
    flags = {argument.split("=")[0] for argument in arguments}
    if "--resume" not in flags or flags & {"-h", "--help"}:
        return None
    parser = argparse.ArgumentParser(prog="jsa train", add_help=False, allow_abbrev=False)
    parser.add_argument("--resume", type=expanded, metavar="RUN")
    parser.add_argument("--learning-rate", "--learning_rate", type=float)
    parser.add_argument("--non-finite", "--non_finite", choices=("stop", "skip"))
    parser.add_argument("--memory-limit", "--memory_limit", type=float)
    parser.add_argument("--data-dir", "--data_dir", type=expanded)
    given, others = parser.parse_known_args(list(arguments))
    if others:
        raise UsageError(
            f"--resume continues a run with its own options, so {others[0]} cannot be given: only --learning-rate, "
            "--non-finite and --memory-limit may change, and --data-dir says where its data is now; for a new run with "
            "some of its options use --config"
        )
    return given


def _resume(given: argparse.Namespace) -> None:
    from jsa.runs.folder import RunFolder
    from jsa.runs.run import Changes, finished, resume
    from jsa.training.signals import StopRequest

    if finished(RunFolder.open(given.resume)) is not None:
        print(f"the run {given.resume} is finished")
    changes = Changes(given.learning_rate, given.non_finite, given.memory_limit)
    _show(resume(given.resume, changes, StopRequest(), given.data_dir))


def _show(outcome: Outcome) -> None:
    scores = outcome.scores
    print(f"best epoch {scores.best.epoch}, validation NLL {scores.best.nll:.2f} ({scores.validation_samples} samples)")
    print(f"test NLL {scores.test}")
    if scores.test.warning is not None:
        print(f"note: {scores.test.warning}")
    if outcome.still_learning:
        print("note: the last epoch was the best one: more --epochs, or a higher --learning-rate, may lower the NLL")
    folder = outcome.folder.path
    shown = ", ".join(path.name for path in outcome.outputs)
    print(f"run folder {folder}: {shown}, best.safetensors, metrics.jsonl")


def default_arguments(arguments: Sequence[str]) -> TrainArguments:
    """Return the defaults of all options, given the configuration, model, method and epochs that the arguments name."""
    first_look = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first_look.add_argument("--model")
    first_look.add_argument("--estimator")
    first_look.add_argument("--epochs", type=int)
    first_look.add_argument("--config", type=expanded)
    try:
        named, _ = first_look.parse_known_args(list(arguments))
    except argparse.ArgumentError:
        # A flag without its value: the full parser says so.
        return TrainArguments()
    base = RunConfig() if named.config is None else read_config(named.config, by_hand=True)
    if named.model is not None and named.model != base.model:
        base = dataclasses.replace(base, model=named.model, network=preset(named.model))
    # What a finished run resolved for its method and its epochs is wrong for others.
    if named.estimator is not None and named.estimator != base.estimator:
        base = dataclasses.replace(base, method=MethodConfig())
    if named.epochs is not None and named.epochs != base.epochs:
        base = dataclasses.replace(base, stages=dataclasses.replace(base.stages, switch_epoch=None))
    return TrainArguments(**{field.name: getattr(base, field.name) for field in dataclasses.fields(RunConfig)})
