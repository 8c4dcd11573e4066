"""Memory-mapped chains: what a file brings that memory does not have, and what a full disk does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.damage import Damage, cut, flipped, holding, kept, largest_file, rewritten, untouched
from helpers.killed_chains import ROWS, SPACE, contents, expected, same, write_steps
from helpers.latent_spaces import random_states
from jsa import ChainCache, LatentSpace, Layer
from jsa.chains.mapped import FORMAT, Manifest
from jsa.chains.record_file import checksums, make_records
from jsa.chains.storage import description
from jsa.errors import CheckpointError, UsageError

WHOLE = {"chains.bin", "chains.json"}
OTHER_MOMENT = "put back copies of both that were made together"


def mapped(folder: Path, rows: int = ROWS) -> ChainCache:
    return ChainCache(SPACE, rows, folder)


def written(folder: Path) -> ChainCache:
    """Chains that were committed twice."""
    cache = mapped(folder)
    for generation in (1, 2):
        write_steps(cache, generation)
        cache.commit()
    return cache


def staged(folder: Path) -> tuple[ChainCache, dict[str, Tensor]]:
    """The same, with a third checkpoint that is not committed."""
    cache = written(folder)
    write_steps(cache, 3)
    return cache, cache.state_dict()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_committed_chains_are_there_when_opened_again(tmp_path: Path) -> None:
    written(tmp_path)
    again = mapped(tmp_path)
    assert same(again, expected(2))
    write_steps(again, 3)
    assert same(again, expected(3))


def test_only_a_commit_touches_the_file(tmp_path: Path) -> None:
    cache = written(tmp_path)
    before = (tmp_path / "chains.bin").read_bytes()
    write_steps(cache, 3)
    assert same(mapped(tmp_path), expected(2))
    saved = cache.state_dict()
    assert (tmp_path / "chains.bin").read_bytes() == before
    cache.commit(saved)
    assert (tmp_path / "chains.bin").read_bytes() != before
    assert names(tmp_path) == WHOLE


def test_committing_again_does_nothing(tmp_path: Path) -> None:
    cache, saved = staged(tmp_path)
    cache.commit(saved)
    with untouched(tmp_path):
        cache.commit(saved)
        mapped(tmp_path).commit(saved)
    assert same(mapped(tmp_path), expected(3))


def test_what_is_written_after_staging_is_not_committed(tmp_path: Path) -> None:
    cache, saved = staged(tmp_path)
    write_steps(cache, 4)
    cache.commit(saved)
    assert same(cache, expected(4))
    assert same(mapped(tmp_path), expected(3))
    cache.commit()
    assert same(mapped(tmp_path), expected(4))


@pytest.mark.parametrize("committed", ["both", "first", "second", "none"])
@pytest.mark.parametrize("loaded", ["first", "second"])
def test_no_checkpoint_is_lost_where_two_are_staged(committed: str, loaded: str, tmp_path: Path) -> None:
    """As when a commit is forgotten: a state file may hold either of them."""
    cache, first = staged(tmp_path)
    write_steps(cache, 4)
    checkpoints = {"first": first, "second": cache.state_dict()}
    for name, saved in checkpoints.items():
        if committed in (name, "both"):
            cache.commit(saved)
    assert same(cache, expected(4))
    again = mapped(tmp_path)
    if loaded == "first" and committed in ("second", "both"):
        with pytest.raises(CheckpointError, match=OTHER_MOMENT):
            again.load_state_dict(checkpoints[loaded])
    else:
        again.load_state_dict(checkpoints[loaded])
        assert same(again, expected(3 if loaded == "first" else 4))
        assert names(tmp_path) == WHOLE


def test_an_empty_checkpoint_counts_too(tmp_path: Path) -> None:
    cache = written(tmp_path)
    first = cache.state_dict()
    cache.commit(first)
    second = cache.state_dict()
    again = mapped(tmp_path)
    with pytest.raises(CheckpointError, match=OTHER_MOMENT):
        again.load_state_dict({"clock": first["clock"], "generation": first["generation"] - 1})
    again.load_state_dict(second)
    assert same(again, expected(2))


def test_two_that_work_in_one_folder_do_not_mix_their_chains(tmp_path: Path) -> None:
    first, second = written(tmp_path), mapped(tmp_path)
    write_steps(second, 3)
    saved = first.state_dict()
    second.commit()
    write_steps(first, 4)
    for late in (None, saved):
        with pytest.raises(CheckpointError, match="were moved by something else since they were opened here"):
            first.commit(late)
    assert same(mapped(tmp_path), expected(3))
    write_steps(second, 4)
    second.commit()
    assert same(mapped(tmp_path), expected(4))


def test_a_folder_that_is_gone_is_missed_at_the_next_checkpoint(tmp_path: Path) -> None:
    cache = written(tmp_path / "chains")
    (tmp_path / "chains").rename(tmp_path / "elsewhere")
    write_steps(cache, 3)
    with pytest.raises(CheckpointError, match=r"chains\.json is gone: put back the folder and resume"):
        cache.commit()


def ages(cache: ChainCache) -> dict[int, float]:
    return {int(row): float(age) for rows, ages in cache.ages() for row, age in zip(rows, ages, strict=True)}


def test_all_rows_are_found_in_file_and_overlay(tmp_path: Path) -> None:
    cache, other = written(tmp_path), ChainCache(SPACE, ROWS)
    other.adopt(expected(2))
    forgotten = torch.tensor([min(ages(cache))])
    for one in (cache, other):
        one.forget(forgotten)
        write_steps(one, 3)
    assert same(cache, other)
    assert ages(cache) == ages(other)
    assert cache.visited_rows == other.visited_rows == len(ages(cache))


def test_saved_chains_are_loaded_into_a_file(tmp_path: Path) -> None:
    written(tmp_path / "one").save(tmp_path / "chains.safetensors")
    cache = mapped(tmp_path / "two")
    write_steps(cache, 7)
    cache.load(tmp_path / "chains.safetensors")
    cache.commit()
    assert same(mapped(tmp_path / "two"), expected(2))


def test_too_many_chains_are_not_gathered_in_memory(tmp_path: Path) -> None:
    cache = ChainCache(LatentSpace.of(Layer("bernoulli", 200)), 100_000_000, tmp_path / "chains")
    with pytest.raises(UsageError, match="copy their folder"):
        cache.save(tmp_path / "chains.safetensors")


def test_every_flipped_bit_of_a_row_is_seen() -> None:
    record = make_records(torch.randint(256, (1, 25), dtype=torch.uint8).numpy(), np.array([123_456_789]))
    for bit in range(8 * record.nbytes):
        found = record.copy()
        found.view(np.uint8)[bit // 8] ^= 1 << bit % 8
        assert checksums(found) != found["checksum"]


def test_a_row_of_zeros_is_whole() -> None:
    """Else the holes of a sparse file would have to be written."""
    record = make_records(np.zeros((1, 25), np.uint8), np.zeros(1, np.int64))
    assert record.tobytes() == bytes(37)


def test_a_damaged_row_is_refused_when_it_is_read(tmp_path: Path) -> None:
    cache = written(tmp_path)
    row = sorted(ages(cache))[3]
    flipped(row * cache.bytes_per_row + 1, bit=2)(tmp_path / "chains.bin")
    again = mapped(tmp_path)
    others = torch.tensor([other for other in range(ROWS) if other != row])
    assert torch.equal(again.read(others)[0], expected(2).read(others)[0])
    for read in (again.read, again.age, again.forget):
        with pytest.raises(CheckpointError, match=rf"row {row} of .*chains\.bin is damaged: put back a copy"):
            read(torch.arange(ROWS))
    with pytest.raises(CheckpointError, match="is damaged"):
        _ = again.visited_rows


def numbered(**numbers: object) -> Damage:
    """With other numbers in chains.json and a checksum that is right, as a stranger may have made it."""

    def change(path: Path) -> None:
        manifest = Manifest()
        for name, number in numbers.items():
            object.__setattr__(manifest, name, number)
        manifest.write(path, description(SPACE, ROWS, FORMAT))

    return change


EARLIER = json.dumps({"format": 1, "rows": ROWS, "layers": [["bernoulli", 9, 2]]})
WRONG_NUMBERS: tuple[dict[str, object], ...] = ({"generation": "2"}, {"visits": -1}, {"visits": None})
TEXTS = ("", "{", "[]", "null", "[" * 100_000, "\x00", "{}", '{"checksum": ""}')


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        *(("chains.bin", kept(count), r"chains\.bin is missing or damaged") for count in (0, 1, 1000)),
        ("chains.bin", lambda path: path.write_bytes(path.read_bytes() + b"x"), r"chains\.bin is missing or damaged"),
        ("chains.bin", Path.unlink, r"chains\.bin is missing or damaged"),
        ("chains.json", Path.unlink, r"chains\.json is missing, but"),
        *(("chains.json", holding(text), "damaged|another model, dataset or version") for text in TEXTS),
        ("chains.json", holding(EARLIER), f"are for format 1, this run has {FORMAT}"),
        *(("chains.json", numbered(**wrong), "damaged") for wrong in WRONG_NUMBERS),
    ],
)
def test_a_damaged_folder_is_refused(name: str, damage: Damage, sentence: str, tmp_path: Path) -> None:
    written(tmp_path)
    damage(tmp_path / name)
    with untouched(tmp_path), pytest.raises(CheckpointError, match=sentence):
        mapped(tmp_path)


def test_every_flipped_bit_of_a_description_is_seen(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / "chains.json"
    for place in range(len(path.read_bytes().rstrip())):
        flipped(place, place % 7)(path)
        with pytest.raises(CheckpointError):
            mapped(tmp_path)
        flipped(place, place % 7)(path)


@pytest.mark.parametrize(
    ("latent", "rows"),
    [(SPACE, ROWS + 1), (LatentSpace.of(*reversed(SPACE.layers)), ROWS)],
    ids=["rows", "layers"],
)
def test_mapped_chains_of_something_else_are_refused(latent: LatentSpace, rows: int, tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(CheckpointError, match="another model, dataset or version"):
        ChainCache(latent, rows, tmp_path)
    assert same(mapped(tmp_path), expected(2))


def test_mapped_chains_are_on_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="memory-mapped chains are on the CPU"):
        ChainCache(SPACE, ROWS, folder=tmp_path, device="cuda")


DAMAGES = pytest.mark.parametrize(
    "damage",
    [
        flipped(-5),
        cut(0.5),
        Path.unlink,
        rewritten(generation=2),
        rewritten(rows=ROWS + 1),
        rewritten(lambda tensors: {**tensors, "rows": tensors["rows"] + ROWS}),
        rewritten(lambda tensors: {"records": tensors["records"]}),
    ],
    ids=["flipped", "truncated", "missing", "other generation", "other chains", "other rows", "no rows"],
)


@DAMAGES
def test_a_damaged_journal_is_refused_where_it_is_needed(damage: Damage, tmp_path: Path) -> None:
    _, saved = staged(tmp_path)
    damage(tmp_path / "journal-3.safetensors")
    sentence = rf"journal-3\.safetensors|{OTHER_MOMENT}"
    with untouched(tmp_path), pytest.raises(CheckpointError, match=sentence):
        mapped(tmp_path).load_state_dict(saved)


@DAMAGES
def test_a_damaged_journal_does_not_matter_elsewhere(damage: Damage, tmp_path: Path) -> None:
    _, saved = staged(tmp_path)
    damage(tmp_path / "journal-3.safetensors")
    cache = mapped(tmp_path)
    cache.load_state_dict({"clock": torch.tensor([cache.visits]), "generation": saved["generation"] - 1})
    assert same(cache, expected(2))
    assert names(tmp_path) == WHOLE


@pytest.mark.parametrize(("generation", "visits"), [(1, 0), (4, 0), (2, 1), (3, 1)])
@pytest.mark.parametrize("action", [ChainCache.load_state_dict, ChainCache.commit])
def test_a_state_file_of_another_moment_is_refused(
    action: Callable[[ChainCache, dict[str, Tensor]], None], generation: int, visits: int, tmp_path: Path
) -> None:
    """The chains are of checkpoint 2, with a journal of checkpoint 3."""
    _, saved = staged(tmp_path)
    cache = mapped(tmp_path)
    clock = (saved["clock"] if generation > 2 else torch.tensor([cache.visits])) + visits
    with pytest.raises(CheckpointError, match=OTHER_MOMENT):
        action(cache, {"clock": clock, "generation": torch.tensor([generation])})
    assert same(mapped(tmp_path), expected(2))


def test_a_copied_folder_goes_on_by_itself(tmp_path: Path) -> None:
    written(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    cache = mapped(tmp_path / "two")
    write_steps(cache, 3)
    cache.commit()
    assert same(mapped(tmp_path / "two"), expected(3))
    assert same(mapped(tmp_path / "one"), expected(2))


def test_a_journal_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    cache = written(tmp_path)
    write_steps(cache, 3)
    before = contents(cache)
    with largest_file(100), pytest.raises(CheckpointError, match="could not be written"):
        cache.state_dict()
    assert names(tmp_path) == WHOLE
    assert same(mapped(tmp_path), expected(2))
    assert all(map(torch.equal, contents(cache), before))
    cache.commit()
    assert same(mapped(tmp_path), expected(3))


@pytest.mark.parametrize("go_on", ["in a new process", "in the same"])
def test_a_commit_that_cannot_be_written_is_finished_later(go_on: str, tmp_path: Path) -> None:
    cache = mapped(tmp_path, rows=100_000)
    rows = torch.tensor([3, 99_998, 50_000])
    h = random_states(SPACE, (3,), 0)
    cache.write(rows, h, torch.ones(3, dtype=torch.bool))
    kept = cache.state_dict()
    with largest_file(1_000_000), pytest.raises(CheckpointError, match="make room on the disk and resume"):
        cache.commit(kept)
    # The first row is in the file by now, the last one is not.
    if go_on == "in a new process":
        cache = mapped(tmp_path, rows=100_000)
        cache.load_state_dict(kept)
    cache.write(rows[:1], h[1:2], torch.tensor([True]))
    cache.commit()
    again = mapped(tmp_path, rows=100_000)
    assert torch.equal(again.read(rows)[0], h[[1, 1, 2]])
    assert again.visits == 4


def test_a_cache_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    with largest_file(1000), pytest.raises(CheckpointError, match="make room on the disk"):
        mapped(tmp_path, rows=100_000)
    assert mapped(tmp_path, rows=100_000).visited_rows == 0
