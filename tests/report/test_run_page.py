"""The page about a user's own run folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.small_reports import Parsed, run_folder, write_lines
from helpers.small_results import VERSIONS
from jsa.data.schema import Schema
from jsa.errors import JsaError
from jsa.models.presets import preset
from jsa.report.page import render_page
from jsa.report.run_folders import run_page
from jsa.runs.config import MethodConfig, RunConfig
from jsa.runs.folder import RunFolder
from jsa.runs.identity import RowsIdentity, RunIdentity


def page(*paths: Path) -> Parsed:
    return Parsed(render_page(run_page(paths)))


def test_a_finished_run_has_its_figures(tmp_path: Path) -> None:
    found = page(run_folder(tmp_path / "mine"))
    figures = "106.25 ±0.31 ±0.012 0.00 1,000 10,000 105.00 10 24.0 s 25.0 s 10 thousand 85.2 0 0123456789"
    assert f"mine mnist-static {figures}" in found.text
    assert [shown["alt"] for shown in found.named("img")] == ["samples of mine", "reconstructions of mine"]
    (run,) = found.data["runs"]
    assert run["switch"] == 6
    assert run["tracks"]["curve"]["valid_nll"][:4] == [None, 125, None, 112.5]
    assert run["tracks"]["curve"]["negative_bound"][0] == 150
    assert "What differs" not in found.text
    followed = page(run_folder(tmp_path / "followed", followed=True))
    labels = [[view["label"] for view in one.data["sections"][0]["views"]] for one in (found, followed)]
    assert labels == [["validation NLL", "negative bound"], ["train and test NLL", "validation NLL", "negative bound"]]


def test_an_unfinished_run_is_shown_as_such(tmp_path: Path) -> None:
    done = run_folder(tmp_path / "done")
    going = run_folder(tmp_path / "going", epochs=3, tested=False)
    new = run_folder(tmp_path / "new", epochs=0, tested=False)
    with (going / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 4, "obj')  # it is being written
    found = page(done, going, new)
    assert "3 runs, 2 unfinished." in found.text
    assert "going mnist-static unfinished: epoch 3 of 10 – – –" in found.text  # noqa: RUF001
    assert "unfinished: epoch 0 of 10" in found.text
    assert found.data["runs"][1]["tracks"]["curve"]["epoch"] == [1, 2, 3]


def test_settings_that_differ_are_marked(tmp_path: Path) -> None:
    one = RunConfig(estimator="jsa", method=MethodConfig(particles=5), batch_size=100)
    two = replace(one, estimator="vimco")
    linear = replace(one, model="linear", network=preset("linear"))
    found = page(run_folder(tmp_path / "one", one), run_folder(tmp_path / "two", two))
    assert "What differs run estimator one jsa two vimco Settings" in found.text
    # Only the estimator differs; particles, batch size and epochs are merely no defaults, and the JSON holds all.
    assert "setting value default estimator vimco jsa particles 5 not given epochs 10 20 batch-" in found.text
    assert len(found.named("mark")) == 1
    assert '"learning_rate": 0.0003' in found.text
    # What the choice of a model brings with it is no setting of the user.
    other = page(run_folder(tmp_path / "linear", linear))
    assert "setting value default model linear nonlinear particles 5 not given epochs 10 20 batch-size" in other.text


def test_runs_with_other_data_stand_in_other_charts(tmp_path: Path) -> None:
    half = RunConfig(model="structured", network=preset("structured"))
    configs = (RunConfig(), RunConfig(data="own.csv"), half)
    paths = [run_folder(tmp_path / str(number), config) for number, config in enumerate(configs)]
    titles = [chart["title"] for chart in page(*paths).data["charts"]]
    assert titles == ["mnist-static", "own.csv", "mnist-static, second half given the first"]


def test_folders_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, two = run_folder(Path("a a/run")), run_folder(Path("b/run"))
    labels = [entry.label for entry in run_page([one, two, one, Path("b/../a a/run")]).entries]
    assert labels == [str(Path("b/../a a/run")), "b/run"]
    # The command names the configuration.
    assert "jsa train --config 'a a/run/config.json' copy" in page(one).text


def test_numbers_that_are_not_finite_are_gaps(tmp_path: Path) -> None:
    path = run_folder(tmp_path / "mine", epochs=2, monte_carlo_error=float("nan"))
    lines = [{"epoch": 1, "valid_nll": 120.0}, {"epoch": 2, "valid_nll": float("nan"), "objective": float("inf")}]
    write_lines(path / "metrics.jsonl", lines)
    found = page(path)
    assert found.data["runs"][0]["tracks"]["curve"]["valid_nll"] == [120, None]
    assert "106.25 ±0.31 – 0.00 1,000" in found.text  # noqa: RUF001
    assert "nan" not in {cell.get("data-value") for cell in found.named("td")}


def test_figures_that_do_not_exist_are_dashes(tmp_path: Path) -> None:
    found = page(run_folder(tmp_path / "mine", samples=1, row_error=None, monte_carlo_error=None, upward_bias=None))
    assert "106.25 – – – 1 10,000 105.00" in found.text  # noqa: RUF001


def test_test_nlls_by_other_numbers_of_samples_are_not_to_be_compared(tmp_path: Path) -> None:
    paths = [run_folder(tmp_path / str(samples), samples=samples) for samples in (20, 5, 5_000)]
    other = run_folder(tmp_path / "other", RunConfig(data="own.csv"), samples=100)
    found = page(*paths, other)
    sentence = "the test NLLs are by 5, 20 and 5,000 samples a row and cannot be compared"
    assert found.text.count(sentence) == 1
    assert f"mnist-static: {sentence}" in found.text
    assert "5 mnist-static 106.25 ±0.31 ±0.012 0.00 5 10,000 105.00" in found.text
    # Runs of other data are in another group, and an unfinished run has no figure.
    assert "cannot be compared" not in page(paths[0], other, run_folder(tmp_path / "new", tested=False)).text


def on_rows(path: Path, test: RowsIdentity, data: str = "own.csv", started_in: Path = Path("/somewhere else")) -> Path:
    """A run folder that knows its test rows."""
    run_folder(path, RunConfig(data=data))
    some = RowsIdentity(100, 100, "c" * 64)
    RunIdentity(started_in, some, some, test, Schema.of(4, 2), "a model", None).write(path)
    return path


def test_runs_of_other_test_rows_are_not_compared(tmp_path: Path) -> None:
    """Tables of one name in two folders, and one table divided in two ways."""
    rows = RowsIdentity(50, 50, "a" * 64)
    paths = [on_rows(tmp_path / "one", rows), on_rows(tmp_path / "two", rows)]
    assert [chart["title"] for chart in page(*paths).data["charts"]] == ["own.csv"]
    paths.append(on_rows(tmp_path / "three", RowsIdentity(50, 50, "b" * 64)))
    paths.append(run_folder(tmp_path / "four", RunConfig(data="own.csv")))
    charts = {chart["title"]: chart["runs"] for chart in page(*paths).data["charts"]}
    assert charts == {
        "own.csv, 50 test rows (aaaaaa)": [0, 1],
        "own.csv, 50 test rows (bbbbbb)": [2],
        "own.csv, unknown test rows": [3],
    }


def test_a_run_is_made_again_from_where_its_table_is_found(tmp_path: Path) -> None:
    rows = RowsIdentity(50, 50, "a" * 64)
    command = f"cd '/somewhere else' && jsa train --config {tmp_path / 'mine' / 'config.json'} copy"
    assert command in page(on_rows(tmp_path / "mine", rows)).text
    for data in ("mnist-static", "/tables/own.csv"):
        found = page(on_rows(tmp_path / data.replace("/", ""), rows, data)).text
        assert "cd '" not in found
        assert "jsa train --config " in found


def finished(path: Path, nll: float, seed: int, batch_size: int = 50) -> Path:
    return run_folder(path, RunConfig(seed=seed, batch_size=batch_size), nll=nll)


def test_runs_of_several_seeds_have_a_mean_and_a_deviation(tmp_path: Path) -> None:
    paths = [finished(tmp_path / f"seed{seed}", nll, seed=seed) for seed, nll in ((1, 105.0), (2, 107.0), (3, 106.0))]
    paths.append(finished(tmp_path / "other", 100.0, seed=1, batch_size=7))
    paths.append(finished(tmp_path / "again", 105.0, seed=1))
    text = page(*paths).text
    assert "seed1, seed2, seed3 mnist-static jsa 1, 2, 3 106.00 ±1.00 ±0.58" in text
    assert text.count("±0.58") == 1


def test_runs_that_differ_in_more_than_the_seed_have_none(tmp_path: Path) -> None:
    one, two = finished(tmp_path / "one", 105.0, seed=1), finished(tmp_path / "two", 107.0, seed=2, batch_size=7)
    again = finished(tmp_path / "again", 105.0, seed=1)
    assert "Over seeds" not in page(one, two, again, run_folder(tmp_path / "new", tested=False)).text


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("identity.json", "{}", "identity.json"),
        ("config.json", "{", "config.json is not valid JSON"),
        ("config.json", '{"epochs": 3}', "has no format number: jsa 0.1.0 wrote it"),
        ("config.json", '{"format": 4, "epochz": 3}', "there is no field 'epochz'"),
        ("config.json", '{"format": 4, "epochs": 3}', "the field data is missing"),
        ("metrics.jsonl", "[1]\n", "line 1 is not an object of numbers"),
        ("metrics.jsonl", '{"valid_nll": 3}\n', "line 1 has no epoch"),
        ("metrics.jsonl", '{"epoch": 1, "valid_nll": 1' + 400 * "0" + "}\n", "line 1 has a number"),
        *(("evaluation.json", content, "evaluation.json is damaged") for content in ("{}", "[]")),
        *(("provenance.jsonl", content, "provenance.jsonl is damaged") for content in ("", "{}\n", "3\n")),
        ("samples.png", "<svg>", "samples.png is not a PNG picture"),
    ],
)
def test_damaged_files_are_one_sentence(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    path = run_folder(tmp_path / "mine")
    (path / name).write_text(content)
    with pytest.raises(JsaError, match=sentence) as caught:
        page(path)
    assert "\n" not in str(caught.value)


def test_names_from_files_stay_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    path = run_folder(tmp_path / "<img src=x onerror=alert(3)>", RunConfig(data=evil))
    RunFolder(path).add_provenance(replace(VERSIONS, commit="<script>alert(4)</script>"))
    found = Parsed(render_page(run_page([path], title=evil)))
    assert len(found.named("script")) == 2
    assert all((shown["src"] or "").startswith("data:image/png;base64,") for shown in found.named("img"))
    assert found.data["charts"][0]["title"] == evil
    assert found.text.count("<img src=x onerror=alert(2)>") >= 4
    assert any(attributes.get("title") == "<script>alert(4)</script>" for attributes in found.named("code"))
