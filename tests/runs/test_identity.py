"""What a run folder knows of its data."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch

from helpers.small_runs import patterned
from jsa.data import Conditioned, DynamicBinarization, IndexedDataset, Splits
from jsa.errors import UsageError
from jsa.runs.identity import DataIdentity, RowsIdentity, rows_identity


def splits(train: int = 1, valid: int = 2, test: int = 3) -> Splits:
    return Splits("thing", patterned(50, train), patterned(20, valid), patterned(10, test))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert DataIdentity.read(tmp_path) is None
    written = DataIdentity.of(splits(), Path("/home/somebody"))
    written.write(tmp_path)
    assert DataIdentity.read(tmp_path) == written
    (tmp_path / "data.json").write_text("{}")
    with pytest.raises(UsageError, match=r"data.json: the field started_in is missing"):
        DataIdentity.read(tmp_path)


def test_the_part_with_other_rows_is_named() -> None:
    known = DataIdentity.of(splits(), Path())
    assert known.changed(splits()) is None
    assert known.changed(splits(train=9)) == "train"
    assert known.changed(splits(valid=9)) == "valid"
    assert known.changed(splits(test=9)) == "test"


def test_more_columns_are_other_rows() -> None:
    narrow, wide = (IndexedDataset(torch.zeros(8, columns, dtype=torch.uint8)) for columns in (4, 5))
    assert rows_identity(narrow) != rows_identity(wide)
    turned = wide.rows.clone()
    turned[3, 0] = 1
    assert rows_identity(Conditioned(wide, 2)) != rows_identity(Conditioned(IndexedDataset(turned), 2))


def test_the_digest_is_that_of_states_of_earlier_versions() -> None:
    rows = Conditioned(patterned(2_500, seed=1), 3)
    batch = rows.batch(torch.linspace(0, 2_499, 1_000, dtype=torch.float64).long())
    assert batch.context is not None
    values = hashlib.sha256(batch.x.numpy().tobytes() + batch.context.numpy().tobytes()).hexdigest()
    assert rows_identity(rows) == RowsIdentity(2_500, values)


def test_rows_that_are_drawn_anew_are_the_same_in_every_epoch() -> None:
    gray = torch.randint(0, 256, (30, 8), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    rows = DynamicBinarization(gray, seed=5)
    known = rows_identity(rows)
    rows.start_epoch(4)
    assert rows_identity(rows) == known
    assert rows_identity(DynamicBinarization(gray, seed=6)) != known
