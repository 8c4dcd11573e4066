"""What a user sees who mistypes: one sentence, the right exit code, and nothing half-written."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.own_tables import save, write
from helpers.terminal import Terminal, run_jsa

NO_FOLDER = "there is no folder nodir: make it, or choose another {}"
TOO_MANY = "has 1.61e+60 states, too many to enumerate (the limit is 1048576): use fewer latents, or"
ONE_COLUMN = "rows of 1 column cannot be divided into a context and the rest: a conditional model, such as structured, "
COMMANDS = ("evaluate", "variance", "sample", "encode", "describe")


@pytest.fixture(autouse=True)
def _tables(here: Path) -> None:
    """A good and some bad tables, beside the folder to work in."""
    save("../good.npy", np.tile([[0, 1, 1], [1, 0, 1]], (20, 1)))
    save("../half.npy", np.array([[0.0, 0.5], [1.0, 0.0]]))
    write(Path("../one.csv"), "0\n1\n" * 20)
    write(Path("../tiny.csv"), "0,1\n" * 5)
    write(Path("../words.csv"), "0,1\n1,maybe\n")
    write(Path("../damaged.npz"), b"PK\x03\x04 not really a zip")


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("trian", 2, "did you mean 'train'?"),
        ("train --epochz 3", 2, "--epochs"),
        ("train --epochs three", 2, "--epochs"),
        ("train --estimator vimco --sleep 0.5", 2, "vimco has no option sleep"),
        ("train --estimator arsm --particles 4", 2, "arsm has no option particles: leave it out"),
        ("train --estimator vimco --particles 1 --data ../good.npy", 2, "at least 2 particles"),
        ("train --estimator arsm --data ../good.npy", 2, "arm"),
        ("train --estimator arm --model categorical --data ../good.npy", 2, "arsm"),
        ("train --model nonlinaer", 2, "did you mean 'nonlinear'?"),
        ("train --estimator jas", 2, "did you mean 'jsa'?"),
        ("train --data mnist-sttic", 2, "did you mean 'mnist-static'?"),
        ("train --data mnist-dynamic --epochs 3", 2, "--switch-epoch 3"),
        ("train --data ../good.npy --device cudaa", 2, "cudaa"),
        ("train --data ../good.npy --out ..", 2, "exists already"),
        ("train --config ../none.json", 2, "there is no file"),
        ("train --config ../words.csv", 2, "not valid JSON"),
        ("train --non-finite perhaps", 2, "--non-finite"),
        ("resume", 2, "Missing from jsa resume"),
        ("train --estimator enumeration --model linear --data ../good.npy", 2, TOO_MANY),
        ("train --estimator enumeration --latent-kind gaussian --data ../good.npy", 2, "infinitely many states, too"),
        ("evaluate", 2, "RUN"),
        ("sample .. --out picture.gif", 2, ".png"),
        ("encode .. --out codes.txt", 2, "codes.txt must end in .npz for arrays or .csv for a table"),
        ("evaluate .. --samples 10 --bounds 1 50", 2, "1 to 10 particles"),
        ("evaluate .. --out rows.txt", 2, "rows.txt must end in .npz for arrays or .csv for a table"),
        ("evaluate .. --out nodir/x.npz", 2, NO_FOLDER.format("--out")),
        ("evaluate .. --json nodir/x.json", 2, NO_FOLDER.format("--json")),
        ("evaluate .. --json ..", 2, "is a folder: choose a file for --json"),
        ("variance .. --json nodir/x.json", 2, NO_FOLDER.format("--json")),
        ("sample .. --out nodir/x.png", 2, NO_FOLDER.format("--out")),
        ("train --data ../none.csv", 1, "none.csv"),
        ("train --data ../one.csv --model structured", 2, ONE_COLUMN),
        ("train --data ../tiny.csv", 1, "of 5 rows is none; give a larger --valid-fraction, "),
        ("train --data ../half.npy", 1, "half.npy"),
        ("train --data ../words.csv", 1, "words.csv"),
        ("train --data ../damaged.npz", 1, "damaged.npz"),
        ("resume ..", 1, "is not a run folder"),
        ("evaluate ..", 1, "is not a run folder"),
    ],
)
def test_one_sentence_and_nothing_written(here: Path, jsa: Terminal, command: str, code: int, sentence: str) -> None:
    assert sentence in jsa.refuses(command, code=code)
    assert list(here.iterdir()) == []


def test_evaluate_refuses_more_states_than_it_can_sum(here: Path, jsa: Terminal) -> None:
    run_jsa("train --data ../good.npy --model linear --epochs 1 --test-samples 2 --threads 1 --out run")
    assert "too many to enumerate" in jsa.refuses("evaluate run --exact")
    (here / "run" / "best.safetensors").write_bytes(b"short")
    assert "damaged" in jsa.refuses("evaluate run", code=1)


@pytest.mark.parametrize("command", ["", "train", "report", "data", "list", *COMMANDS])
def test_help_comes_without_torch(command: str) -> None:
    program = (
        "import sys\nfrom jsa.cli import main\n"
        "try:\n    code = main(sys.argv[1:])\nexcept SystemExit as stop:\n    code = stop.code\n"
        "assert code == 0, code\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    arguments = [sys.executable, "-c", program, *command.split(), "--help"]
    finished = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "usage: jsa" in finished.stdout


def test_python_dash_m_is_the_command() -> None:
    arguments = [sys.executable, "-m", "jsa", "--version"]
    finished = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert finished.stdout.startswith("jsa 0.")


@pytest.mark.parametrize("command", ["--help", "list data", "train --help"])
def test_a_reader_who_leaves_early_sees_no_traceback(command: str) -> None:
    arguments = [sys.executable, "-m", "jsa", *command.split()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.stderr.read() == b""
