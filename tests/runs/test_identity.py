"""What a run folder knows of its data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.own_tables import SIZES, save, spelled
from helpers.small_runs import patterned, small_model
from helpers.terminal import Terminal, run_jsa
from jsa.batch import Batch
from jsa.data import Conditioned, Dataset, DynamicBinarization, IndexedDataset, Splits, load
from jsa.data.schema import Schema, Words
from jsa.errors import UsageError
from jsa.evaluation.rows import Subset
from jsa.io.tensor_files import load_tensors
from jsa.runs.identity import RunIdentity, rows_identity


def splits(train: int = 1, valid: int = 2, test: int = 3) -> Splits:
    return Splits("thing", patterned(50, train), patterned(20, valid), patterned(10, test))


def identity_of(data: Splits, started_in: Path) -> RunIdentity:
    return RunIdentity.of(data.parts, data.schema, small_model(), started_in)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert RunIdentity.read(tmp_path) is None
    written = identity_of(splits(), Path("/home/somebody"))
    written.write(tmp_path)
    assert RunIdentity.read(tmp_path) == written
    (tmp_path / "identity.json").write_text("{}")
    with pytest.raises(UsageError, match=r"identity.json: the field started_in is missing"):
        RunIdentity.read(tmp_path)


def test_the_part_with_other_rows_is_named() -> None:
    known = identity_of(splits(), Path())
    assert known.changed(splits().parts) is None
    assert known.changed(splits(train=9).parts) == "train"
    assert known.changed(splits(valid=9).parts) == "valid"
    assert known.changed(splits(test=9).parts) == "test"


# What is compared


MANY = 20_000


def old_digest(rows: Dataset) -> str:
    """The known-wrong twin: the digest of 1,000 rows, as they are in a batch."""
    batch = rows.batch(torch.linspace(0, len(rows) - 1, min(1_000, len(rows)), dtype=torch.float64).long())
    beside = b"" if batch.context is None else batch.context.numpy().tobytes()
    return hashlib.sha256(batch.x.numpy().tobytes() + beside).hexdigest()


@dataclass
class Contents:
    """What rows are made of, to be changed."""

    values: Tensor
    missing: Tensor
    labels: Tensor
    names: tuple[str, ...] = ("age", "smokes", "color")
    words: Words = ((), ("no", "yes"), ("blue", "green", "red"))

    @property
    def rows(self) -> IndexedDataset:
        schema = Schema(3, 0, 3, None, self.names, words=self.words, values=(3, 2, 3))
        return IndexedDataset(self.values, schema, labels=self.labels, missing=self.missing)


def contents(rows: int = MANY) -> Contents:
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(0, 2, (rows, 3), generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, 10, (rows,), generator=generator, dtype=torch.uint8)
    return Contents(values, torch.rand(rows, 3, generator=generator) < 0.1, labels)


def a_cell(of: Contents) -> None:
    of.missing[7_001, 2] = False
    of.values[7_001, 2] ^= 1


def five_rows(of: Contents) -> None:
    for row in (5, 4_100, 9_007, 12_345, 19_990):
        of.missing[row] = False
        of.values[row] ^= 1


def two_rows_swapped(of: Contents) -> None:
    one, *others = (~of.missing).all(1).nonzero().flatten()[11:30].tolist()
    two = next(row for row in others if bool((of.values[row] != of.values[one]).all()))
    for part in (of.values, of.missing, of.labels):
        part[[one, two]] = part[[two, one]]


def a_missing_flag(of: Contents) -> None:
    of.missing[19_999 - 7, 0] ^= True


def a_label(of: Contents) -> None:
    of.labels[15_003] ^= 1


def a_name(of: Contents) -> None:
    of.names = ("age", "smoked", "color")


def a_word(of: Contents) -> None:
    of.words = ((), ("no", "yes"), ("blue", "green", "ruby"))


CHANGES = (a_cell, five_rows, two_rows_swapped, a_missing_flag, a_label, a_name, a_word)


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found_wherever_it_is(change: Callable[[Contents], None], conditional: bool) -> None:
    def view(of: Contents) -> Dataset:
        return Conditioned(of.rows, 1) if conditional else of.rows

    before, after = contents(), contents()
    for each in (before, after):
        each.missing[:, 0] = False  # of a context nothing may be missing
    assert rows_identity(view(before)) == rows_identity(view(after))
    change(after)
    if conditional:
        after.missing[:, 0] = False
        if change is a_missing_flag:
            after.missing[19_999 - 7, 1] ^= True
    assert rows_identity(view(before)) != rows_identity(view(after))
    assert old_digest(view(before)) == old_digest(view(after))


def test_all_rows_are_compared() -> None:
    assert rows_identity(contents().rows).compared == MANY


def test_the_context_is_compared() -> None:
    assert rows_identity(Conditioned(patterned(50, 1), 2)) != rows_identity(Conditioned(patterned(50, 1), 3))
    turned = patterned(50, 1).rows.clone()
    turned[3, 0] ^= 1
    assert rows_identity(Conditioned(patterned(50, 1), 2)) != rows_identity(Conditioned(IndexedDataset(turned), 2))


def test_what_stands_where_a_value_is_missing_does_not_matter() -> None:
    one, two = contents(), contents()
    two.values[two.missing] = 0
    assert rows_identity(one.rows) == rows_identity(two.rows)


def test_labels_that_are_not_known_are_other_than_known_ones() -> None:
    values = patterned(50, 1).rows
    assert rows_identity(IndexedDataset(values)) != rows_identity(IndexedDataset(values, labels=values[:, 0]))


def test_rows_that_are_drawn_anew_are_the_same_in_every_epoch() -> None:
    gray = torch.randint(0, 256, (30, 8), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    rows = DynamicBinarization(gray, seed=5)
    known = rows_identity(rows)
    rows.start_epoch(4)
    assert rows_identity(rows) == known
    assert rows_identity(DynamicBinarization(gray, seed=6)) != known
    darker = gray.clone()
    darker.view(-1)[gray.argmax()] -= 1
    other = DynamicBinarization(darker, seed=5)
    assert torch.equal(other.batch(torch.arange(30)).x, DynamicBinarization(gray, seed=5).batch(torch.arange(30)).x)
    assert rows_identity(other) != known


# Values that are not held in memory


class Elsewhere:
    """Rows that are read when they are asked for, with a known latent variable."""

    rows_change = False

    def __init__(self, rows: IndexedDataset) -> None:
        self._rows = rows
        self.schema, self.labels, self.missing = rows.schema, rows.labels, rows.missing
        self.known = torch.full((len(rows), 3), torch.nan)

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, index: Tensor, device: torch.device | str | None = None) -> Batch:
        return replace(self._rows.batch(index, device), known=self.known[index])

    def start_epoch(self, epoch: int) -> None:
        pass


def test_of_rows_that_are_not_held_in_memory_some_are_compared() -> None:
    known = rows_identity(Elsewhere(patterned(5_000, 1)))
    assert (known.rows, known.compared) == (5_000, 1_000)
    assert rows_identity(Elsewhere(patterned(300, 1))).compared == 300
    looked_at = Subset.spread(patterned(5_000, 1), 1_000).numbers.tolist()
    for row, found in ((looked_at[7], True), (looked_at[7] + 1, False)):
        turned = patterned(5_000, 1).rows.clone()
        turned[row, 3] ^= 1
        assert (rows_identity(Elsewhere(IndexedDataset(turned))) != known) == found
        with_known = Elsewhere(patterned(5_000, 1))
        with_known.known[row, 2] = 1
        assert (rows_identity(with_known) != known) == found
    assert rows_identity(Conditioned(Elsewhere(patterned(5_000, 1)), 2)).compared == 1_000


def test_it_is_said_when_a_run_goes_on_with_rows_of_which_some_were_compared(
    here: Path, monkeypatch: pytest.MonkeyPatch, jsa: Terminal
) -> None:
    def load_elsewhere(*given: Any, **named: Any) -> Splits:
        splits = load(*given, **named)
        train, valid, test = (Elsewhere(cast(IndexedDataset, rows)) for rows in splits.parts.values())
        return replace(splits, train=train, valid=valid, test=test)

    note = "only 1,000 rows of each part, spread evenly, were compared with the data that the run began with"
    for name, rows, elsewhere in (("many", 2_000, True), ("few", 200, True), ("held", 2_000, False)):
        table = save(f"{name}.npy", spelled(rows).astype(np.uint8))
        with monkeypatch.context() as patch:
            if elsewhere:
                patch.setattr("jsa.runs.build.load", load_elsewhere)
            begun = jsa("train --data", table, SIZES, "--batch-size 500 --out", name).err
            (Path(name) / "evaluation.json").unlink()
            resumed = jsa("resume", name).err
        assert note not in begun
        assert resumed.count(note) == (name == "many")
        assert RunIdentity.read(Path(name)).train.compared == (1_000 if name == "many" else 0.8 * rows)  # type: ignore[union-attr]


# Runs


@pytest.fixture
def run(here: Path) -> Path:
    """The table of a run with its rows: 20,000 that are learned from, and files to validate and test with."""
    for name in ("valid", "test"):
        save(f"{name}.npy", spelled(3_000).astype(np.uint8))
    table = save("train.npy", spelled(MANY, columns=15).astype(np.uint8)[:, :12])
    sizes = SIZES.replace("--epochs 2", "--epochs 1")
    files = "--valid-file valid.npy --test-file test.npy"
    run_jsa("train --data", table, files, sizes, "--batch-size 1000 --out run")
    (here / "run" / "evaluation.json").unlink()
    return here / "run"


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("train", "train.npy is not the table that the run was trained on"),
        ("valid", "valid.npy does not hold the validation rows that the run had"),
        ("test", "test.npy does not hold the test rows that the run had"),
    ],
)
def test_five_changed_rows_are_refused(run: Path, jsa: Terminal, part: str, sentence: str) -> None:
    whole = np.load(f"{part}.npy")
    changed = whole.copy()
    changed[[5, 777, 1_234, 2_001, 2_990]] ^= 1
    save(f"{part}.npy", changed)
    for command in ("resume run", "evaluate run --samples 5"):
        assert f"{sentence}: give the run its data back" in jsa.refuses(command, code=1)
    save(f"{part}.npy", whole)
    jsa("resume run")


def test_the_state_has_the_digest_of_the_folder(run: Path, jsa: Terminal) -> None:
    known = RunIdentity.read(run)
    assert known is not None
    said = f"{MANY} rows with digest {known.train.digest[:16]}"
    _, notes = load_tensors(run / "state.safetensors")
    assert notes["identity"]["the training data"] == said  # type: ignore[index]
    # Where the folder does not know its data, the state does.
    (run / "identity.json").unlink()
    changed = np.load("train.npy")
    changed[7_001, 3] ^= 1
    save("train.npy", changed)
    assert f"was {said} when the checkpoint was written" in jsa.refuses("resume run", code=1)
