"""The cache of chains: what is read is what was written, under the same row number, wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.latent_spaces import random_states, spaces
from helpers.small_models import RowsInMemory, one_layer, repeated
from jsa import JSA, ChainCache, LatentSpace, Layer, Stage, likelihood
from jsa.errors import CheckpointError, UsageError
from jsa.io.tensor_files import load_tensors, save_tensors

SPACE = LatentSpace.of(Layer("bernoulli", 9), Layer("categorical", 2, classes=3), Layer("gaussian", 2))
ROWS = 12

MakeCache = Callable[[], ChainCache]


@pytest.fixture(params=["in memory", "memory-mapped"])
def make_cache(request: pytest.FixtureRequest, tmp_path: Path) -> MakeCache:
    """A function that makes a cache of each kind."""
    if request.param == "in memory":
        return lambda: ChainCache(SPACE, ROWS)
    return lambda: ChainCache(SPACE, ROWS, folder=tmp_path / "chains")


@pytest.fixture
def cache(make_cache: MakeCache) -> ChainCache:
    return make_cache()


def states(count: int, seed: int = 0) -> torch.Tensor:
    return random_states(SPACE, (count,), seed)


def flags(*values: bool) -> torch.Tensor:
    return torch.tensor(values)


def all_moved(count: int) -> torch.Tensor:
    return torch.ones(count, dtype=torch.bool)


def contents(cache: ChainCache) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    everything = torch.arange(cache.rows)
    return (*cache.read(everything), cache.age(everything))


def assert_same(first: ChainCache, second: ChainCache) -> None:
    for one, other in zip(contents(first), contents(second), strict=True):
        assert torch.equal(one, other)


@given(spaces(), st.permutations(range(6)), st.integers(0, 1000))
def test_rows_keep_their_states_in_any_order(space: LatentSpace, order: list[int], seed: int) -> None:
    cache = ChainCache(space, rows=6)
    h = random_states(space, (6,), seed)
    rows = torch.tensor(order)
    cache.write(rows[:4], h[:4], all_moved(4))
    cache.write(rows[4:], h[4:], all_moved(2))
    back, visited = cache.read(torch.arange(6))
    assert visited.all()
    assert torch.equal(back[rows], h)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_states_come_back_in_the_precision_asked_for(cache: ChainCache, dtype: torch.dtype) -> None:
    h = states(3)
    cache.write(torch.arange(3), h, all_moved(3))
    back, _ = cache.read(torch.arange(3), dtype)
    assert back.dtype == dtype
    assert torch.equal(back, h.to(dtype))


def test_a_new_cache_has_visited_nothing(cache: ChainCache) -> None:
    assert cache.visited_rows == 0
    assert not cache.read(torch.arange(ROWS))[1].any()


def test_only_the_rows_written_are_visited(cache: ChainCache) -> None:
    cache.write(torch.tensor([8, 2]), states(2), all_moved(2))
    cache.write(torch.tensor([2, 5]), states(2, seed=1), flags(False, False))
    visited = cache.read(torch.arange(ROWS))[1]
    assert visited.nonzero().flatten().tolist() == [2, 5, 8]
    assert cache.visited_rows == 3


def test_a_row_that_occurs_twice_keeps_its_last_place(cache: ChainCache) -> None:
    h = states(4)
    cache.write(torch.tensor([3, 7, 3, 7]), h, all_moved(4))
    assert torch.equal(cache.read(torch.tensor([3, 7]))[0], h[2:])


def test_a_row_that_occurs_twice_takes_the_flag_of_its_last_place(cache: ChainCache) -> None:
    cache.write(torch.tensor([3, 7]), states(2), all_moved(2))
    cache.write(torch.tensor([3, 3, 7, 7]), states(4), flags(True, False, False, True))
    age = cache.age(torch.tensor([3, 7]))
    assert age[0] > 0
    assert age[1] == 0


def test_age_counts_the_passes_since_the_last_move(cache: ChainCache) -> None:
    """A pass is as many visits as there are rows: here two batches of six."""
    first, second = torch.arange(6), torch.arange(6, 12)
    cache.write(first, states(6), all_moved(6))
    assert cache.age(first).tolist() == [0] * 6
    cache.write(second, states(6), all_moved(6))
    assert cache.age(first).tolist() == [0.5] * 6
    cache.write(first, states(6), flags(True, *[False] * 5))
    assert cache.age(first).tolist() == [0, *[1.0] * 5]
    cache.write(second, states(6), all_moved(6))
    assert cache.age(first).tolist() == [0.5, *[1.5] * 5]


def test_the_first_visit_counts_as_a_move(cache: ChainCache) -> None:
    rows = torch.arange(6)
    cache.write(rows, states(6), torch.zeros(6, dtype=torch.bool))
    assert cache.age(rows).tolist() == [0] * 6


def test_the_age_of_a_row_does_not_depend_on_which_others_are_asked_for(cache: ChainCache) -> None:
    rows = torch.arange(6)
    cache.write(rows, states(6), all_moved(6))
    cache.write(rows, states(6), torch.zeros(6, dtype=torch.bool))
    assert cache.age(rows[:1]).tolist() == cache.age(rows)[:1].tolist() == [0.5]


def test_a_smaller_last_batch_does_not_change_what_a_pass_is(cache: ChainCache) -> None:
    large, small = torch.arange(8), torch.arange(8, 12)
    for rows in (large, small):
        cache.write(rows, states(len(rows)), all_moved(len(rows)))
    for rows in (large, small):
        cache.write(rows, states(len(rows)), torch.zeros(len(rows), dtype=torch.bool))
    # One whole pass after their move, the rows of the last batch are one pass old like all the others.
    assert cache.age(small).tolist() == [1.0] * 4


@pytest.mark.parametrize("row", [-1, ROWS])
def test_a_row_that_is_not_there_is_refused(cache: ChainCache, row: int) -> None:
    with pytest.raises(UsageError, match=f"row number {row}, but the cache was made for {ROWS} rows"):
        cache.read(torch.tensor([0, row]))


def test_a_refused_write_changes_nothing(cache: ChainCache) -> None:
    cache.write(torch.arange(3), states(3), all_moved(3))
    visits = cache.visits
    with pytest.raises(UsageError):
        cache.write(torch.tensor([0, ROWS]), states(2, seed=1), all_moved(2))
    assert torch.equal(cache.read(torch.arange(3))[0], states(3))
    assert cache.visits == visits


@pytest.mark.parametrize(
    "wrong",
    [
        torch.tensor([[1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0]]),
        torch.full((1, 8), 0.7),
        torch.ones(1, 10),
        torch.ones(1, 7),
    ],
    ids=["spins", "shares", "too wide", "too narrow"],
)
def test_what_is_no_state_is_refused(wrong: torch.Tensor) -> None:
    cache = ChainCache(LatentSpace.of(Layer("bernoulli", 8)), ROWS)
    sentence = f"chains of 8 bernoulli variables cannot hold these states of width {wrong.shape[-1]}"
    with pytest.raises(UsageError, match=sentence):
        cache.write(torch.tensor([3]), wrong, all_moved(1))
    assert cache.visits == 0


def test_classes_that_are_not_one_hot_are_refused() -> None:
    cache = ChainCache(LatentSpace.of(Layer("categorical", 2, classes=3)), ROWS)
    with pytest.raises(UsageError, match="classes are one-hot"):
        cache.write(torch.tensor([3]), torch.tensor([[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]), all_moved(1))


def test_chains_that_are_held_stand_where_they_stood(cache: ChainCache) -> None:
    cache.write(torch.arange(4), states(4), all_moved(4))
    before, visits = contents(cache), cache.visits
    with cache.held(torch.tensor([5, 2, 1, 2])):
        for seed in range(3):
            cache.write(torch.tensor([1, 2, 5]), states(3, seed=seed + 7), all_moved(3))
        assert cache.visits == visits + 9
    for one, other in zip(before, contents(cache), strict=True):
        assert torch.equal(one, other)
    assert cache.visits == visits


def test_a_cache_needs_rows() -> None:
    with pytest.raises(UsageError, match="rows is 1 or more, not 0"):
        ChainCache(SPACE, rows=0)


def test_two_hundred_bits_take_25_bytes_and_a_number() -> None:
    assert ChainCache(LatentSpace.of(Layer("bernoulli", 200)), rows=1).bytes_per_row == 25 + 8


def test_saved_chains_are_loaded(make_cache: MakeCache, tmp_path: Path) -> None:
    cache = make_cache()
    cache.write(torch.tensor([8, 2, 5]), states(3), all_moved(3))
    cache.write(torch.tensor([2, 11]), states(2, seed=1), flags(False, True))
    cache.save(tmp_path / "chains.safetensors")
    other = ChainCache(SPACE, ROWS)
    other.write(torch.arange(ROWS), states(ROWS, seed=2), all_moved(ROWS))
    other.load(tmp_path / "chains.safetensors")
    assert_same(other, cache)
    assert other.visits == cache.visits == 5


@pytest.mark.parametrize(
    ("latent", "rows"),
    [
        (SPACE, ROWS + 1),
        (LatentSpace.of(Layer("bernoulli", 9)), ROWS),
        (LatentSpace.of(*reversed(SPACE.layers)), ROWS),
        # The same bytes with another meaning.
        (LatentSpace.of(Layer("bernoulli", 9), Layer("categorical", 2, classes=4), Layer("gaussian", 2)), ROWS),
    ],
    ids=["rows", "layers", "order", "classes"],
)
def test_chains_of_something_else_are_refused(latent: LatentSpace, rows: int, tmp_path: Path) -> None:
    path = tmp_path / "chains.safetensors"
    ChainCache(latent, rows).save(path)
    cache = ChainCache(SPACE, ROWS)
    cache.write(torch.arange(3), states(3), all_moved(3))
    with pytest.raises(CheckpointError, match="another model, dataset or version"):
        cache.load(path)
    assert torch.equal(cache.read(torch.arange(3))[0], states(3))


def test_missing_chains_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there are no chains"):
        ChainCache(SPACE, ROWS).load(tmp_path / "nothing")


def saved(path: Path) -> bytes:
    cache = ChainCache(SPACE, ROWS)
    cache.write(torch.arange(ROWS), states(ROWS), all_moved(ROWS))
    cache.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(share: float, tmp_path: Path) -> None:
    path = tmp_path / "chains.safetensors"
    whole = saved(path)
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CheckpointError, match="damaged"):
        ChainCache(SPACE, ROWS).load(path)


@pytest.mark.parametrize("place", range(0, 48, 3))
def test_a_damaged_header_is_refused(place: int, tmp_path: Path) -> None:
    path = tmp_path / "chains.safetensors"
    damaged = bytearray(saved(path))
    damaged[place] ^= 0x80
    path.write_bytes(damaged)
    with pytest.raises(CheckpointError):
        ChainCache(SPACE, ROWS).load(path)


@pytest.mark.parametrize(
    "damage", ["a tensor is missing", "the type is wrong", "the shape is wrong", "the clock is missing"]
)
def test_a_file_with_other_contents_is_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "chains.safetensors"
    saved(path)
    tensors, notes = load_tensors(path)
    match damage:
        case "a tensor is missing":
            del tensors["states"]
        case "the type is wrong":
            tensors["states"] = tensors["states"].float()
        case "the shape is wrong":
            tensors["states"] = tensors["states"][:, 1:].contiguous()
        case "the clock is missing":
            del tensors["clock"]
    save_tensors(path, tensors, notes)
    cache = ChainCache(SPACE, ROWS)
    with pytest.raises(CheckpointError):
        cache.load(path)
    assert cache.visited_rows == 0


def test_memory_mapped_chains_go_step_for_step_with_those_in_memory(tmp_path: Path) -> None:
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
        assert_same(estimators[0].chains, estimators[1].chains)


def test_a_write_is_taken_back(cache: ChainCache) -> None:
    cache.write(torch.arange(6), states(6), all_moved(6))
    cache.write(torch.tensor([3]), states(1, seed=1), flags(False))
    before, visits = contents(cache), cache.visits
    cache.write(torch.tensor([2, 8, 2]), states(3, seed=2), all_moved(3))
    cache.undo(visits)
    assert cache.visits == visits
    assert all(torch.equal(one, other) for one, other in zip(contents(cache), before, strict=True))


def test_there_is_nothing_to_take_back_where_nothing_was_written(cache: ChainCache) -> None:
    cache.write(torch.arange(6), states(6), all_moved(6))
    before = contents(cache)
    cache.undo(cache.visits)
    assert all(torch.equal(one, other) for one, other in zip(contents(cache), before, strict=True))


def test_only_the_last_write_is_taken_back(cache: ChainCache) -> None:
    for _ in range(2):
        cache.write(torch.arange(6), states(6), all_moved(6))
    with pytest.raises(UsageError, match="only the last write"):
        cache.undo(0)
    cache.undo(6)
    with pytest.raises(UsageError, match="only the last write"):
        cache.undo(0)


def test_a_checkpoint_is_not_taken_back(cache: ChainCache) -> None:
    cache.write(torch.arange(6), states(6), all_moved(6))
    cache.state_dict()
    with pytest.raises(UsageError, match="before a checkpoint"):
        cache.undo(0)


def test_chains_that_are_forgotten_start_anew(cache: ChainCache) -> None:
    cache.write(torch.arange(6), states(6), all_moved(6))
    cache.forget(torch.tensor([4, 1, 4]))
    assert cache.read(torch.arange(6))[1].tolist() == [True, False, True, True, False, True]
    assert cache.visits == 6
    cache.write(torch.tensor([4]), states(1), flags(False))
    assert cache.age(torch.tensor([4])) == 0


def test_a_checkpoint_brings_the_chains_back(make_cache: MakeCache) -> None:
    cache = make_cache()
    cache.write(torch.tensor([8, 2, 5]), states(3), all_moved(3))
    cache.write(torch.tensor([2, 11]), states(2, seed=1), flags(False, True))
    kept = {name: tensor.clone() for name, tensor in cache.state_dict().items()}
    cache.commit(kept)
    before = contents(cache)
    cache.write(torch.arange(ROWS), states(ROWS, seed=2), all_moved(ROWS))
    again = make_cache()
    again.load_state_dict(kept)
    assert again.visits == 5
    assert all(torch.equal(one, other) for one, other in zip(contents(again), before, strict=True))


def test_a_checkpoint_may_be_made_again(make_cache: MakeCache) -> None:
    """As when the state file of the first could not be written."""
    cache = make_cache()
    cache.write(torch.arange(6), states(6), all_moved(6))
    cache.state_dict()
    cache.write(torch.arange(3), states(3, seed=1), all_moved(3))
    kept = {name: tensor.clone() for name, tensor in cache.state_dict().items()}
    again = make_cache()
    again.load_state_dict(kept)
    assert_same(again, cache)


@pytest.mark.parametrize("damage", ["missing", "shape", "type"])
def test_a_checkpoint_that_does_not_fit_is_refused(cache: ChainCache, damage: str) -> None:
    kept = cache.state_dict()
    match damage:
        case "missing":
            del kept["clock"]
        case "shape":
            kept["clock"] = torch.zeros(2, dtype=torch.int64)
        case "type":
            kept["clock"] = torch.zeros(1)
    with pytest.raises(CheckpointError, match="clock is missing or of another shape or type"):
        cache.load_state_dict(kept)


def test_a_checkpoint_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    caches = [ChainCache(SPACE, ROWS), ChainCache(SPACE, ROWS, folder=tmp_path / "chains")]
    for one, other in (caches, reversed(caches)):
        with pytest.raises(CheckpointError, match="chains that are kept elsewhere"):
            other.load_state_dict(one.state_dict())


@pytest.mark.parametrize("mapped", [False, True])
def test_a_single_row_of_a_single_variable(mapped: bool, tmp_path: Path) -> None:
    cache = ChainCache(LatentSpace.of(Layer("bernoulli", 1)), 1, folder=tmp_path / "chains" if mapped else None)
    for state in (1.0, 0.0):
        for _ in range(3):
            cache.write(torch.tensor([0, 0]), torch.full((2, 1), state), flags(True, False))
        cache.commit()
        assert cache.read(torch.tensor([0]))[0].tolist() == [[state]]
    assert cache.age(torch.tensor([0])) == 10
    assert cache.visited_rows == 1


def test_evaluating_a_model_leaves_the_chains_alone() -> None:
    example = one_layer()
    estimator = JSA(example.model.latent, rows=3, stage=Stage.PERSISTENT)
    estimator(example.model, example.batch)
    before, visits = contents(estimator.chains), estimator.chains.visits
    likelihood(example.model, RowsInMemory(example.batch), samples=100)
    assert estimator.chains.visits == visits
    for one, other in zip(contents(estimator.chains), before, strict=True):
        assert torch.equal(one, other)
