"""The settings of runs by their names on the command line: those that are not the default, and those that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from jsa.io.json_records import to_record
from jsa.models.presets import NetworkConfig, preset
from jsa.runs.config import RunConfig


@dataclass(frozen=True)
class Setting:
    """A setting that is not the default."""

    name: str
    value: str
    default: str


def flat(config: RunConfig) -> dict[str, str]:
    """Return every setting by its name on the command line; those of networks are not given for an own model.

    >>> flat(RunConfig())["learning-rate"], flat(RunConfig())["hidden"], flat(RunConfig())["particles"]
    ('0.0003', '200 200', 'not given')
    """
    found = _leaves(to_record(config))
    if config.network is None:
        del found["network"]
        found |= dict.fromkeys((one.name for one in fields(NetworkConfig)), None)
    return {name.replace("_", "-"): _text(value) for name, value in found.items()}


def changed(config: RunConfig) -> list[Setting]:
    """Return the settings that differ from the defaults of the model; an own model has no network settings.

    >>> changed(RunConfig(epochs=3))
    [Setting(name='epochs', value='3', default='20')]
    """
    network = None if config.has_own_model else preset(config.model)
    defaults = flat(RunConfig(model=config.model, network=network, epochs=config.epochs).with_switch_epoch)
    found = flat(config.with_switch_epoch)
    # Model and epochs set other defaults, but are settings themselves.
    defaults["model"] = RunConfig().model
    defaults["epochs"] = str(RunConfig().epochs)
    return [Setting(name, value, defaults[name]) for name, value in found.items() if value != defaults[name]]


def varying(configs: Sequence[RunConfig]) -> list[str]:
    """Return the names of the settings in which runs differ.

    >>> varying([RunConfig(seed=1), RunConfig(seed=2)])
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
