"""The cache of chains: what is read is what was written, under the same row number, wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers.killed_chains import SPACE, contents, same
from helpers.latent_spaces import random_states, spaces
from helpers.small_models import RowsInMemory, one_layer
from jsa import JSA, ChainCache, LatentSpace, Layer, Stage, likelihood
from jsa.errors import CheckpointError, UsageError
from jsa.testing.gradients import repeated

ROWS = 12
EVERYTHING = torch.arange(ROWS)


def write(cache: ChainCache, rows: list[int] | range, moved: list[bool] | bool = True, seed: int = 0) -> Tensor:
    """Writes random states of these rows and returns them."""
    h = random_states(cache.latent, (len(rows),), seed)
    cache.write(torch.tensor(rows), h, torch.tensor(moved).expand(len(rows)))
    return h


def ages(cache: ChainCache, rows: list[int] | range) -> list[float]:
    found: list[float] = cache.age(torch.tensor(rows)).tolist()
    return found


def unchanged(cache: ChainCache, before: list[Tensor]) -> bool:
    return all(map(torch.equal, contents(cache), before))


def copied(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


@given(spaces(), st.permutations(range(6)), st.integers(0, 1000))
def test_rows_keep_their_states_in_any_order(space: LatentSpace, order: list[int], seed: int) -> None:
    cache = ChainCache(space, rows=6)
    h = torch.cat([write(cache, order[:4], seed=seed), write(cache, order[4:], seed=seed + 1)])
    back, visited = cache.read(torch.arange(6))
    assert visited.all()
    assert torch.equal(back[torch.tensor(order)], h)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_states_come_back_in_the_precision_asked_for(cache: ChainCache, dtype: torch.dtype) -> None:
    h = write(cache, range(3))
    back, _ = cache.read(torch.arange(3), dtype)
    assert back.dtype == dtype
    assert torch.equal(back, h.to(dtype))


def test_only_the_rows_written_are_visited(cache: ChainCache) -> None:
    assert cache.visited_rows == 0
    assert not cache.read(EVERYTHING)[1].any()
    write(cache, [8, 2])
    write(cache, [2, 5], moved=False)
    assert cache.read(EVERYTHING)[1].nonzero().flatten().tolist() == [2, 5, 8]
    assert cache.visited_rows == 3


def test_a_row_that_occurs_twice_keeps_its_last_place(cache: ChainCache) -> None:
    write(cache, [3, 7])
    h = write(cache, [3, 3, 7, 7], moved=[True, False, False, True], seed=1)
    assert torch.equal(cache.read(torch.tensor([3, 7]))[0], h[[1, 3]])
    first, second = ages(cache, [3, 7])
    assert first > second == 0


def test_age_counts_the_passes_since_the_last_move(cache: ChainCache) -> None:
    """A pass is as many visits as there are rows: here two batches of six."""
    first, second = range(6), range(6, 12)
    write(cache, first)
    assert ages(cache, first) == [0] * 6
    write(cache, second)
    assert ages(cache, first) == [0.5] * 6
    write(cache, first, moved=[True, *[False] * 5])
    assert ages(cache, first) == [0, *[1.0] * 5]
    write(cache, second)
    assert ages(cache, first) == [0.5, *[1.5] * 5]
    assert ages(cache, [3]) == [1.5]


def test_the_first_visit_counts_as_a_move(cache: ChainCache) -> None:
    write(cache, range(6), moved=False)
    assert ages(cache, range(6)) == [0] * 6


def test_a_smaller_last_batch_does_not_change_what_a_pass_is(cache: ChainCache) -> None:
    for moved in (True, False):
        for rows in (range(8), range(8, 12)):
            write(cache, rows, moved)
    # One whole pass after their move, the rows of the last batch are one pass old like all the others.
    assert ages(cache, range(8, 12)) == [1.0] * 4


@pytest.mark.parametrize("row", [-1, ROWS])
def test_a_row_that_does_not_exist_is_refused(cache: ChainCache, row: int) -> None:
    write(cache, range(3))
    before = contents(cache)
    for refused in (lambda: cache.read(torch.tensor([0, row])), lambda: write(cache, [0, row], seed=1)):
        with pytest.raises(UsageError, match=f"row number {row}, but the cache was made for {ROWS} rows"):
            refused()
    assert unchanged(cache, before)


BITS, CLASSES = Layer("bernoulli", 8), Layer("categorical", 2, classes=3)


@pytest.mark.parametrize(
    ("layer", "wrong"),
    [
        pytest.param(BITS, torch.tensor([[1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0]]), id="spins"),
        pytest.param(BITS, torch.full((1, 8), 0.7), id="shares"),
        pytest.param(BITS, torch.ones(1, 10), id="too wide"),
        pytest.param(BITS, torch.ones(1, 7), id="too narrow"),
        pytest.param(CLASSES, torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]), id="not one-hot"),
    ],
)
def test_what_is_not_a_state_is_refused(layer: Layer, wrong: Tensor) -> None:
    cache = ChainCache(LatentSpace.of(layer), ROWS)
    with pytest.raises(
        UsageError, match=rf"cannot hold these states of width {wrong.shape[-1]}: .*classes are one-hot"
    ):
        cache.write(torch.tensor([3]), wrong, torch.tensor([True]))
    assert cache.visits == 0


def test_a_cache_needs_rows() -> None:
    with pytest.raises(UsageError, match="rows must be 1 or more, not 0"):
        ChainCache(SPACE, rows=0)


def test_two_hundred_bits_take_25_bytes_and_a_number() -> None:
    assert ChainCache(LatentSpace.of(Layer("bernoulli", 200)), rows=1).bytes_per_row == 25 + 8


def test_chains_that_are_forgotten_start_anew(cache: ChainCache) -> None:
    write(cache, range(6))
    cache.forget(torch.tensor([4, 1, 4]))
    assert cache.read(torch.arange(6))[1].tolist() == [True, False, True, True, False, True]
    assert cache.visits == 6
    write(cache, [4], moved=False)
    assert ages(cache, [4]) == [0]


@pytest.mark.parametrize(
    ("latent", "rows", "sentence"),
    [
        (SPACE, ROWS + 1, "are for rows 13, but here rows is 12"),
        (LatentSpace.of(Layer("bernoulli", 9)), ROWS, "are for layers"),
        (LatentSpace.of(*reversed(SPACE.layers)), ROWS, "are for layers"),
        # The same bytes with another meaning.
        (
            LatentSpace.of(Layer("bernoulli", 9), Layer("categorical", 2, classes=4), Layer("gaussian", 2)),
            ROWS,
            "are for layers",
        ),
    ],
    ids=["rows", "layers", "order", "classes"],
)
def test_chains_of_something_else_are_refused(latent: LatentSpace, rows: int, sentence: str) -> None:
    cache = ChainCache(SPACE, ROWS)
    write(cache, range(3))
    before = contents(cache)
    with pytest.raises(CheckpointError, match=f"{sentence}.*another model, dataset or version"):
        cache.load_state_dict(ChainCache(latent, rows).state_dict())
    assert unchanged(cache, before)


@pytest.mark.parametrize("said", [None, b"", b"{", b"[]", b"{}", b'{"rows": 12}', b"\xff"])
def test_chains_that_do_not_say_whose_they_are_are_refused(cache: ChainCache, said: bytes | None) -> None:
    kept = cache.state_dict()
    del kept["belongs_to"]
    if said is not None:
        kept["belongs_to"] = torch.tensor(list(said), dtype=torch.uint8)
    with pytest.raises(CheckpointError, match="do not say whose they are"):
        cache.load_state_dict(kept)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda states: None, "states is missing"),
        (Tensor.float, "states is missing or of another shape or type"),
        (lambda states: states[:, 1:], "states is missing or of another shape"),
    ],
    ids=["no states", "type", "shape"],
)
def test_states_that_do_not_fit_are_refused(change: Callable[[Tensor], Tensor | None], sentence: str) -> None:
    kept = ChainCache(SPACE, ROWS).state_dict()
    changed = change(kept.pop("states"))
    cache = ChainCache(SPACE, ROWS)
    with pytest.raises(CheckpointError, match=sentence):
        cache.load_state_dict(kept if changed is None else {**kept, "states": changed})


def test_a_checkpoint_brings_the_chains_back(make_cache: Callable[[], ChainCache]) -> None:
    cache = make_cache()
    write(cache, [8, 2, 5])
    write(cache, [2, 11], moved=[False, True], seed=1)
    kept = copied(cache.state_dict())
    before = contents(cache)
    write(cache, range(ROWS), seed=2)
    del cache
    again = make_cache()
    write(again, [0], seed=3)
    again.load_state_dict(kept)
    assert again.visits == 5
    assert unchanged(again, before)
    # A row without a chain still starts from q.
    assert again.read(EVERYTHING)[1].tolist() == [row in (2, 5, 8, 11) for row in range(ROWS)]


def test_a_checkpoint_may_be_made_again(make_cache: Callable[[], ChainCache]) -> None:
    """As when the state file of the first could not be written."""
    cache = make_cache()
    write(cache, range(6))
    cache.state_dict()
    write(cache, range(3), seed=1)
    kept = copied(cache.state_dict())
    before = contents(cache)
    del cache
    again = make_cache()
    again.load_state_dict(kept)
    assert unchanged(again, before)


@pytest.mark.parametrize("clock", [None, torch.zeros(2, dtype=torch.int64), torch.zeros(1)])
def test_a_checkpoint_that_does_not_fit_is_refused(cache: ChainCache, clock: Tensor | None) -> None:
    kept = cache.state_dict()
    del kept["clock"]
    with pytest.raises(CheckpointError, match="clock is missing or of another shape or type"):
        cache.load_state_dict(kept if clock is None else {**kept, "clock": clock})


def test_a_checkpoint_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    caches = [ChainCache(SPACE, ROWS), ChainCache(SPACE, ROWS, folder=tmp_path / "chains")]
    for one, other in (caches, reversed(caches)):
        with pytest.raises(CheckpointError, match="chains that are kept elsewhere"):
            other.load_state_dict(one.state_dict())


def test_a_single_row_of_a_single_variable(folder: Path | None) -> None:
    cache = ChainCache(LatentSpace.of(Layer("bernoulli", 1)), 1, folder)
    for state in (1.0, 0.0):
        for _ in range(3):
            cache.write(torch.tensor([0, 0]), torch.full((2, 1), state), torch.tensor([True, False]))
        cache.commit()
        assert cache.read(torch.tensor([0]))[0].tolist() == [[state]]
    assert ages(cache, [0]) == [10]
    assert cache.visited_rows == 1


def test_chains_on_disk_go_step_for_step_with_those_in_memory(tmp_path: Path) -> None:
    example = one_layer()
    batch = repeated(example.batch, 20)
    estimators = [
        JSA(example.model.latent, len(batch), particles=3, stage=Stage.PERSISTENT, cache_folder=folder)
        for folder in (None, tmp_path / "chains")
    ]
    for step in range(5):
        rows = torch.randperm(len(batch))[:40]
        diagnostics = []
        for estimator in estimators:
            torch.manual_seed(step)
            diagnostics.append(estimator(example.model, batch.take(rows)).diagnostics)
        assert diagnostics[0] == diagnostics[1]
        assert same(estimators[0].chains, estimators[1].chains)


def test_evaluating_a_model_leaves_the_chains_alone() -> None:
    example = one_layer()
    estimator = JSA(example.model.latent, rows=3, stage=Stage.PERSISTENT)
    estimator(example.model, example.batch)
    before = contents(estimator.chains)
    likelihood(example.model, RowsInMemory(example.batch), samples=100)
    assert unchanged(estimator.chains, before)
