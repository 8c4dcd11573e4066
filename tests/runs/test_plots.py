"""Curves show what they should."""

from itertools import count
from pathlib import Path

import pytest
from matplotlib import image

from jsa.runs.plots import save_curves


def test_curves_need_neither_chains_nor_validations(tmp_path: Path) -> None:
    save_curves(tmp_path / "plain.png", [{"epoch": 1, "objective": -3.0}])
    with_chains = [
        {"epoch": 1, "objective": -3.0, "acceptance": 0.5, "frozen_share": 0.0, "stage": 1},
        {"epoch": 2, "objective": -2.0, "acceptance": 0.4, "frozen_share": 0.1, "stage": 2, "valid_nll": 2.0},
    ]
    save_curves(tmp_path / "chains.png", with_chains)
    plain, chains = (image.imread(tmp_path / name).shape for name in ("plain.png", "chains.png"))
    assert chains[1] > plain[1]


def test_curves_are_drawn_without_a_warning_on_a_slow_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(step=10)
    monkeypatch.setattr("matplotlib.legend.time.perf_counter", lambda: next(seconds))
    save_curves(tmp_path / "curves.png", [{"epoch": 1, "objective": -3.0}])
