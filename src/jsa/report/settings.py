"""The settings of runs: which are not the default, and in which the runs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jsa.configuration import TrainConfig
from jsa.estimators.build import option_defaults
from jsa.models.configuration import preset
from jsa.records import to_record


@dataclass(frozen=True)
class Setting:
    """A setting that is not the default."""

    name: str
    value: str
    default: str


def flat(config: TrainConfig) -> dict[str, str]:
    """Every setting as the command line names it; options of the method that were not given are what it has then.

    >>> flat(TrainConfig())["learning-rate"], flat(TrainConfig())["hidden"], flat(TrainConfig())["threads"]
    ('0.0003', '200 200', 'not given')
    >>> flat(TrainConfig(estimator="nvil"))["particles"], flat(TrainConfig(estimator="arsm"))["particles"]
    ('1', 'not taken')
    """
    settings = {name: _text(value) for name, value in _leaves(to_record(config)).items()}
    taken = option_defaults(config.estimator)
    for name, given in vars(config.method).items():
        settings[name] = _text(taken[name] if given is None else given) if name in taken else "not taken"
    return {name.replace("_", "-"): text for name, text in settings.items()}


def changed(config: TrainConfig) -> list[Setting]:
    """The settings that are not the default of the model and of the method.

    >>> changed(TrainConfig(epochs=3))
    [Setting(name='epochs', value='3', default='20')]
    """
    usual = TrainConfig()
    defaults = flat(replace(usual, model=config.model, network=preset(config.model), estimator=config.estimator))
    # These two set the other defaults, but are themselves settings.
    defaults |= {"model": usual.model, "estimator": usual.estimator}
    return [Setting(name, value, defaults[name]) for name, value in flat(config).items() if value != defaults[name]]


def varying(configs: Sequence[TrainConfig]) -> list[str]:
    """The names of the settings in which runs differ.

    >>> varying([TrainConfig(seed=1), TrainConfig(seed=2)])
    ['seed']
    """
    records = [flat(config) for config in configs]
    return [name for name in (records[0] if records else ()) if len({record[name] for record in records}) > 1]


def _leaves(record: Mapping[str, object]) -> dict[str, object]:
    """The fields of all groups; no two have the same name."""
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
