"""The settings of runs by the names of the command line: those that are not the default, and those that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jsa.io.json_records import to_record
from jsa.models.presets import preset
from jsa.runs.config import TrainConfig


@dataclass(frozen=True)
class Setting:
    """A setting that is not the default."""

    name: str
    value: str
    default: str


def flat(config: TrainConfig) -> dict[str, str]:
    """Return every setting as the command line names it.

    >>> flat(TrainConfig())["learning-rate"], flat(TrainConfig())["hidden"], flat(TrainConfig())["particles"]
    ('0.0003', '200 200', 'not given')
    """
    return {name.replace("_", "-"): _text(value) for name, value in _leaves(to_record(config)).items()}


def changed(config: TrainConfig) -> list[Setting]:
    """Return the settings that are not the default of the model.

    >>> changed(TrainConfig(epochs=3))
    [Setting(name='epochs', value='3', default='20')]
    """
    defaults = flat(TrainConfig(model=config.model, network=preset(config.model)))
    # The model sets the other defaults, but is itself a setting.
    defaults["model"] = TrainConfig().model
    return [Setting(name, value, defaults[name]) for name, value in flat(config).items() if value != defaults[name]]


def varying(configs: Sequence[TrainConfig]) -> list[str]:
    """Return the names of the settings in which runs differ.

    >>> varying([TrainConfig(seed=1), TrainConfig(seed=2)])
    ['seed']
    """
    records = [flat(config) for config in configs]
    return [name for name in (records[0] if records else ()) if len({record[name] for record in records}) > 1]


def _leaves(record: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of all groups; no two have the same name."""
    found: dict[str, object] = {}
    for name, value in record.items():
        found |= _leaves(value) if isinstance(value, Mapping) else {name: value}
    return found


def _text(value: object) -> str:
    if value is None:
        return "not given"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
