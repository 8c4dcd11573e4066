"""An analyst with a table of their own: what was read, the table that changed, codes that lead back to its rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from jsa.assembly import open_run
from jsa.cli import main
from jsa.data import DynamicBinarisation, IndexedDataset, Splits, loading
from jsa.data.shape import RowShape
from small_runs import patterned
from torture.kills import differences

SIZES = ["--model", "linear", "--latents", "3", "--epochs", "2", "--learning-rate", "0.02", "--threads", "1"]
SIZES += ["--validation-samples", "5", "--test-samples", "5"]


def spelled(rows: int, start: int = 0) -> np.ndarray:
    """Rows that spell their own number in binary."""
    return (np.arange(start, start + rows)[:, None] >> np.arange(12)) & 1


def save(path: Path, values: np.ndarray, header: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, values, fmt="%d", delimiter=",", header=header, comments="")
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the analyst works in, with the table ``d/t.csv``."""
    folder = tmp_path / "home"
    save(folder / "d" / "t.csv", spelled(200))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of that table, begun in its folder by a relative path."""
    folder = tmp_path_factory.mktemp("trained")
    save(folder / "d" / "t.csv", spelled(200))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "--data", "d/t.csv", *SIZES, "--out", "run"]) == 0
    return folder / "run"


@pytest.fixture
def run(home: Path, trained: Path) -> Path:
    """The run as if it had been made by the analyst."""
    shutil.copytree(trained, home / "run")
    for notes in (home / "run").glob("data.json"):
        notes.write_text(notes.read_text().replace(str(trained.parent), str(home)))
    return home / "run"


COMMANDS = {
    "evaluate": ["--samples", "5"],
    "encode": [],
    "describe": ["--rows", "10"],
    "sample": ["--count", "3"],
    "variance": ["--estimators", "rloo", "--draws", "20", "--rows", "10"],
}


def refused(command: str, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """The sentence of a command that must not work."""
    capsys.readouterr()
    assert main([command, "run", *COMMANDS[command], *flags]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    return shown.err


# The table changed since the training


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "sample"])
@pytest.mark.parametrize(
    "values", [spelled(200, start=7), spelled(200)[:, :9], spelled(180)], ids=["rows", "columns", "fewer"]
)
def test_a_table_that_changed_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str], command: str, values: np.ndarray
) -> None:
    save(Path("d/t.csv"), values)
    said = refused(command, capsys)
    assert said.startswith("jsa: d/t.csv is not the table that the run was trained on: give the run its data back")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_that_is_the_same_is_taken(run: Path, command: str) -> None:
    assert main([command, "run", *COMMANDS[command]]) == 0


def test_other_test_rows_are_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Path("d/other.csv"), spelled(30, start=200))
    assert main(["train", "--data", "d/t.csv", "--test-file", "d/other.csv", *SIZES, "--out", "run"]) == 0
    save(Path("d/other.csv"), spelled(30, start=300))
    said = refused("evaluate", capsys)
    assert said.startswith("jsa: d/other.csv does not hold the test rows that the run had: give the run its data back")


def test_a_run_of_an_earlier_version_is_taken_as_it_is(run: Path) -> None:
    (run / "data.json").unlink()
    assert main(["evaluate", "run", "--samples", "5"]) == 0


def test_a_damaged_note_about_the_data_is_one_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "data.json").write_text('{"started_in": "/", "train": 3}')
    assert main(["evaluate", "run"]) == 2
    assert capsys.readouterr().err.startswith("jsa: run/data.json: ")


def test_rows_that_are_drawn_anew_are_recognised(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def small(turned: int) -> Splits:
        gray = torch.randint(0, 256, (60, 8), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
        train = DynamicBinarisation(gray ^ turned, seed=0)
        return Splits("mnist-dynamic", train, patterned(20, 1), patterned(20, 2), 2)

    monkeypatch.setitem(loading.BUILDERS, "mnist-dynamic", lambda data_dir, seed: small(0))
    assert main(["train", "--data", "mnist-dynamic", *SIZES, "--switch-epoch", "2", "--out", "run"]) == 0
    assert main(["evaluate", "run", "--split", "train", "--samples", "5"]) == 0
    monkeypatch.setitem(loading.BUILDERS, "mnist-dynamic", lambda data_dir, seed: small(255))
    assert "mnist-dynamic is not the data that the run was trained on" in refused("evaluate", capsys)


def test_a_run_is_not_continued_with_another_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "evaluation.json").unlink()
    before = (run / "data.json").read_text()
    save(Path("d/t.csv"), spelled(200, start=7))
    assert main(["train", "--resume", "run"]) == 1
    assert "d/t.csv is not the table that the run was trained on" in capsys.readouterr().err
    assert (run / "data.json").read_text() == before
    assert not (run / "evaluation.json").exists()


@pytest.mark.parametrize("left", [{"config.json"}, {"config.json", "data.json"}])
def test_a_run_that_begins_again_may_do_so_with_a_mended_table(
    run: Path, capsys: pytest.CaptureFixture[str], left: set[str]
) -> None:
    for path in run.iterdir():
        if path.name not in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    save(Path("d/t.csv"), spelled(200, start=7))
    assert main(["train", "--resume", "run"]) == 0
    assert main(["evaluate", "run", "--samples", "5"]) == 0
    save(Path("d/t.csv"), spelled(200))
    assert "d/t.csv is not the table that the run was trained on" in refused("evaluate", capsys)


# What was read


def read_line(capsys: pytest.CaptureFixture[str], table: str, *flags: str) -> list[str]:
    capsys.readouterr()
    assert main(["train", "--data", table, *SIZES, "--epochs", "1", *flags]) == 0
    return capsys.readouterr().err.splitlines()


def test_training_says_what_it_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line, *others = read_line(capsys, "d/t.csv")
    assert line == "read t.csv: 160 training rows, 20 validation rows, 20 test rows; 12 columns, binary"
    assert not any(other.startswith("note: ") for other in others)
    save(Path("d/classes.csv"), spelled(200) + spelled(200, start=1))
    line, *others = read_line(capsys, "d/classes.csv")
    assert line.endswith("; 12 columns, 3 classes")
    assert not any(other.startswith("note: ") for other in others)


@pytest.mark.parametrize(("schedule", "noted"), [("constant", True), ("cosine", False)])
def test_a_run_that_ends_too_early_says_so(
    home: Path, capsys: pytest.CaptureFixture[str], schedule: str, noted: bool
) -> None:
    assert main(["train", "--data", "d/t.csv", *SIZES, "--schedule", schedule, "--out", "run"]) == 0
    shown = capsys.readouterr().out
    assert "best epoch 2," in shown
    assert ("note: the last epoch was the best one: more --epochs" in shown) == noted


def test_an_index_column_is_noted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "," + ",".join("abcdefghijkl")
    save(Path("d/index.csv"), np.column_stack([np.arange(200), spelled(200)]), header)
    line, note, *_ = read_line(capsys, "d/index.csv")
    assert line.endswith("; 13 columns, 200 classes")
    assert note == (
        "note: values above 1 stand only in column 1 of d/index.csv and give every column 200 classes: remove from the "
        "table what is no variable, row numbers for instance, or check the table with --data-classes 2"
    )


def test_a_header_of_numbers_is_noted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Path("d/header.csv"), spelled(200), header=",".join(map(str, range(12))))
    line, note, *_ = read_line(capsys, "d/header.csv")
    assert line.endswith("161 training rows, 20 validation rows, 20 test rows; 12 columns, 12 classes")
    assert note == (
        "note: values above 1 stand only in the first row of d/header.csv and give every column 12 classes: remove "
        "that row if it is a header, or check the table with --data-classes 2"
    )


# Codes of rows


def codes(*flags: str) -> dict[str, np.ndarray]:
    assert main(["encode", "run", *flags, "--out", "codes.npz"]) == 0
    with np.load("codes.npz") as file:
        return dict(file)


def means_of(values: np.ndarray) -> np.ndarray:
    """What the inference model of the run says about rows."""
    opened = open_run(Path("run"))
    rows = IndexedDataset(torch.from_numpy(values.astype(np.uint8)), classes=opened.shape.classes)
    if context := opened.shape.context_columns:
        rows = rows.split_context(context)
    return opened.model.posterior(rows.batch(torch.arange(len(rows)))).first.mean.detach().numpy()


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_codes_lead_back_to_the_rows_of_the_table(run: Path, split: str) -> None:
    found = codes("--split", split)
    assert set(found) == {"h", "mean", "rows"}
    assert len(found["rows"]) == (160 if split == "train" else 20)
    assert found["mean"] == pytest.approx(means_of(spelled(200)[found["rows"]]), abs=1e-6)


def test_all_rows_of_one_table_come_in_its_order(run: Path) -> None:
    found = codes("--split", "all")
    assert found["rows"].tolist() == list(range(200))
    assert found["mean"] == pytest.approx(means_of(spelled(200)), abs=1e-6)
    for split in ("train", "valid", "test"):
        rows = codes("--split", split)["rows"]
        assert np.flatnonzero(found["split"] == split).tolist() == rows.tolist()
    # The draws follow the probabilities: 600 bits, failure rate below 1e-6.
    spread = np.sqrt((found["mean"] * (1 - found["mean"])).sum())
    assert abs((found["h"] - found["mean"]).sum()) < 5 * spread


def test_all_rows_of_several_tables_come_one_after_the_other(home: Path) -> None:
    save(Path("d/other.csv"), spelled(30, start=200))
    assert main(["train", "--data", "d/t.csv", "--test-file", "d/other.csv", *SIZES, "--out", "run"]) == 0
    found = codes("--split", "all")
    assert found["split"].tolist() == ["train"] * 180 + ["valid"] * 20 + ["test"] * 30
    assert sorted(found["rows"][:200]) == list(range(200))
    assert found["rows"][200:].tolist() == list(range(30))
    whole = np.concatenate([spelled(200)[found["rows"][:200]], spelled(30, start=200)])
    assert found["mean"] == pytest.approx(means_of(whole), abs=1e-6)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("model", ["linear", "structured"])
def test_rows_of_another_table_are_encoded(home: Path, classes: int, model: str) -> None:
    random = np.random.default_rng(0)
    save(Path("d/t.csv"), random.integers(0, classes, (100, 6)))
    # The largest class is missing there: it is the run that says how many classes there are.
    other = random.integers(0, max(2, classes - 1), (7, 6))
    save(Path("d/new.csv"), other)
    assert main(["train", "--data", "d/t.csv", *SIZES, "--model", model, "--hidden", "4", "--out", "run"]) == 0
    found = codes("--data", "d/new.csv")
    assert set(found) == {"h", "mean", "rows"}
    assert found["rows"].tolist() == list(range(7))
    assert found["mean"] == pytest.approx(means_of(other), abs=1e-6)


def test_codes_of_another_table_have_a_file_of_their_own(run: Path) -> None:
    save(Path("d/test.csv"), spelled(5))
    for flags in ([], ["--data", "d/test.csv"], ["--split", "all"]):
        assert main(["encode", "run", *flags]) == 0
    assert {path.name for path in run.glob("codes-*")} == {"codes-test.npz", "codes-test.csv.npz", "codes-all.npz"}


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (["--data", "d/wide.csv"], 1, "d/wide.csv must have as many columns as the data of the run: 12, not 13"),
        (["--data", "d/high.csv"], 1, "d/high.csv: row 1, column 1 (counted from 1) holds 2, but 2 classes go up to 1"),
        (["--data", "d/none.csv"], 1, "d/none.csv cannot be read"),
        (["--data", "d/t.csv", "--split", "all"], 2, "--data encodes all rows of d/t.csv: leave out --split"),
    ],
)
def test_what_cannot_be_encoded_is_said(
    run: Path, capsys: pytest.CaptureFixture[str], flags: list[str], code: int, sentence: str
) -> None:
    save(Path("d/wide.csv"), np.column_stack([spelled(5), np.ones(5)]))
    save(Path("d/high.csv"), 2 - spelled(5))
    assert main(["encode", "run", *flags]) == code
    assert sentence in capsys.readouterr().err
    assert not list(run.glob("codes-*"))


# The likelihood of each row


def nll_of_rows(*flags: str) -> dict[str, np.ndarray]:
    assert main(["evaluate", "run", *flags, "--out", "nll.npz"]) == 0
    with np.load("nll.npz") as file:
        return dict(file)


def test_the_nll_of_each_row_leads_back_to_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = nll_of_rows("--exact", "--split", "valid", "--json", "figures.json")
    assert "20 NLLs in nll.npz" in capsys.readouterr().out
    assert found["rows"].tolist() == codes("--split", "valid")["rows"].tolist()
    assert found["nll"].mean() == pytest.approx(json.loads(Path("figures.json").read_text())["nll"], rel=1e-12)
    # The same rows in another order, as a table of their own.
    save(Path("turned.csv"), spelled(200)[found["rows"]][::-1])
    turned = nll_of_rows("--exact", "--data", "turned.csv")
    assert turned["rows"].tolist() == list(range(20))
    assert turned["nll"] == pytest.approx(found["nll"][::-1], rel=1e-6)


def test_the_nll_of_the_first_rows_by_samples(run: Path) -> None:
    exact, found = nll_of_rows("--exact", "--rows", "7"), nll_of_rows("--samples", "5000", "--rows", "7")
    assert len(found["rows"]) == len(found["nll"]) == 7
    assert found["nll"] == pytest.approx(exact["nll"], abs=0.2)
    assert (found["effective_sample_size"] <= 5000).all()
    assert np.isinf(exact["effective_sample_size"]).all()


# A run without its data


def test_a_model_is_sampled_from_without_its_data(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(*flags: str) -> list[np.ndarray]:
        assert main(["sample", "run", "--count", "3", "--out", "drawn.npz", *flags]) == 0
        with np.load("drawn.npz") as file:
            return [file["h"], file["x"]]

    with_data = drawn()
    Path("d/t.csv").unlink()
    assert all(np.array_equal(*pair) for pair in zip(drawn(), with_data, strict=True))
    assert main(["evaluate", "run"]) == 1
    assert "there is no table" in capsys.readouterr().err


def test_a_conditional_model_takes_the_contexts_of_its_samples_from_the_data(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--data", "d/t.csv", *SIZES, "--model", "structured", "--hidden", "4", "--out", "run"]) == 0
    Path("d/t.csv").unlink()
    assert main(["sample", "run", "--count", "3"]) == 1
    assert "there is no table" in capsys.readouterr().err


def test_rows_of_another_table_are_evaluated_and_encoded_without_its_data(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = open_run(run).splits.train
    save(Path("same.csv"), train.rows.numpy())
    assert main(["evaluate", "run", "--split", "train", "--exact"]) == 0
    expected = capsys.readouterr().out.removeprefix("train ")
    Path("d/t.csv").unlink()
    assert main(["evaluate", "run", "--data", "same.csv", "--exact", "--json", "figures.json"]) == 0
    assert capsys.readouterr().out == f"same.csv {expected}"
    assert json.loads(Path("figures.json").read_text())["data"] == "same.csv"
    assert codes("--data", "same.csv")["mean"] == pytest.approx(means_of(train.rows.numpy()), abs=1e-6)
    assert main(["evaluate", "run", "--data", "same.csv", "--split", "valid"]) == 2
    assert "--data evaluates the rows of same.csv: leave out --split" in capsys.readouterr().err


def test_a_run_whose_data_was_described_less_is_opened_with_its_data(run: Path) -> None:
    record = json.loads((run / "data.json").read_text())
    del record["shape"]
    (run / "data.json").write_text(json.dumps(record))
    assert open_run(run).shape == open_run(run).splits.row_shape == RowShape(12, 0, 2, None)
    save(Path("d/t.csv"), spelled(200, start=7))
    assert main(["sample", "run", "--count", "3"]) == 1


# Another working folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_is_opened_from_anywhere(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main([command, "../home/run", *COMMANDS[command]]) == 0


def test_a_run_is_continued_from_anywhere(
    trained: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "evaluation.json").unlink()
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--resume", "home/run"]) == 0
    assert differences(trained, run) == []


def test_the_configuration_names_the_table_as_it_was_given(run: Path) -> None:
    assert open_run(run).config.data == "d/t.csv"
    assert str(run.parent) not in (run / "config.json").read_text()


def test_the_table_of_the_folder_that_the_run_was_begun_in_is_its_table(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "elsewhere" / "d" / "t.csv", spelled(200, start=7))
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["evaluate", "../home/run", "--samples", "5"]) == 0


def test_a_folder_can_be_moved_with_table_and_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run.parent.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    assert main(["evaluate", "run", "--samples", "5"]) == 0


def test_other_files_of_the_run_are_found_too(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(Path("d/valid.csv"), spelled(20, start=200))
    save(Path("d/test.csv"), spelled(20, start=300))
    flags = ["--data", "t.csv", "--data-dir", "d", "--valid-file", "d/valid.csv", "--test-file", "test.csv"]
    assert main(["train", *flags, *SIZES, "--out", "run"]) == 0
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "home/run", "--samples", "5"]) == 0


def test_a_table_that_is_gone_is_found_in_the_folder_that_is_named(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("d").rename("archive")
    said = refused("evaluate", capsys)
    assert said == ("jsa: there is no table d/t.csv: check the path, or give the folder that has it by --data-dir\n")
    assert main(["evaluate", "run", "--samples", "5", "--data-dir", "archive"]) == 0
    (run / "evaluation.json").unlink()
    assert main(["train", "--resume", "run", "--data-dir", "archive"]) == 0


def test_the_folder_that_is_named_comes_before_the_table_that_changed(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree("d", "archive")
    save(Path("d/t.csv"), spelled(200, start=7))
    assert main(["evaluate", "run", "--samples", "5", "--data-dir", "archive"]) == 0
    save(Path("archive/t.csv"), spelled(200, start=8))
    assert "archive/t.csv is not the table" in refused("evaluate", capsys, "--data-dir", "archive")


# Sentences


def test_one_column_cannot_be_conditioned_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Path("d/one.csv"), spelled(50)[:, :1])
    assert main(["train", "--data", "d/one.csv", "--model", "structured"]) == 2
    assert capsys.readouterr().err == (
        "jsa: rows of 1 column cannot be divided into a context and the rest: a conditional model, such as structured, "
        "needs 2 columns or more\n"
    )


def test_a_tiny_table_is_answered_with_what_to_give(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Path("d/tiny.csv"), spelled(5))
    assert main(["train", "--data", "d/tiny.csv", *SIZES]) == 1
    said = capsys.readouterr().err
    assert "--valid-fraction" in said
    assert "--valid-file" in said
