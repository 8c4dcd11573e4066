"""The page about results of the paper's experiments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.damage import Damage, edited, holding
from helpers.small_reports import Parsed, save
from helpers.small_results import COMMIT, result
from jsa.errors import UsageError
from jsa.experiments.jobs import Deviations
from jsa.experiments.report import results_page
from jsa.experiments.results import Result
from jsa.report.page import render_page


def page(folder: Path, *results: Result) -> Parsed:
    """The page about these results."""
    for one in results:
        save(one, folder)
    return Parsed(render_page(results_page(folder)))


def differences(found: Parsed) -> list[str]:
    """The classes of the differences from the paper's figures."""
    classes = [attributes.get("class") or "" for attributes in found.named("span")]
    return [name for name in classes if name.startswith("difference")]


def of_job(**changed: str) -> Damage:
    """The result of another job."""
    return edited(lambda record: record["job"].update(changed))


def test_a_cell_has_our_figure_the_papers_and_the_difference(tmp_path: Path) -> None:
    found = page(tmp_path, result("jsa", 105.0), result("jsa", 106.0, seed=1))
    # Mean and deviation of both seeds, against 105.5±0.1.
    assert "105.50±0.71 paper 105.5±0.1 +0.00" in found.text
    assert "not run paper 107.2±0.1" in found.text
    assert "paper budget, 1000 epochs" in found.text
    assert "1,000 samples at the best validation epoch" in found.text
    assert "Seeds: 0, 1." in found.text


def test_own_methods_stand_below_the_rule(tmp_path: Path) -> None:
    text = page(tmp_path, result("hybrid", 104.0)).text
    assert text.index("ARM") < text.index(" ours ") < text.index("JSA-Rao-Blackwell") < text.index("104.00")


def test_a_run_that_was_cut_short_is_marked_in_its_cell_and_in_the_list(tmp_path: Path) -> None:
    one = result("jsa", 105.0)
    short = replace(one, stopped_at=700, best_epoch=650, leading=(replace(one.leading[0], epoch=650),))
    text = page(tmp_path, short).text
    assert "105.00 [stopped at epoch 700 of 1000] paper 105.5±0.1 -0.50" in text
    assert "JSA, seed 0 stopped at epoch 700 of 1000 Table 1, Linear 105.00" in text


def test_a_difference_is_colored_only_where_it_can_be_compared(tmp_path: Path) -> None:
    # Of other data there is no difference.
    data = Deviations(data="mnist-static")
    results = (result("jsa", 104.0), result("jsa", 104.0, budget="short"), result("jsa", 104.0, deviations=data))
    paper, short, other = (page(tmp_path / str(number), one) for number, one in enumerate(results))
    kinds = [differences(found) for found in (paper, short, other)]
    assert kinds == [["difference better"], ["difference neither"], []]
    assert "not comparable with the paper's figures" in short.text
    for sentence in (
        "deviating: data=mnist-static",
        "Bernoulli variables on mnist-static",
        "not comparable with the paper's figures",
    ):
        assert sentence in other.text


@pytest.mark.parametrize(
    ("ours", "kind"),
    [
        *(([105.3], "neither"), ([105.7], "neither"), ([105.2], "better"), ([105.8], "worse")),
        *(([105.2, 105.2], "better"), ([104.9, 105.5], "neither")),
    ],
)
def test_no_figure_is_better_by_less_than_seeds_differ(tmp_path: Path, ours: list[float], kind: str) -> None:
    """The paper has 105.5 with a deviation of 0.1, which stands for ours too where that has one seed."""
    results = [result("jsa", nll, seed=seed) for seed, nll in enumerate(ours)]
    assert differences(page(tmp_path, *results)) == [f"difference {kind}"]


@pytest.mark.parametrize(("bias", "told"), [(0.004, "0.00"), (0.08, "0.08"), (0.21, "≥ 0.21")])
def test_a_bias_beyond_what_the_samples_show_is_a_lower_bound(tmp_path: Path, bias: float, told: str) -> None:
    one = result("jsa", 105.0)
    one = replace(one, test=replace(one.test, upward_bias=bias))
    assert f"±0.31 ±0.012 {told} 1,000" in page(tmp_path, one).text


def test_a_figure_without_any_deviation_is_neither_better_nor_worse(tmp_path: Path) -> None:
    assert differences(page(tmp_path, result("nvil", 100.0))) == ["difference neither"]


def test_every_run_is_listed_with_its_figures_and_its_command(tmp_path: Path) -> None:
    found = page(tmp_path, result("jsa", 105.0, seed=3), result("vimco", 107.5))
    assert "105.00 ±0.31 ±0.012 0.00 1,000 10,000 105.10 1000 2.2 h 2.3 h 20 million 85.2 3 0123456789" in found.text
    assert "jsa reproduce table1 --columns linear --methods jsa --budget paper --first-seed 3 copy" in found.text
    assert "jsa reproduce table1 --columns linear --methods vimco --budget paper copy" in found.text
    assert any(attributes.get("title") == COMMIT for attributes in found.named("code"))


def test_curves_charts_and_series(tmp_path: Path) -> None:
    data = page(
        tmp_path,
        *(result("jsa", 105.0 + seed, seed=seed, chains=True) for seed in (0, 1)),
        result("vimco", 99.0, column="nonlinear"),
        result("vimco", 79.0, table="table2", column="categorical", variance=True),
    ).data
    assert [chart["title"] for chart in data["charts"]] == ["Table 1, Linear", "Table 1, Nonlinear", "Table 2"]
    assert [section["name"] for section in data["sections"]] == ["curves", "variance", "chains"]
    # Seeds share the color of their method, and methods keep theirs from chart to chart.
    assert {series["label"] for series in data["series"]} == {"JSA", "VIMCO"}
    first, second = data["runs"][:2]
    assert (first["series"], first["label"], second["label"]) == (second["series"], "JSA, seed 0", "JSA, seed 1")
    assert first["switch"] == 600
    assert data["runs"][2]["switch"] is None
    curve = first["tracks"]["curve"]
    assert curve["train_nll"][-1] == pytest.approx(105 + 300 / 400 - 1)
    assert curve["negative_bound"][0] == 405
    assert "acceptance" not in data["runs"][2]["tracks"]["curve"]
    assert data["runs"][3]["tracks"]["variance"]["theta_high"] == [1.2, 1.2, 1.2]


def test_a_gradient_without_variance_is_no_point_of_the_chart(tmp_path: Path) -> None:
    one = result("vimco", table="table2", column="categorical", variance=True)
    one = replace(one, variance=(replace(one.variance[0], theta=None), *one.variance[1:]))
    track = page(tmp_path, one).data["runs"][0]["tracks"]["variance"]
    assert (track["theta"], track["theta_low"]) == ([None, 1.0, 1.0], [None, 0.8, 0.8])
    assert track["phi"] == [1.0, 1.0, 1.0]


def test_a_page_without_chains_and_variances_has_no_room_for_them(tmp_path: Path) -> None:
    found = page(tmp_path, result("vimco", 107.5))
    assert [section["name"] for section in found.data["sections"]] == ["curves"]
    assert "Health of the chains" not in found.text


def test_samples_beside_a_result_are_inside_the_page(tmp_path: Path) -> None:
    save(result("jsa", 105.0), tmp_path, with_picture=True)
    found = page(tmp_path, result("vimco", 107.5))
    (shown,) = found.named("img")
    assert (shown["src"] or "").startswith("data:image/png;base64,iVBOR")
    assert shown["alt"] == "samples of JSA, seed 0"


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (of_job(table="table9"), "there is no table 'table9'"),
        (of_job(method="<b>"), "linear-jsa-seed0.json: there is no method '<b>'"),
        (of_job(column="../../../x"), "linear-jsa-seed0.json: there is no column '../../../x'"),
        (holding('{"format": 1'), "is not valid JSON"),
        (lambda path: path.with_suffix(".png").write_bytes(b"GIF89a"), r"linear-jsa-seed0.png is not a PNG picture"),
    ],
)
def test_damaged_files_are_one_sentence(tmp_path: Path, damage: Damage, sentence: str) -> None:
    damage(save(result("jsa", 105.0), tmp_path))
    with pytest.raises(UsageError, match=sentence):
        results_page(tmp_path)
