"""``jsa train``."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jsa.cli.arguments import parse
from jsa.configuration import TrainConfig
from jsa.models.configuration import preset
from jsa.records import from_record, read_json


@dataclass(frozen=True)
class TrainArguments(TrainConfig):
    """Train a model, test it at its best epoch, and leave everything in a run folder.

    The network options have the defaults of the chosen model; with --config, all options those of an earlier run.
    """

    out: Path | None = None
    """The run folder; a new one in runs/ where not given. An existing one is not overwritten."""
    config: Path | None = None
    """The config.json of an earlier run: its options become the defaults."""


def run(arguments: Sequence[str]) -> None:
    """Trains as the arguments say."""
    parsed = parse(TrainArguments, "train", arguments, default_arguments(arguments))
    names = [field.name for field in dataclasses.fields(TrainConfig)]
    config = TrainConfig(**{name: getattr(parsed, name) for name in names})

    # torch is imported only now, after every argument has been found good.
    from jsa.run import run as run_whole

    outcome = run_whole(config, parsed.out)
    print(f"best epoch {outcome.best.epoch}, validation NLL {outcome.best.nll:.2f}")
    print(f"test NLL {outcome.test}")
    if outcome.test.warning is not None:
        print(f"note: {outcome.test.warning}")
    folder = outcome.folder.path
    print(f"run folder {folder}: samples.png, reconstructions.png, curves.png, best.safetensors, metrics.jsonl")


def default_arguments(arguments: Sequence[str]) -> TrainArguments:
    """What the other options default to, given the model or the configuration that the arguments name."""
    first_look = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first_look.add_argument("--model")
    first_look.add_argument("--config", type=Path)
    try:
        named, _ = first_look.parse_known_args(list(arguments))
    except argparse.ArgumentError:
        # A flag without its value: the full parser says so.
        return TrainArguments()
    base = TrainConfig() if named.config is None else from_record(TrainConfig, read_json(named.config))
    if named.model is not None and named.model != base.model:
        base = dataclasses.replace(base, model=named.model, network=preset(named.model))
    return TrainArguments(**{field.name: getattr(base, field.name) for field in dataclasses.fields(TrainConfig)})
