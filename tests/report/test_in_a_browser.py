"""The page in a real browser: it is drawn, and what a reader does has its effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from helpers.browser import MISSING, PATIENCE, PROGRAM, browsing
from helpers.small_reports import run_folder, save
from helpers.small_results import result
from jsa.experiments.report import results_page
from jsa.report.page import write_page
from jsa.report.run_folders import run_page

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

CHART = '[data-section="curves"] .chart:nth-child(1)'
LEGEND = '[data-section="curves"] .legend:nth-child(3)'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A page of the browser, which must neither complain nor ask for anything but its own file."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    heard: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    assert heard == []
    assert [url for url in asked if not url.startswith("data:")] == [page.url.partition("#")[0]]
    page.close()


def opened(tab: Page, path: Path) -> Page:
    tab.goto(path.resolve().as_uri())
    # The size of the charts is known one frame later.
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return tab


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
def page(tab: Page, results: Path) -> Page:
    """The page about results, freshly opened."""
    return opened(tab, results)


def paths(tab: Page, chart: str = CHART) -> list[str]:
    return [one.get_attribute("d") or "" for one in tab.locator(f"{chart} path.curve").all()]


def choose(tab: Page, label: str) -> Locator:
    """Clicks on a button of the curves by its label."""
    button = tab.locator('[data-section="curves"] .choice').get_by_role("button", name=label, exact=True)
    button.click()
    return button


def test_every_curve_is_drawn_with_all_its_points(page: Page) -> None:
    drawn = paths(page)
    # JSA and VIMCO, each on training and test rows, with twenty points each.
    assert len(drawn) == 4
    assert all(path.count("L") == 19 and "NaN" not in path for path in drawn)
    expect(page.locator(f"{CHART} path.dashed")).to_have_count(2)
    expect(page.locator(f"{CHART} line.switch")).to_have_count(1)
    expect(page.locator('[data-section="variance"] path.band')).to_have_count(1)
    expect(page.locator('[data-section="chains"] .chart:not([hidden])')).to_have_count(3)


def test_the_legend_hides_and_shows_a_curve(page: Page) -> None:
    # In the order of the tables, where VIMCO comes before JSA.
    button = page.locator(f"{LEGEND} button:nth-child(2)")
    button.click()
    expect(button).to_have_text("JSA")
    expect(button).to_have_attribute("aria-pressed", "false")
    assert len(paths(page)) == 2
    # The other sections keep theirs.
    assert len(paths(page, '[data-section="chains"] .chart:nth-child(1)')) == 1
    button.press("Space")
    assert len(paths(page)) == 4


def test_all_curves_can_be_hidden(page: Page) -> None:
    page.click(f"{LEGEND} .everything")
    assert paths(page) == []
    expect(page.locator(CHART)).to_contain_text("all curves are hidden")
    page.click(f"{LEGEND} .everything")
    assert len(paths(page)) == 4


def test_another_axis_redraws(page: Page) -> None:
    before = paths(page)
    expect(page.locator(CHART)).to_contain_text("epochs")
    choose(page, "processor time")
    expect(page.locator(CHART)).to_contain_text("processor time, hours")
    assert len(paths(page)) == len(before)
    assert paths(page) != before
    choose(page, "decoder evaluations")
    expect(page.locator(CHART)).to_contain_text("decoder evaluations, millions")
    # The cost grows with the epochs, so the curves stand where they stood.
    assert paths(page) == before


def test_other_figures_and_ranges_redraw(page: Page) -> None:
    best = paths(page)
    choose(page, "all")
    everything = paths(page)
    assert everything != best
    choose(page, "all, logarithmic")
    assert paths(page) not in (best, everything)
    choose(page, "validation NLL")
    assert len(paths(page)) == 2


def test_the_best_region_leaves_out_the_huge_start(page: Page) -> None:
    # The first NLL is above 400 and the last near 105: a start above the frame has a negative place.
    assert float(paths(page)[0].removeprefix("M").split("L")[0].split(",")[1]) < 0


def test_values_are_shown_under_the_pointer_and_by_keyboard(page: Page) -> None:
    chart, tip = page.locator(f"{CHART} .holder > svg"), page.locator(f"{CHART} .tip")
    chart.hover()
    expect(tip).to_contain_text("JSA, seed 0, train")
    chart.press("Escape")
    expect(tip).to_be_hidden()
    for epoch in ("1,000", "950"):
        chart.press("ArrowLeft")
        expect(tip).to_contain_text(f"epochs {epoch}")


def test_a_heading_sorts_the_runs(page: Page) -> None:
    cells = page.locator(".sortable tbody tr td:nth-child(3)")
    figures = ["75.00", "98.00", "105.00", "107.50"]
    for expected in (figures, figures[::-1]):
        page.click(".sortable th:nth-child(3) button")
        expect(cells).to_have_text(expected)


def test_a_command_is_copied_from_the_settings_that_a_run_links_to(page: Page) -> None:
    page.click(".sortable tbody th a >> nth=0")
    expect(page.locator("#run-0")).to_have_attribute("open", "")
    copy = page.locator("#run-0 .copy")
    copy.click()
    expect(copy).to_have_text(re.compile("copied|selected"))


def test_it_fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    page.locator(f"{CHART} .holder > svg").hover()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_runs_of_a_user(tab: Page, tmp_path: Path) -> None:
    folders = [
        run_folder(tmp_path / "followed", followed=True),
        run_folder(tmp_path / "going", epochs=3, tested=False),
        run_folder(tmp_path / "new", epochs=0, tested=False),
        run_folder(tmp_path / "<b>bold", chains=False),
    ]
    write_page(run_page(folders), tmp_path / "page.html")
    opened(tab, tmp_path / "page.html")
    # The validation NLL is what most of them have; one has no epoch yet.
    assert sorted(path.count("L") + 1 for path in paths(tab)) == [1, 5, 5]
    expect(tab.locator(LEGEND)).to_contain_text("<b>bold")
    choose(tab, "train and test NLL")
    assert len(paths(tab)) == 2


@pytest.mark.parametrize("axis", ["epochs", "processor time", "decoder evaluations"])
def test_a_single_validation_stands_in_the_middle(tab: Page, tmp_path: Path, axis: str) -> None:
    write_page(run_page([run_folder(tmp_path / "short", epochs=2)]), tmp_path / "page.html")
    opened(tab, tmp_path / "page.html")
    choose(tab, axis)
    frame = tab.locator(f"{CHART} clipPath rect")
    for scale in ("best region", "all", "all, logarithmic"):
        choose(tab, scale)
        (place,) = paths(tab)
        left, top, width, height = (float(frame.get_attribute(name) or "") for name in ("x", "y", "width", "height"))
        x, y = map(float, place.removeprefix("M").split(","))
        assert x == pytest.approx(left + width / 2, abs=1)
        assert y == pytest.approx(top + height / 2, abs=0.05 * height)


def test_many_runs_stay_quick(tab: Page, tmp_path: Path) -> None:
    for seed in range(30):
        save(result("jsa", 100.0 + seed, seed=seed, points=1_000, chains=True), tmp_path)
    write_page(results_page(tmp_path), tmp_path / "page.html")
    opened(tab, tmp_path / "page.html")
    assert [path.count("L") for path in paths(tab)] == [999] * 60
    redraw = "(button) => { const start = performance.now(); button.click(); return performance.now() - start; }"
    # A tenth of a second on a machine that has nothing else to do.
    assert choose(tab, "processor time").evaluate(redraw) < 3_000
