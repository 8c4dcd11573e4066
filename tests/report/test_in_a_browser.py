"""The page in a real browser: it is drawn, and what a reader does has its effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.browser import Tab, browser_tab, find_browser
from helpers.small_reports import run_folder, save
from helpers.small_results import result
from jsa.experiments.report import results_page
from jsa.report.page import write_page
from jsa.report.run_folders import run_page

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no chromium or google-chrome on this machine")

SPACE, LEFT = 32, 37
CHART = '[data-section="curves"] .chart:nth-child(1)'
LEGEND = '[data-section="curves"] .legend:nth-child(3)'


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    assert PROGRAM is not None
    with browser_tab(PROGRAM) as opened:
        yield opened


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    save(result("jsa", 105.0, chains=True), folder, with_picture=True)
    save(result("vimco", 107.5), folder)
    save(result("jsa", 98.0, column="nonlinear", chains=True), folder)
    save(result("jsa", 75.0, table="table2", column="categorical", chains=True, variance=True), folder)
    write_page(results_page(folder), folder / "page.html")
    return folder / "page.html"


@pytest.fixture
def page(tab: Tab, results: Path) -> Iterator[Tab]:
    """The page about results, freshly opened; in the end it must not have complained."""
    tab.open(results)
    yield tab
    assert tab.complaints == []
    assert tab.requests == [results.resolve().as_uri()]


def paths(tab: Tab, chart: str = CHART) -> list[str]:
    found = tab.evaluate(f"[...document.querySelectorAll('{chart} path.curve')].map((path) => path.getAttribute('d'))")
    assert isinstance(found, list)
    return found


def text(tab: Tab, selector: str) -> str:
    return str(tab.evaluate(f"document.querySelector('{selector}').textContent"))


def choose(tab: Tab, label: str) -> None:
    """Clicks on a button of the curves by its label."""
    buttons = "document.querySelectorAll('[data-section=\"curves\"] .choice button')"
    tab.evaluate(f"[...{buttons}].find((one) => one.textContent === '{label}').id = 'chosen'")
    tab.click("#chosen")
    tab.evaluate("document.getElementById('chosen').removeAttribute('id')")


def test_every_curve_is_drawn_with_all_its_points(page: Tab) -> None:
    drawn = paths(page)
    # JSA and VIMCO, each on training and test rows, with twenty points each.
    assert len(drawn) == 4
    assert all(path.count("L") == 19 and "NaN" not in path for path in drawn)
    dashed = page.evaluate(f"document.querySelectorAll('{CHART} path.dashed').length")
    assert dashed == 2
    assert page.evaluate(f"document.querySelectorAll('{CHART} line.switch').length") == 1
    assert page.evaluate("document.querySelectorAll('[data-section=\"variance\"] path.band').length") == 1
    assert page.evaluate("document.querySelectorAll('[data-section=\"chains\"] .chart:not([hidden])').length") == 3


def test_the_legend_hides_and_shows_a_curve(page: Tab) -> None:
    # In the order of the tables, where VIMCO comes before JSA.
    button = f"{LEGEND} button:nth-child(2)"
    page.click(button)
    assert text(page, button) == "JSA"
    assert len(paths(page)) == 2
    assert page.evaluate(f"document.querySelector('{button}').getAttribute('aria-pressed')") == "false"
    # The other sections keep theirs.
    assert len(paths(page, '[data-section="chains"] .chart:nth-child(1)')) == 1
    page.press(button, " ", SPACE)
    assert len(paths(page)) == 4


def test_all_curves_can_be_hidden(page: Tab) -> None:
    page.click(f"{LEGEND} .everything")
    assert paths(page) == []
    assert "all curves are hidden" in text(page, CHART)
    page.click(f"{LEGEND} .everything")
    assert len(paths(page)) == 4


def test_another_axis_redraws(page: Tab) -> None:
    before = paths(page)
    assert "epochs" in text(page, CHART)
    choose(page, "processor time")
    assert "processor time, hours" in text(page, CHART)
    assert len(paths(page)) == len(before)
    assert paths(page) != before
    choose(page, "decoder evaluations")
    assert "decoder evaluations, millions" in text(page, CHART)
    # The cost grows with the epochs, so the curves stand where they stood.
    assert paths(page) == before


def test_other_figures_and_ranges_redraw(page: Tab) -> None:
    best = paths(page)
    choose(page, "all")
    everything = paths(page)
    assert everything != best
    choose(page, "all, logarithmic")
    assert paths(page) not in (best, everything)
    choose(page, "validation NLL")
    assert len(paths(page)) == 2


def test_the_best_region_leaves_out_the_huge_start(page: Tab) -> None:
    # The first NLL is above 400 and the last near 105: a start above the frame has a negative place.
    assert float(paths(page)[0].removeprefix("M").split("L")[0].split(",")[1]) < 0


def test_values_are_shown_under_the_pointer_and_by_keyboard(page: Tab) -> None:
    page.point_at(f"{CHART} svg")
    assert "JSA, seed 0, train" in text(page, f"{CHART} .tip")
    page.press(f"{CHART} svg", "Escape", 27)
    assert page.evaluate(f"document.querySelector('{CHART} .tip').hidden") is True
    page.press(f"{CHART} svg", "ArrowLeft", LEFT)
    assert "epochs 1,000" in text(page, f"{CHART} .tip")
    page.press(f"{CHART} svg", "ArrowLeft", LEFT)
    assert "epochs 950" in text(page, f"{CHART} .tip")


def test_a_heading_sorts_the_runs(page: Tab) -> None:
    heading = ".sortable th:nth-child(3) button"
    column = "[...document.querySelectorAll('.sortable tbody tr')].map((row) => row.cells[2].textContent)"
    page.click(heading)
    assert page.evaluate(column) == ["75.00", "98.00", "105.00", "107.50"]
    page.click(heading)
    assert page.evaluate(column) == ["107.50", "105.00", "98.00", "75.00"]


def test_a_command_is_copied_from_the_settings_that_a_run_links_to(page: Tab) -> None:
    page.click(".sortable tbody th a")
    page.wait_until("document.getElementById('run-0').open")
    page.click("#run-0 .copy")
    page.wait_until("['copied', 'selected'].includes(document.querySelector('#run-0 .copy').textContent)")


def test_it_fits_a_phone(page: Tab) -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=360, height=700, deviceScaleFactor=1, mobile=False)
    try:
        page.point_at(f"{CHART} svg")
        widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    finally:
        page.call("Emulation.clearDeviceMetricsOverride")
    assert isinstance(widths, list)
    assert widths[0] <= widths[1]


def test_runs_of_a_user(tab: Tab, tmp_path: Path) -> None:
    folders = [
        run_folder(tmp_path / "followed", followed=True),
        run_folder(tmp_path / "going", epochs=3, tested=False),
        run_folder(tmp_path / "new", epochs=0, tested=False),
        run_folder(tmp_path / "<b>bold", chains=False),
    ]
    write_page(run_page(folders), tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    assert tab.complaints == []
    # The validation NLL is what most of them have; one has no epoch yet.
    assert sorted(path.count("L") + 1 for path in paths(tab)) == [1, 5, 5]
    assert "<b>bold" in text(tab, LEGEND)
    choose(tab, "train and test NLL")
    assert len(paths(tab)) == 2
    assert tab.complaints == []


@pytest.mark.parametrize("axis", ["epochs", "processor time", "decoder evaluations"])
def test_a_single_validation_stands_in_the_middle(tab: Tab, tmp_path: Path, axis: str) -> None:
    write_page(run_page([run_folder(tmp_path / "short", epochs=2)]), tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    choose(tab, axis)
    for scale in ("best region", "all", "all, logarithmic"):
        choose(tab, scale)
        (place,) = paths(tab)
        inside = f"document.querySelector('{CHART} clipPath rect')"
        frame = tab.evaluate(f"['x', 'y', 'width', 'height'].map((name) => Number({inside}.getAttribute(name)))")
        assert isinstance(frame, list)
        x, y = map(float, place.removeprefix("M").split(","))
        assert x == pytest.approx(frame[0] + frame[2] / 2, abs=1)
        assert y == pytest.approx(frame[1] + frame[3] / 2, abs=0.05 * frame[3])
    assert tab.complaints == []


def test_many_runs_stay_quick(tab: Tab, tmp_path: Path) -> None:
    for seed in range(30):
        save(result("jsa", 100.0 + seed, seed=seed, points=1_000, chains=True), tmp_path)
    write_page(results_page(tmp_path), tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    assert [path.count("L") for path in paths(tab)] == [999] * 60
    redraw = "(() => { const start = performance.now(); document.getElementById('axis').click();"
    tab.evaluate("document.querySelectorAll('[data-section=\"curves\"] .choice button')[4].id = 'axis'")
    taken = tab.evaluate(f"{redraw} return performance.now() - start; }})()")
    assert isinstance(taken, float | int)
    # A tenth of a second on a machine that has nothing else to do.
    assert taken < 3_000
    assert tab.complaints == []
