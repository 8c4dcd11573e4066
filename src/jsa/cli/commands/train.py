"""``jsa train``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jsa.cli.arguments import parse
from jsa.errors import UsageError
from jsa.io.home_folder import expanded
from jsa.models.presets import MODELS, NetworkConfig, preset
from jsa.runs.config import OWN, MethodConfig, RunConfig
from jsa.runs.folder import read_config

if TYPE_CHECKING:
    from jsa.runs.folder import RunFolder


@dataclass(frozen=True)
class TrainArguments(RunConfig):
    """Train a model, test it at its best epoch, and leave everything in a run folder.

    Network options have the defaults of the model, or with --config, like all others, those of an earlier run.
    """

    network: NetworkConfig = field(default_factory=lambda: preset("nonlinear"))
    out: Path | None = None
    """The run folder; a new one in runs/ where not given. An existing one is not overwritten."""
    config: Path | None = None
    """The config.json of an earlier run, or one written by hand: its options become the defaults. With another --model,
    --estimator or --epochs, the network, the method or --switch-epoch has its own defaults again."""


def run(arguments: Sequence[str]) -> None:
    """Train as the arguments say."""
    flags = {argument.split("=")[0].replace("_", "-") for argument in arguments}
    if {"--steps", "--epochs"} <= flags:
        raise UsageError("--steps and --epochs both say how long to train: give one of them")
    parsed = parse(TrainArguments, "train", arguments, default_arguments(arguments))
    config = _config(parsed, flags)

    # torch is imported only now, after every argument has been found good.
    from jsa.cli.own import imported
    from jsa.runs.build import train
    from jsa.training.signals import StopRequest

    # Never by a name that stands in the file of --config.
    named = {name: getattr(config, name) if f"--{name}" in flags else None for name in ("model", "estimator")}
    show(train(config, parsed.out, StopRequest(), imported(**named)))


def _config(parsed: TrainArguments, flags: set[str]) -> RunConfig:
    """Return the configuration that was given; an own model has no network options."""
    config = RunConfig(**{one.name: getattr(parsed, one.name) for one in dataclasses.fields(RunConfig)})
    if OWN not in config.model:
        # A name that is neither is refused with the known ones.
        preset(config.model)
        return config
    for one in dataclasses.fields(NetworkConfig):
        flag = f"--{one.name.replace('_', '-')}"
        if flag in flags:
            raise UsageError(
                f"{flag} is for the models of jsa ({', '.join(MODELS)}), and {config.model} is your own: leave it out"
            )
    return dataclasses.replace(config, network=None)


def show(folder: RunFolder) -> None:
    """Print the figures of a finished run."""
    from jsa.runs.scores import read_scores

    scores, config = read_scores(folder), folder.read_config()
    if scores.best.nll == scores.best.nll:
        samples = f"({scores.validation_samples} samples)"
        print(f"best epoch {scores.best.epoch}, validation NLL {scores.best.nll:.2f} {samples}")
    if scores.test is not None:
        print(f"test NLL {scores.test}")
        if scores.test.warning is not None:
            print(f"note: {scores.test.warning}")
    if scores.best.epoch == config.epochs and config.optimization.schedule == "constant":
        print("note: the last epoch was the best one: more --epochs, or a higher --learning-rate, may lower the NLL")
    outputs = [*(path.name for path in folder.outputs), folder.best.name, folder.metrics.name]
    print(f"run folder {folder.path}: {', '.join(outputs)}")


def _value(arguments: Sequence[str], flag: str) -> str | None:
    """Return the last value that is given for a flag, None without one: the parser, which needs the defaults, says so.

    >>> _value(["--model", "linear"], "--model"), _value(["--model"], "--model")
    ('linear', None)
    >>> _value(["--model", "linear", "--model=categorical"], "--model")
    'categorical'
    """
    found: str | None = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if word == flag:
            found = following
        elif word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
    return found


def default_arguments(arguments: Sequence[str]) -> TrainArguments:
    """Return the defaults of all options, given the configuration, model, method and epochs that the arguments name."""
    config, model, estimator = (_value(arguments, flag) for flag in ("--config", "--model", "--estimator"))
    base = RunConfig() if config is None else read_config(expanded(Path(config)), by_hand=True)
    if base.has_own_rows:
        raise UsageError(f"{config} is of rows that were given in Python, which no file leads to: call jsa.fit")
    if model is not None and model != base.model:
        base = dataclasses.replace(base, model=model, network=None if OWN in model else preset(model))
    # What a finished run resolved for its method and its length is wrong for others.
    if estimator is not None and estimator != base.estimator:
        base = dataclasses.replace(base, method=MethodConfig())
    lengths = (("--epochs", base.epochs), ("--steps", base.steps))
    if any(_value(arguments, flag) not in (None, str(known)) for flag, known in lengths):
        base = dataclasses.replace(base, steps=None, stages=dataclasses.replace(base.stages, switch_epoch=None))
    given = {one.name: getattr(base, one.name) for one in dataclasses.fields(RunConfig)}
    return TrainArguments(**{**given, "network": base.network or preset("nonlinear")})
