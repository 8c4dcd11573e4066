"""The figures are drawn from results alone."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from matplotlib import image
from matplotlib.figure import Figure

from helpers.small_results import result
from jsa.errors import UsageError
from jsa.experiments.figures import MARKERS, draw_figures, over_seeds
from jsa.experiments.results import Result
from jsa.experiments.tables import METHODS, TABLES
from jsa.report.styles import MARKS


def test_every_method_has_its_own_look() -> None:
    for found in TABLES.values():
        looks = [METHODS[name].style for name in found.rows]
        assert len(set(looks)) == len(looks)


def test_figures_have_as_many_marks_as_the_page() -> None:
    assert len(MARKERS) == MARKS


def test_each_column_with_curves_becomes_a_figure(tmp_path: Path) -> None:
    results = [
        *(result(method, 105.0 + place) for place, method in enumerate(("jsa", "rws", "vimco"))),
        *(result(method, 80.0, table="table2", column="categorical", variance=True) for method in ("jsa", "arsm")),
    ]
    paths = [path.name for path in draw_figures(results, tmp_path)]
    names = ["nll-linear-paper", "nll-categorical-paper", "variance-categorical-paper"]
    assert paths == [f"{name}.{kind}" for name in names for kind in ("pdf", "png")]
    for path in tmp_path.glob("*.png"):
        picture = image.imread(path)
        assert picture.shape[1] == 1400
        # Something is drawn in JSA's own color.
        vermillion = np.abs(picture[..., :3] - np.array([0xD5, 0x5E, 0x00]) / 255).max(-1) < 0.02
        assert vermillion.sum() > 200


def test_the_same_results_give_the_same_file(tmp_path: Path) -> None:
    one, two = (next(iter(draw_figures([result()], tmp_path / name))).read_bytes() for name in ("one", "two"))
    assert one == two


def test_seeds_become_one_curve() -> None:
    results = [result("jsa", 100.0), result("jsa", 102.0, seed=1)]
    curve = over_seeds(results, attrgetter("epoch"), attrgetter("test_nll"))
    assert curve.x == list(range(50, 1_001, 50))
    assert curve.mean[-1] == pytest.approx(102.0 + 300 / 400)
    assert curve.deviation[-1] == pytest.approx(2**0.5)


class Draw(Protocol):
    """Draws the figures of results."""

    def __call__(self, *results: Result) -> list[Figure]: ...


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Draw:
    """They are given back instead of written."""
    kept: list[Figure] = []

    def keep(figure: Figure, path: Path) -> list[Path]:
        kept.append(figure)
        return [path]

    def draw(*results: Result) -> list[Figure]:
        list(draw_figures(results, tmp_path))
        return kept

    monkeypatch.setattr("jsa.experiments.figures._save", keep)

    return draw


FOUR = [result(method, 105.0 + place) for place, method in enumerate(("jsa", "rws", "vimco", "arm"))]


@pytest.mark.parametrize("bad", ["reinforce", "rebar"])
def test_a_method_far_above_is_named_and_leaves_the_others_their_room(drawn: Draw, bad: str) -> None:
    for axis in drawn(*FOUR, result(bad, 600.0))[0].axes:
        assert axis.get_ylim()[1] < 130
        assert [text.get_text() for text in axis.texts] == [f"above: {bad.upper()}"]


def test_a_panel_names_only_what_is_above_it(drawn: Draw) -> None:
    overfitted = result("rebar", 105.0)
    curve = tuple(replace(point, test_nll=600.0) for point in overfitted.curve)
    (figure,) = drawn(*FOUR, replace(overfitted, curve=curve))
    named = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    assert named == [[], [], ["above: REBAR"], ["above: REBAR"]]


def test_the_switch_is_marked_against_epochs_and_time(drawn: Draw) -> None:
    (figure,) = drawn(result(chains=True), result("rws"))
    lines = [[np.asarray(line.get_xdata()).tolist() for line in axis.lines] for axis in figure.axes]
    places = [[xs[0] for xs in found if xs == [xs[0]] * 2] for found in lines]
    before = max((point for point in result(chains=True).curve if point.stage == 1), key=lambda point: point.epoch)
    assert places == 2 * [[600], [pytest.approx(before.processor_seconds / 3600)]]


def test_training_rows_are_above_and_test_rows_below(drawn: Draw) -> None:
    one, other = result("rws"), result("vimco", 107.0)
    axes = drawn(one, other)[0].axes
    assert [axis.get_ylabel() for axis in axes] == ["NLL of training rows [nats]", "", "NLL of test rows [nats]", ""]
    for axis, name in zip(axes, ("train_nll", "train_nll", "test_nll", "test_nll"), strict=True):
        expected = [[getattr(point, name) for point in run.curve] for run in (one, other)]
        assert [np.asarray(line.get_ydata()).tolist() for line in axis.lines] == expected


def test_gradients_that_do_not_vary_leave_a_gap(drawn: Draw) -> None:
    one = result("vimco", table="table2", column="categorical", variance=True)
    one = replace(one, variance=(replace(one.variance[0], theta=None), *one.variance[1:]))
    theta, phi = drawn(one)[1].axes
    assert [np.asarray(axis.lines[0].get_xdata()).tolist() for axis in (theta, phi)] == [[200, 300], [100, 200, 300]]


def test_a_figure_counts_the_seeds_of_its_column(drawn: Draw) -> None:
    figures = drawn(*(result(seed=seed) for seed in range(3)), result("rws"), result(column="nonlinear"))
    titles = [figure.get_suptitle() for figure in figures]
    assert titles == ["Linear, paper budget, 1 to 3 seeds", "Nonlinear, paper budget, 1 seed"]


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no results to draw"):
        list(draw_figures([], tmp_path))
