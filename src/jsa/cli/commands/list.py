"""``jsa list``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import tyro

from jsa.cli.arguments import parse


@dataclass(frozen=True)
class ListArguments:
    """Tell what there is to choose from."""

    what: tyro.conf.Positional[Literal["all", "data", "models", "estimators"]] = "all"
    """Which list."""


def run(arguments: Sequence[str]) -> None:
    """Prints the lists."""
    parsed = parse(ListArguments, "list", arguments)
    lists = {"data": _data, "models": _models, "estimators": _estimators}
    for name, rows in lists.items():
        if parsed.what in (name, "all"):
            print(f"{name}:")
            table = rows()
            width = max(len(row[0]) for row in table)
            for row in table:
                print(f"  {row[0]:{width}}  {row[1]}")


def _data() -> list[tuple[str, str]]:
    from jsa.data import describe, names

    return [(name, describe(name)) for name in names()]


def _models() -> list[tuple[str, str]]:
    from jsa.models.configuration import MODELS

    return [(name, (make.__doc__ or "").strip()) for name, make in MODELS.items()]


def _estimators() -> list[tuple[str, str]]:
    from jsa.estimators import ESTIMATORS

    rows = []
    for name, kind in ESTIMATORS.items():
        about = kind.description
        rows.append(
            (
                name,
                f"{about.optimises}; unbiased: {about.unbiased}; latents: {about.latents}; "
                f"decoder evaluations: {about.decoder_evaluations}; {about.reference}",
            )
        )
    return rows
