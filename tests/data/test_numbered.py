"""Row numbers of any map-style dataset, in a loop with torch's own loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from jsa import Batch, numbered
from jsa.errors import UsageError

X = torch.arange(20.0).unflatten(0, (10, 2))
LABELS = torch.arange(10) % 3
CHOSEN = [7, 2, 5]


def batches(dataset: Any, workers: int = 0) -> list[Batch]:
    loader = DataLoader(dataset, batch_size=2, collate_fn=Batch.collate, num_workers=workers)
    return list(loader)


def together(found: list[Batch]) -> tuple[list[int], torch.Tensor]:
    return torch.cat([batch.row_numbers for batch in found]).tolist(), torch.cat([batch.x for batch in found])


class Plain:
    """No class of torch, with items that are no tuples."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, number: int) -> torch.Tensor:
        return X[number]


@pytest.mark.parametrize("dataset", [TensorDataset(X), TensorDataset(X, LABELS), Plain()], ids=["x", "labels", "plain"])
def test_rows_have_the_numbers_of_the_dataset(dataset: Any) -> None:
    for workers in (0, 1):
        numbers, x = together(batches(numbered(dataset), workers))
        assert numbers == list(range(10))
        assert torch.equal(x, X)


def test_a_subset_of_numbered_rows_has_the_numbers_of_the_whole() -> None:
    numbers, x = together(batches(Subset(numbered(TensorDataset(X, LABELS)), CHOSEN)))
    assert numbers == CHOSEN
    assert torch.equal(x, X[CHOSEN])


def test_a_numbered_subset_has_its_own_numbers() -> None:
    numbers, x = together(batches(numbered(Subset(TensorDataset(X, LABELS), CHOSEN))))
    assert numbers == [0, 1, 2]
    assert torch.equal(x, X[CHOSEN])


def test_an_item_has_one_number_however_it_is_asked_for() -> None:
    found = numbered(TensorDataset(X))
    assert found[-1][-1] == found[9][-1] == 9
    with pytest.raises(IndexError):
        found[10]


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(X)


class Dictionaries(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        return {"x": X[number]}


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        (Stream(), "Stream has no items by number"),
        (iter(X), "has no items by number"),
        (DataLoader(TensorDataset(X)), r"jsa\.numbered\(loader\.dataset\)"),
    ],
)
def test_what_has_no_numbers_is_refused(dataset: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        numbered(dataset)


def test_items_without_a_place_for_a_number_are_refused() -> None:
    with pytest.raises(UsageError, match="return tuples, x first"):
        numbered(Dictionaries())[0]


class Labeled(Plain):
    """Labels are whole numbers, as row numbers are."""

    def __getitem__(self, number: int) -> Any:
        return X[number], int(LABELS[number])


@pytest.mark.parametrize("dataset", [TensorDataset(X, LABELS), Plain(), Labeled()], ids=["tensors", "plain", "labels"])
def test_a_loader_of_unnumbered_items_is_refused(dataset: Any) -> None:
    with pytest.raises(UsageError, match=r"do not end with a row number: load jsa\.numbered"):
        batches(dataset)
