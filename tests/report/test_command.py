"""``jsa report`` from end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.small_reports import Parsed, run_folder, save
from helpers.small_results import result
from jsa.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_real_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    np.savetxt("mine.csv", np.repeat(random.integers(0, 2, (60, 2)), 4, axis=1), fmt="%d", delimiter=",")
    sizes = ["--model", "linear", "--latents", "3", "--epochs", "3", "--validate-every", "1", "--test-samples", "20"]
    train = ["train", "--data", "mine.csv", *sizes, "--followed-rows", "6", "--threads", "1"]
    assert main([*train, "--out", "runs/one"]) == 0
    capsys.readouterr()
    assert main(["report", "runs/one", "--title", "My run"]) == 0
    assert capsys.readouterr().out == "1 run in report.html\n"
    found = Parsed(Path("report.html").read_text(encoding="utf-8"))
    assert found.text.startswith("My run My run 1 run.")
    (run,) = found.data["runs"]
    curve = run["tracks"]["curve"]
    assert {len(curve[name]) for name in ("epoch", "valid_nll", "train_nll", "test_nll", "acceptance")} == {3}
    assert run["switch"] == 2
    assert found.named("img") == []  # the rows of a table are no pictures
    # The command of the page makes the run again.
    assert "jsa train --config runs/one/config.json" in found.text
    assert main(["train", "--config", "runs/one/config.json", "--out", "runs/two"]) == 0
    assert Path("runs/two/evaluation.json").read_text() == Path("runs/one/evaluation.json").read_text()


def test_results_are_found_in_their_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(result("jsa", 105.0), Path("results"))
    assert main(["report"]) == 0
    assert main(["report", "--results", "results", "--out", "other.html"]) == 0
    assert capsys.readouterr().out == "1 run in report.html\n1 run in other.html\n"
    assert Path("report.html").read_bytes() == Path("other.html").read_bytes()


def test_only_a_report_is_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder(here / "run")
    out = here / "page.html"
    assert main(["report", "run", "--out", "page.html"]) == 0
    assert main(["report", "run", "--out", "page.html", "--title", "Another"]) == 0
    assert "Another" in out.read_text(encoding="utf-8")
    out.write_text("<!DOCTYPE html><p>mine</p>")
    capsys.readouterr()
    assert main(["report", "run", "--out", "page.html"]) == 2
    assert "page.html exists already and is no report of jsa" in capsys.readouterr().err
    assert out.read_text() == "<!DOCTYPE html><p>mine</p>"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["report", "nowhere"], 1, "nowhere is not a run folder: it has no config.json"),
        (["report", "run", "--results", "results"], 2, "leave out one of the two"),
        (["report", "run", "--out", "run"], 2, "run is a folder"),
        (["report", "run", "--out", "none/page.html"], 2, "there is no folder none: make it, or choose another --out"),
    ],
)
def test_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, sentence: str
) -> None:
    run_folder(here / "run")
    assert main(arguments) == code
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not Path("report.html").exists()


def test_a_page_needs_no_torch(here: Path) -> None:
    run_folder(here / "run")
    save(result("jsa", 105.0), Path("results"))
    code = (
        "import sys; from jsa.cli import main; main(['report', 'run', '--out', 'a.html']); "
        "main(['report', '--out', 'b.html']); sys.exit(any(name in sys.modules for name in ('torch', 'numpy')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ), capture_output=True)


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder(here / "run")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert main(["report", "run"]) == 2
    assert "the folder . is not writable: choose another --out" in capsys.readouterr().err
