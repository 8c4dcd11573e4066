"""Pages about a user's own run folders, finished or not."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from jsa.data.catalog import names
from jsa.errors import UsageError
from jsa.report.entry import CURVE_FIGURES, Entry, Picture, Track, read_picture
from jsa.report.page import Page
from jsa.runs.config import RunConfig
from jsa.runs.folder import RunFolder
from jsa.runs.identity import RowsIdentity, RunIdentity
from jsa.runs.scores import read_scores


def run_page(paths: Sequence[Path], title: str | None = None) -> Page:
    """Return the page about some runs."""
    unique = list({path.resolve(): path for path in paths}.values())
    apart = zip(unique, _labels(unique), _groups(unique), strict=True)
    entries = [read_entry(path, label, group) for path, label, group in apart]
    unfinished = sum(entry.unfinished is not None for entry in entries)
    about = f"{len(entries)} run{'s' if len(entries) > 1 else ''}" + (
        f", {unfinished} unfinished." if unfinished else "."
    )
    return Page(title or "Runs", about, entries)


def read_entry(path: Path, label: str, group: str) -> Entry:
    """Read the run in a folder, with its label and its group of comparable runs."""
    folder = RunFolder.open(path)
    config = folder.read_config()
    lines = enumerate(folder.read_metrics(), 1)
    metrics = [_checked(line, f"{folder.metrics}: line {number}") for number, line in lines]
    last = metrics[-1] if metrics else {}
    scores = read_scores(folder) if folder.evaluation.is_file() else None
    return Entry(
        label=label,
        series=label,
        group=group,
        config=config,
        command=_command(folder, config),
        curve=_curve(metrics),
        switch_epoch=_switch_epoch(metrics),
        best_epoch=scores.best.epoch if scores else None,
        valid_nll=scores.best.nll if scores and scores.best.nll == scores.best.nll else None,
        valid_samples=scores.validation_samples if scores else None,
        test=scores.test if scores else None,
        training_seconds=last.get("training_seconds"),
        processor_seconds=last.get("processor_seconds"),
        decoder_evaluations=_whole(last.get("decoder_evaluations")),
        commit=_commit(folder),
        pictures=_read_pictures(folder),
        unfinished=None if scores else f"unfinished: epoch {_whole(last.get('epoch', 0))} of {config.epochs}",
    )


def _checked(line: Mapping[str, float], where: str) -> Mapping[str, float]:
    if "epoch" not in line:
        raise UsageError(f"{where} has no epoch: fix or remove it")
    try:
        return {name: float(value) for name, value in line.items()}
    except OverflowError:
        raise UsageError(f"{where} has a number that is too large: fix or remove it") from None


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return the names of the folders, or the whole paths if two have the same name."""
    names = [path.resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _groups(paths: Sequence[Path]) -> list[str]:
    """Return groups of comparable runs: those of the same data and, if two tables share a name, the same test rows.

    Runs that predict a part of a row from the rest are in groups of their own.
    """
    found = []
    for path in paths:
        config = RunFolder.open(path).read_config()
        name = f"{config.data}, second half given the first" if config.conditional else config.data
        known = RunIdentity.read(path)
        found.append((name, None if known is None else known.test))
    rows_called = {name: {test for other, test in found if other == name} for name, _ in found}
    return [name if len(rows_called[name]) == 1 else f"{name}, {_test_rows(test)}" for name, test in found]


def _test_rows(test: RowsIdentity | None) -> str:
    return "unknown test rows" if test is None else f"{test.rows:,} test rows ({test.digest[:6]})"


def _command(folder: RunFolder, config: RunConfig) -> str:
    """Return what repeats a run: a command, in the folder to which relative paths refer, or a call."""
    if config.has_own_rows:
        return f"jsa.fit of {config.model}"
    known = RunIdentity.read(folder.path)
    relative = config.data not in names() and not Path(config.data).is_absolute()
    if known is None or not relative or known.started_in == Path.cwd():
        return f"jsa train --config {shlex.quote(str(folder.config))}"
    return f"cd {shlex.quote(str(known.started_in))} && jsa train --config {shlex.quote(str(folder.config.resolve()))}"


def _curve(metrics: Sequence[Mapping[str, float]]) -> Track:
    bounds = [line.get("objective") for line in metrics]
    return {
        **{name: [line.get(name) for line in metrics] for name in CURVE_FIGURES},
        "negative_bound": [None if bound is None else -bound for bound in bounds],
    }


def _switch_epoch(metrics: Sequence[Mapping[str, float]]) -> int | None:
    """Return the last epoch before stage II."""
    first = next((line["epoch"] for line in metrics if line.get("stage") == 2), None)
    return None if first is None else _whole(first - 1)


def _commit(folder: RunFolder) -> str | None:
    """Return the commit with which the run was last continued, None if it was never begun."""
    records = folder.read_provenance()
    return records[-1].commit if records else None


def _read_pictures(folder: RunFolder) -> tuple[Picture, ...]:
    known = [path for path in (folder.samples, folder.reconstructions) if path.is_file()]
    return tuple(read_picture(path.stem, path) for path in known)


def _whole(number: float | None) -> int | None:
    """Return a count, which anybody's file may have as any number."""
    return None if number is None or number != number or abs(number) == float("inf") else int(number)
