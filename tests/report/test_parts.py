"""The parts of a page that a chart or a table stands on."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

from jsa.report.page import SCRIPTS
from jsa.report.styles import COLORS, COLORS_ON_BLACK, MARKS, Style, styles
from jsa.report.templates import asset, render


def test_no_two_series_of_a_chart_look_the_same() -> None:
    charts = [[f"method {number}" for number in range(start, start + 20)] for start in (0, 7, 15)]
    found = styles(charts)
    for chart in charts:
        looks = Counter(found[name] for name in chart)
        assert max(looks.values()) == 1
        assert len({found[name].color for name in chart}) == len(COLORS)


def test_a_chosen_style_is_kept_and_left_free_by_the_others() -> None:
    names = [f"method {number}" for number in range(20)]
    chosen = {"method 7": Style(color=1, mark=0), "of no chart": Style(color=2, mark=0)}
    found = styles([names], chosen)
    assert found["method 7"] == chosen["method 7"]
    assert set(found) == set(names)
    assert len(set(found.values())) == len(names)


def test_more_series_than_styles_still_have_one() -> None:
    names = [str(number) for number in range(len(COLORS) * MARKS + 5)]
    assert len(styles([names])) == len(names)


def test_the_page_has_every_color_and_every_mark() -> None:
    sheet = render("page.css", colors=COLORS, colors_on_black=COLORS_ON_BLACK)
    assert {int(number) for number in re.findall(r"\.color-(\d+)", sheet)} == set(range(len(COLORS)))
    # Once for light pages and once for dark ones.
    assert re.findall(r"--color-\d+: (#\w+)", sheet) == [*COLORS, *COLORS_ON_BLACK]
    marks = asset("chart.js").split("function markPath")[1].split("][mark]")[0]
    assert marks.count("() => `") == MARKS


def test_the_page_loads_nothing_from_anywhere() -> None:
    names = [file.name for file in files("jsa.report").joinpath("page").iterdir()]
    assert {*SCRIPTS, "page.css", "page.html"} < set(names)
    for name in names:
        addresses = set(re.findall(r"\w+://[^\"' )]+", asset(name)))
        # The name of a language is no address that anybody asks.
        assert addresses <= {"http://www.w3.org/2000/svg"}
