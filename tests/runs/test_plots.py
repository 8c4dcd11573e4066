"""Pictures show what they should where they should."""

from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import image

from jsa.runs.plots import COLUMNS, LARGEST_CELL, MARGIN, SCALE, save_curves, save_grid, save_pairs


def test_images_stand_in_reading_order(tmp_path: Path) -> None:
    rows = torch.zeros(COLUMNS + 2, 6)
    rows[COLUMNS + 1] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    save_grid(tmp_path / "grid.png", rows, (2, 3))
    picture = image.imread(tmp_path / "grid.png")[::SCALE, ::SCALE, 0]
    assert picture.shape == (2 * 2 + MARGIN, COLUMNS * (3 + MARGIN) - MARGIN)
    top, left = 2 + MARGIN, 3 + MARGIN
    assert np.array_equal(picture[top : top + 2, left : left + 3], [[1, 0, 0], [0, 0, 1]])
    assert picture[top, 0] == 0.0
    assert 0.4 < picture[-1, -1] < 0.6


def test_rows_that_are_no_images_are_lines_of_shades(tmp_path: Path) -> None:
    one_hot = torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    save_grid(tmp_path / "lines.png", one_hot, None, classes=3)
    picture = image.imread(tmp_path / "lines.png")[::LARGEST_CELL, ::LARGEST_CELL, 0]
    assert np.array_equal(picture, [[0.0, 1.0]])
    save_grid(tmp_path / "wide.png", torch.eye(300)[:2], None)
    assert image.imread(tmp_path / "wide.png").shape[:2] == (2 * SCALE, 300 * SCALE)


def test_originals_stand_above_their_copies(tmp_path: Path) -> None:
    save_pairs(tmp_path / "pairs.png", torch.ones(COLUMNS + 1, 1), torch.zeros(COLUMNS + 1, 1), (1, 1))
    picture = image.imread(tmp_path / "pairs.png")[::SCALE, ::SCALE, 0]
    step = 1 + MARGIN
    assert list(picture[::step, 0]) == [1.0, 0.0, 1.0, 0.0]


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
