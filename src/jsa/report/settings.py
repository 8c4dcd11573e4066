"""The settings of each run and how to run it again."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jsa.io.json_records import to_record
from jsa.models.presets import preset
from jsa.report.entry import Entry, groups
from jsa.report.html import Markup, element, joined
from jsa.runs.config import TrainConfig

FOLDED_FROM = 16
"""From how many runs on the groups are folded."""


def differences_table(entries: Sequence[Entry]) -> Markup:
    """A line a run with the settings in which the runs differ."""
    names = varying([entry.config for entry in entries])
    if not names:
        return element("p", "The settings of the runs are all the same.")
    head = element(
        "tr", element("th", "run", scope="col"), *(element("th", name, scope="col", class_="text") for name in names)
    )
    rows = []
    for entry in entries:
        record = flat(entry.config)
        cells = (element("td", record[name], class_="text") for name in names)
        rows.append(element("tr", element("th", entry.label, scope="row"), *cells))
    return element("div", element("table", element("thead", head), element("tbody", *rows)), class_="wide")


def configurations(entries: Sequence[Entry]) -> Markup:
    """What is not the default for each run, with all settings and the command below; what differs is marked."""
    marked = set(varying([entry.config for entry in entries]))
    numbers = {id(entry): number for number, entry in enumerate(entries)}
    parts = []
    for group, members in groups(entries).items():
        runs = [_configuration(entry, numbers[id(entry)], marked) for entry in members]
        heading = element("summary", f"{group}: {len(members)} run{'s' if len(members) > 1 else ''}")
        parts.append(element("details", heading, *runs, class_="group", open=len(entries) < FOLDED_FROM))
    return joined(parts)


def _configuration(entry: Entry, number: int, marked: Collection[str]) -> Markup:
    rows = [
        element(
            "tr",
            element("th", setting.name, scope="row"),
            element("td", element("mark" if setting.name in marked else "span", setting.value), class_="text"),
            element("td", setting.default, class_="text default"),
        )
        for setting in changed(entry.config)
    ]
    head = element("tr", *(element("th", text, scope="col", class_="text") for text in ("setting", "value", "default")))
    settings = (
        element("div", element("table", element("thead", head), element("tbody", *rows)), class_="wide")
        if rows
        else element("p", "Every setting has its default.")
    )
    return element(
        "details",
        element("summary", entry.label),
        command(entry.command),
        settings,
        element(
            "details",
            element("summary", "all settings as JSON"),
            element("pre", json.dumps(to_record(entry.config), indent=2)),
        ),
        class_="run",
        id=f"run-{number}",
    )


def command(text: str) -> Markup:
    """A command with a button that copies it."""
    button = element("button", "copy", type="button", class_="copy")
    return element("div", element("code", text), button, class_="command")


@dataclass(frozen=True)
class Setting:
    """A setting that is not the default."""

    name: str
    value: str
    default: str


def flat(config: TrainConfig) -> dict[str, str]:
    """Every setting as the command line names it.

    >>> flat(TrainConfig())["learning-rate"], flat(TrainConfig())["hidden"], flat(TrainConfig())["particles"]
    ('0.0003', '200 200', 'not given')
    """
    return {name.replace("_", "-"): _text(value) for name, value in _leaves(to_record(config)).items()}


def changed(config: TrainConfig) -> list[Setting]:
    """The settings that are not the default of the model.

    >>> changed(TrainConfig(epochs=3))
    [Setting(name='epochs', value='3', default='20')]
    """
    defaults = flat(TrainConfig(model=config.model, network=preset(config.model)))
    # The model sets the other defaults, but is itself a setting.
    defaults["model"] = TrainConfig().model
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
