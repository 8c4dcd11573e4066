"""``jsa list``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import tyro

from jsa.cli.arguments import parse


@dataclass(frozen=True)
class ListArguments:
    """List the datasets, models and estimators."""

    what: tyro.conf.Positional[Literal["all", "data", "models", "estimators"]] = "all"
    """The list to show."""


def run(arguments: Sequence[str]) -> None:
    """Run ``jsa list``."""
    parsed = parse(ListArguments, "list", arguments)
    if parsed.what in ("data", "all"):
        _print_names("data", _data())
    if parsed.what in ("models", "all"):
        _print_names("models", _models())
    if parsed.what in ("estimators", "all"):
        _print_estimators()


def _print_names(title: str, rows: list[tuple[str, str]]) -> None:
    print(f"{title}:")
    width = max(len(name) for name, _ in rows)
    for name, about in rows:
        print(f"  {name:{width}}  {about}")


def _data() -> list[tuple[str, str]]:
    from jsa.data import describe, names

    return [(name, describe(name)) for name in names()]


def _models() -> list[tuple[str, str]]:
    from jsa.models.presets import MODELS

    return [(name, (make.__doc__ or "").strip()) for name, make in MODELS.items()]


def _print_estimators() -> None:
    from jsa.estimators.registry import ESTIMATORS, option_defaults

    print("estimators (n is the number of particles):")
    for name, kind in ESTIMATORS.items():
        about = kind.description
        particles = option_defaults(name).get("particles")
        print(f"  {name}")
        for label, text in (
            ("optimizes", about.optimizes),
            ("unbiased", about.unbiased),
            ("latents", about.latents),
            ("particles", f"n = {particles} by default" if particles else "none"),
            ("decoder evaluations", about.decoder_evaluations),
            ("reference", about.reference),
        ):
            print(f"    {label:19}  {text}")
