"""The variance of gradients along a run: measured once, and kept where a stop may come."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.own_tables import SIZES, save, spelled
from helpers.terminal import run_jsa
from jsa.evaluation.results import LogVariance
from jsa.experiments import worker
from jsa.experiments.results import VariancePoint, read_variances
from jsa.runs.folder import RunFolder
from jsa.training.signals import StopRequest

NONE = LogVariance(-math.inf, -math.inf, -math.inf)
SOME = LogVariance(1.0, 0.5, 1.5)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A finished run with a snapshot of each epoch."""
    table, out = save(tmp_path / "own.csv", spelled(40)), tmp_path / "run"
    run_jsa("train --data", table, "--out", out, SIZES, "--snapshot-every 1")
    return RunFolder(out)


def test_gradients_that_do_not_vary_are_kept_too(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([{"theta": NONE, "phi": SOME}, {"theta": SOME, "phi": NONE}])
    monkeypatch.setattr(worker, "gradient_variance", lambda *given, **named: next(found))
    points = (VariancePoint(1, None, SOME), VariancePoint(2, SOME, None))
    for _ in range(2):
        # The second time there is nothing left to measure.
        worker.measure_variances(run, StopRequest(), 20)
        assert tuple(read_variances(run).values()) == points


def test_what_was_measured_before_a_stop_is_not_measured_again(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def first_only() -> Iterator[dict[str, LogVariance]]:
        yield {"theta": SOME, "phi": SOME}
        raise KeyboardInterrupt

    found = first_only()
    monkeypatch.setattr(worker, "gradient_variance", lambda *given, **named: next(found))
    with pytest.raises(KeyboardInterrupt):
        worker.measure_variances(run, StopRequest(), 20)
    monkeypatch.setattr(worker, "gradient_variance", lambda *given, **named: {"theta": NONE, "phi": NONE})
    worker.measure_variances(run, StopRequest(), 20)
    assert tuple(read_variances(run).values()) == (VariancePoint(1, SOME, SOME), VariancePoint(2, None, None))
