"""Rows spread evenly over a split: a rule that every command and every training follows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from helpers.own_tables import SIZES, arrays_of, save, spelled
from helpers.small_runs import patterned
from helpers.terminal import run_jsa
from jsa import BeliefNetwork, LatentSpace, Layer
from jsa.batch import Batch
from jsa.data import IndexedDataset, load
from jsa.errors import UsageError
from jsa.evaluation.ancestral_samples import contexts_of
from jsa.evaluation.likelihood import Likelihood, likelihood
from jsa.evaluation.rows import Rows, Subset, TensorRows, column_means
from jsa.experiments import worker
from jsa.front.run import open_run
from jsa.runs.build import load_splits
from jsa.runs.folder import RunFolder
from jsa.runs.plots import draw
from jsa.runs.rows import RunRows
from jsa.training.signals import StopRequest


def spread(rows: int, count: int) -> list[int]:
    return [floor((i + Fraction(1, 2)) * rows / count) for i in range(count)]


@pytest.mark.parametrize(("rows", "count"), [(10, 1), (10, 3), (10, 9), (10, 10), (1, 1), (10_007, 1_000)])
def test_each_row_is_the_middle_one_of_its_part(rows: int, count: int) -> None:
    found = Subset.spread(patterned(rows, seed=0), count).numbers.tolist()
    assert found == spread(rows, count)
    assert found == sorted(set(found))


@pytest.mark.parametrize("count", [None, 10, 11, 10_000])
def test_as_many_as_there_are_is_all_of_them_in_their_order(count: int | None) -> None:
    assert Subset.spread(patterned(10, seed=0), count).numbers.tolist() == list(range(10))


def test_of_no_rows_there_are_none() -> None:
    assert len(Subset.spread(TensorRows(torch.zeros(0, 3)), 5)) == 0


def shares(labels: Tensor) -> Tensor:
    return labels.long().bincount(minlength=10) / len(labels)


@pytest.mark.parametrize("count", [100, 2_000])
def test_digits_are_as_frequent_as_in_a_split_that_is_sorted_by_digit(count: int) -> None:
    labels = load("mnist-threshold").test.labels
    assert labels is not None
    labels = labels.sort().values
    rows = TensorRows(labels)

    def furthest(subset: Tensor) -> float:
        return float((shares(subset) - shares(labels)).abs().max())

    # A digit is a stretch of rows, and a stretch holds its share of the chosen ones up to one.
    assert furthest(labels[Subset.spread(rows, count).numbers]) <= 1 / count
    assert furthest(labels[:count]) > 0.3


# Whoever takes some rows


class Asked:
    """The rows that were asked of datasets, by how many rows the dataset has."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rows: dict[int, set[int]] = {}
        whole = IndexedDataset.batch

        def batch(dataset: IndexedDataset, index: Tensor, device: torch.device | None = None) -> Batch:
            self.rows.setdefault(len(dataset), set()).update(index.tolist())
            return whole(dataset, index, device)

        patch.setattr(IndexedDataset, "batch", batch)


@pytest.fixture
def trained(here: Path) -> Path:
    """A run of 160 training rows, and 20 each to validate and test with."""
    run_jsa("train --data", save("t.csv", spelled(200)), SIZES, "--out run")
    return Path("run")


@pytest.mark.parametrize(
    ("command", "rows", "count"),
    [
        ("evaluate run --samples 5 --rows 7", 20, 7),
        ("evaluate run --exact --split train --rows 30 --bounds 1", 160, 30),
        ("evaluate run --exact --data t.csv --rows 11", 200, 11),
        ("describe run --rows 10", 160, 10),
        ("variance run --estimators rloo jsa --draws 20 --moves 2 --rows 10", 160, 10),
    ],
)
def test_a_command_takes_rows_spread_evenly(
    trained: Path, monkeypatch: pytest.MonkeyPatch, command: str, rows: int, count: int
) -> None:
    asked = Asked(monkeypatch)
    run_jsa(command)
    assert asked.rows == {rows: set(spread(rows, count))}


def test_the_written_numbers_are_those_of_the_rows(trained: Path) -> None:
    split = arrays_of("encode run --split test")["rows"]
    assert arrays_of("evaluate run --exact --rows 7")["rows"].tolist() == split[spread(20, 7)].tolist()
    assert arrays_of("evaluate run --exact --data t.csv --rows 7")["rows"].tolist() == spread(200, 7)


def test_a_training_validates_follows_and_scores_rows_spread_evenly(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, set[tuple[int, ...]]] = {}

    def remembering(place: str) -> None:
        def remember(model: object, rows: Rows, *given: object, **named: object) -> Likelihood:
            numbers: Sequence[int] = rows.numbers.tolist() if isinstance(rows, Subset) else range(len(rows))
            seen.setdefault(place, set()).add(tuple(numbers))
            return likelihood(model, rows, *given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(f"jsa.{place}.likelihood", remember)

    remembering("training.loop")
    remembering("runs.final_test")
    sizes = f"{SIZES} --validation-rows 5 --followed-rows 4 --validate-every 1 --leading-epochs 2"
    run_jsa("train --data", save("t.csv", spelled(200)), sizes, "--out run")
    valid = tuple(spread(20, 5))
    assert seen == {
        "training.loop": {valid, tuple(spread(160, 4)), tuple(spread(20, 4))},
        # The test is of all rows.
        "runs.final_test": {valid, tuple(range(20))},
    }


def test_contexts_are_of_rows_spread_evenly(here: Path) -> None:
    run_jsa("train --data", save("t.csv", spelled(200)), SIZES, "--model structured --hidden 4 --out run")
    opened = open_run(Path("run"))
    valid = opened.splits.valid
    expected = valid.batch(torch.tensor(spread(20, 6)))
    assert expected.context is not None
    contexts = contexts_of(valid, 6)
    assert contexts is not None
    assert torch.equal(contexts, expected.context)
    assert arrays_of("sample run --count 6")["context"].tolist() == expected.context.tolist()


def test_reconstructions_are_of_rows_spread_evenly(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits, folder = load("mnist-threshold"), RunFolder(here)
    model = BeliefNetwork(Layer("bernoulli", 784), LatentSpace.of(Layer("bernoulli", 2)))
    asked = Asked(monkeypatch)
    folder.metrics.write_text('{"epoch": 1, "objective": -3.0}\n')
    draw(model, RunRows.of_splits(splits), folder, seed=0)
    assert asked.rows == {len(splits.valid): set(spread(len(splits.valid), 100)) | set(spread(len(splits.valid), 50))}


def test_the_variances_of_table_2_are_of_the_first_training_rows(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception: the paper's 200 rows, which are the first ones."""
    run_jsa("train --data", save("t.csv", spelled(400)), SIZES, "--out run --snapshot-every 2")
    taken: list[Batch] = []

    def measure(model: object, estimator: object, batch: Batch, *given: object, **named: object) -> dict[str, object]:
        taken.append(batch)
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "gradient_variance", measure)
    with pytest.raises(KeyboardInterrupt):
        worker.measure_variances(RunFolder(Path("run")), StopRequest(), 20)
    train = load_splits(RunFolder(Path("run")).read_config()).train
    assert taken[0].row_numbers.tolist() == list(range(200)) != Subset.spread(train, 200).numbers.tolist()
    assert torch.equal(taken[0].x, train.batch(torch.arange(200)).x)


def rows_with_gaps(count: int) -> tuple[Tensor, Tensor]:
    """Images of which a quarter of the values is missing, more of them where they are large; and their weights."""
    torch.manual_seed(0)
    x = torch.randn(count, 3, 2)
    return x.masked_fill(torch.rand_like(x) < 0.5 * x.sigmoid(), torch.nan), torch.rand(count)


@pytest.mark.parametrize("count", [1, 99, 100, 101, 350])
def test_column_means_leave_gaps_out(count: int) -> None:
    x, _ = rows_with_gaps(count)
    context = torch.arange(3 * count).view(count, 3)
    found = column_means(TensorRows(x, context))
    assert found.x is not None
    assert torch.allclose(found.x, x.nanmean(0), atol=1e-6, equal_nan=True)
    assert found.context is not None
    assert torch.allclose(found.context, context.float().mean(0))
    # The twin that takes a gap for a zero.
    assert count == 1 or float((found.x - x.nan_to_num(0.0).mean(0)).abs().min()) > 1e-3


def test_column_means_respect_weights() -> None:
    x, weight = rows_with_gaps(250)
    weight[17] = 0
    x[17] = 1e6
    # A weight that is three times as much is the row three times.
    weight = (4 * weight).round()
    found = column_means(TensorRows(x, weight=weight)).x
    assert found is not None
    assert torch.allclose(found, x.repeat_interleave(weight.long(), 0).nanmean(0), atol=1e-5)
    assert float((found - x.nanmean(0)).abs().min()) > 1e-3


def test_a_column_without_values_has_no_mean() -> None:
    x = torch.tensor([[torch.nan, 1.0, 2.0], [torch.nan, 3.0, torch.nan]])
    assert str(column_means(x).x) == "tensor([nan, 2., 2.])"
    # Only rows that do not count have a value.
    weighted = column_means(TensorRows(x, weight=torch.tensor([0.0, 1.0]))).x
    assert str(weighted) == "tensor([nan, 3., nan])"
    assert column_means(x).context is None


def test_the_means_of_digits_are_the_shares_of_ones() -> None:
    train = load("mnist-threshold").train
    found = column_means(train).x
    assert found is not None
    assert torch.allclose(found, train.batch(torch.arange(len(train))).x.mean(0), atol=1e-6)


def test_no_rows_have_no_means() -> None:
    with pytest.raises(UsageError, match="there are no rows"):
        column_means(torch.zeros(0, 3))
