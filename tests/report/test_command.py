"""``jsa report`` from end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.block_tables import blocks
from helpers.own_tables import save as save_table
from helpers.small_reports import Parsed, run_folder, save
from helpers.small_results import result
from helpers.terminal import Terminal, run_jsa

pytestmark = pytest.mark.usefixtures("here")


def test_a_real_run(jsa: Terminal) -> None:
    save_table("mine.csv", blocks(60, seed=0))
    sizes = "--model linear --latents 3 --epochs 3 --validate-every 1 --test-samples 20"
    run_jsa("train --data mine.csv", sizes, "--followed-rows 6 --threads 1 --out runs/one")
    assert jsa("report runs/one --title 'My run'").out == "1 run in report.html\n"
    found = Parsed(Path("report.html").read_text(encoding="utf-8"))
    assert found.text.startswith("My run My run 1 run.")
    (run,) = found.data["runs"]
    curve = run["tracks"]["curve"]
    assert {len(curve[name]) for name in ("epoch", "valid_nll", "train_nll", "test_nll", "acceptance")} == {3}
    assert run["switch"] == 2
    assert found.named("img") == []  # the rows of a table are no pictures
    # The command of the page makes the run again.
    assert "jsa train --config runs/one/config.json" in found.text
    run_jsa("train --config runs/one/config.json --out runs/two")
    assert Path("runs/two/evaluation.json").read_text() == Path("runs/one/evaluation.json").read_text()


def test_results_are_found_in_their_folder(jsa: Terminal) -> None:
    save(result("jsa", 105.0), Path("results"))
    assert jsa("report").out == "1 run in report.html\n"
    assert jsa("report --results results --out other.html").out == "1 run in other.html\n"
    assert Path("report.html").read_bytes() == Path("other.html").read_bytes()


def test_only_a_report_is_overwritten(jsa: Terminal) -> None:
    run_folder(Path("run"))
    out = Path("page.html")
    for title in ("One", "Another"):
        run_jsa("report run --out page.html --title", title)
    assert "Another" in out.read_text(encoding="utf-8")
    out.write_text("<!DOCTYPE html><p>mine</p>")
    assert "page.html exists already and is not a report of jsa" in jsa.refuses("report run --out page.html")
    assert out.read_text() == "<!DOCTYPE html><p>mine</p>"


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("report nowhere", 1, "nowhere is not a run folder: it has no config.json"),
        ("report run --results results", 2, "leave out one of the two"),
        ("report run --out run", 2, "run is a folder"),
        ("report run --out none/page.html", 2, "there is no folder none: make it, or choose another --out"),
        ("report --results run", 2, "there are no results in"),
    ],
)
def test_one_sentence(jsa: Terminal, command: str, code: int, sentence: str) -> None:
    run_folder(Path("run"))
    said = jsa.refuses(command, code=code)
    assert sentence in said
    assert said.count("\n") == 1
    assert not Path("report.html").exists()


def test_a_page_needs_no_torch() -> None:
    run_folder(Path("run"))
    save(result("jsa", 105.0), Path("results"))
    code = (
        "import sys; from jsa.cli import main; main(['report', 'run', '--out', 'a.html']); "
        "main(['report', '--out', 'b.html']); sys.exit(any(name in sys.modules for name in ('torch', 'numpy')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ), capture_output=True)


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(
    jsa: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder(Path("run"))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "the folder . is not writable: choose another --out" in jsa.refuses("report run")
