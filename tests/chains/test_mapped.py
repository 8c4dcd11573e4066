"""Chains in a memory-mapped file: what is kept, what is refused, and what a full disk does."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.killed_chains import SPACE, contents, same, write_steps
from helpers.latent_spaces import random_states
from jsa import ChainCache, LatentSpace, Layer
from jsa.chains.record_file import checksums, make_records
from jsa.errors import CheckpointError, UsageError
from jsa.io.tensor_files import load_tensors, save_tensors

ROWS = 60  # of write_steps


def mapped(folder: Path, rows: int = ROWS) -> ChainCache:
    return ChainCache(SPACE, rows, folder)


def written(folder: Path) -> ChainCache:
    """Chains that were flushed twice."""
    cache = mapped(folder)
    for generation in (1, 2):
        write_steps(cache, generation)
        cache.commit()
    return cache


def in_memory(generations: int) -> ChainCache:
    cache = ChainCache(SPACE, ROWS)
    for generation in range(1, generations + 1):
        write_steps(cache, generation)
    return cache


def test_flushed_chains_are_there_when_opened_again(tmp_path: Path) -> None:
    written(tmp_path)
    again = mapped(tmp_path)
    assert same(again, in_memory(2))
    write_steps(again, 3)
    assert same(again, in_memory(3))


def test_what_was_not_flushed_is_not_there(tmp_path: Path) -> None:
    cache = written(tmp_path)
    before = (tmp_path / "chains.bin").read_bytes()
    write_steps(cache, 3)
    assert (tmp_path / "chains.bin").read_bytes() == before
    assert same(mapped(tmp_path), in_memory(2))


def test_a_checkpoint_touches_only_the_journal_until_it_is_committed(tmp_path: Path) -> None:
    cache = written(tmp_path)
    before = (tmp_path / "chains.bin").read_bytes()
    write_steps(cache, 3)
    saved = cache.state_dict()
    assert (tmp_path / "chains.bin").read_bytes() == before
    cache.commit(saved)
    assert (tmp_path / "chains.bin").read_bytes() != before
    assert {path.name for path in tmp_path.iterdir()} == {"chains.bin", "chains.json"}


def test_an_empty_checkpoint_counts_too(tmp_path: Path) -> None:
    cache = written(tmp_path)
    first = cache.state_dict()
    cache.commit(first)
    second = cache.state_dict()
    again = mapped(tmp_path)
    with pytest.raises(CheckpointError, match="put back copies of both"):
        again.load_state_dict({"clock": first["clock"], "generation": first["generation"] - 1})
    again.load_state_dict(second)
    assert same(again, in_memory(2))


def test_committing_again_does_nothing(tmp_path: Path) -> None:
    cache = written(tmp_path)
    write_steps(cache, 3)
    saved = cache.state_dict()
    cache.commit(saved)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    cache.commit(saved)
    mapped(tmp_path).commit(saved)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert same(mapped(tmp_path), in_memory(3))


def test_what_is_written_after_staging_is_not_committed(tmp_path: Path) -> None:
    cache = written(tmp_path)
    write_steps(cache, 3)
    saved = cache.state_dict()
    write_steps(cache, 4)
    cache.commit(saved)
    assert same(cache, in_memory(4))
    assert same(mapped(tmp_path), in_memory(3))
    cache.commit()
    assert same(mapped(tmp_path), in_memory(4))


@pytest.mark.parametrize("committed", ["both", "first", "second", "none"])
@pytest.mark.parametrize("loaded", ["first", "second"])
def test_no_checkpoint_is_lost_where_two_are_staged(committed: str, loaded: str, tmp_path: Path) -> None:
    """As when a commit is forgotten: a state file may hold either of them."""
    cache, checkpoints = written(tmp_path), {}
    for generation, name in ((3, "first"), (4, "second")):
        write_steps(cache, generation)
        checkpoints[name] = cache.state_dict()
    for name, saved in checkpoints.items():
        if committed in (name, "both"):
            cache.commit(saved)
    assert same(cache, in_memory(4))
    again = mapped(tmp_path)
    if loaded == "first" and committed in ("second", "both"):
        with pytest.raises(CheckpointError, match="put back copies of both that were made together"):
            again.load_state_dict(checkpoints[loaded])
    else:
        again.load_state_dict(checkpoints[loaded])
        assert same(again, in_memory(3 if loaded == "first" else 4))
        assert {path.name for path in tmp_path.iterdir()} == {"chains.bin", "chains.json"}


def test_a_checkpoint_of_others_is_not_committed(tmp_path: Path) -> None:
    cache = written(tmp_path)
    saved = cache.state_dict()
    for wrong in ({**saved, "generation": saved["generation"] + 1}, {**saved, "clock": saved["clock"] + 1}):
        with pytest.raises(CheckpointError, match="put back copies of both that were made together"):
            cache.commit(wrong)
    cache.commit(saved)
    assert same(mapped(tmp_path), in_memory(2))


def test_two_that_work_in_one_folder_do_not_mix_their_chains(tmp_path: Path) -> None:
    first = written(tmp_path)
    second = mapped(tmp_path)
    write_steps(second, 3)
    second.commit()
    write_steps(first, 4)
    with pytest.raises(CheckpointError, match="were moved by something else since they were opened here"):
        first.commit()
    assert same(mapped(tmp_path), in_memory(3))
    write_steps(second, 4)
    second.commit()
    assert same(mapped(tmp_path), in_memory(4))


def test_a_folder_that_is_gone_is_missed_at_the_next_checkpoint(tmp_path: Path) -> None:
    cache = written(tmp_path / "chains")
    (tmp_path / "chains").rename(tmp_path / "elsewhere")
    write_steps(cache, 3)
    with pytest.raises(CheckpointError, match=r"chains\.json is gone: put back the folder and resume"):
        cache.commit()


def test_all_rows_are_found_in_file_and_overlay(tmp_path: Path) -> None:
    cache = written(tmp_path)
    cache.forget(torch.tensor([int(next(iter(cache.ages()))[0][0])]))
    write_steps(cache, 3)
    other = in_memory(2)
    other.forget(torch.tensor([int(next(iter(other.ages()))[0][0])]))
    write_steps(other, 3)
    assert same(cache, other)
    found = {int(row): float(age) for rows, ages in cache.ages() for row, age in zip(rows, ages, strict=True)}
    expected = {int(row): float(age) for rows, ages in other.ages() for row, age in zip(rows, ages, strict=True)}
    assert found == expected
    assert cache.visited_rows == other.visited_rows == len(found)


def test_saved_chains_are_loaded_into_a_file(tmp_path: Path) -> None:
    written(tmp_path / "one").save(tmp_path / "chains.safetensors")
    cache = mapped(tmp_path / "two")
    write_steps(cache, 7)
    cache.load(tmp_path / "chains.safetensors")
    cache.commit()
    assert same(mapped(tmp_path / "two"), in_memory(2))


def test_too_many_chains_are_not_gathered_in_memory(tmp_path: Path) -> None:
    cache = ChainCache(LatentSpace.of(Layer("bernoulli", 200)), 100_000_000, tmp_path / "chains")
    with pytest.raises(UsageError, match="copy their folder"):
        cache.save(tmp_path / "chains.safetensors")


def test_every_flipped_bit_of_a_row_is_seen() -> None:
    states = torch.randint(256, (1, 25), dtype=torch.uint8).numpy()
    record = make_records(states, np.array([123_456_789]))
    whole = record.tobytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        found = np.frombuffer(bytes(damaged), record.dtype)
        assert checksums(found) != found["checksum"]


def test_a_row_of_zeros_is_whole() -> None:
    """Else the holes of a sparse file would have to be written."""
    record = make_records(np.zeros((1, 25), np.uint8), np.zeros(1, np.int64))
    assert record.tobytes() == bytes(37)


def test_a_damaged_row_is_refused_when_it_is_read(tmp_path: Path) -> None:
    cache = written(tmp_path)
    row = int(next(iter(cache.ages()))[0][3])
    content = bytearray((tmp_path / "chains.bin").read_bytes())
    content[row * cache.bytes_per_row + 1] ^= 4
    (tmp_path / "chains.bin").write_bytes(content)
    again = mapped(tmp_path)
    others = torch.tensor([other for other in range(ROWS) if other != row])
    assert torch.equal(again.read(others)[0], in_memory(2).read(others)[0])
    for read in (again.read, again.age, again.forget):
        with pytest.raises(CheckpointError, match=rf"row {row} of .*chains\.bin is damaged: put back a copy"):
            read(torch.arange(ROWS))
    with pytest.raises(CheckpointError, match="is damaged"):
        _ = again.visited_rows


@pytest.mark.parametrize("size", [0, 1, 1000, -1])
def test_a_file_of_another_size_is_refused(size: int, tmp_path: Path) -> None:
    written(tmp_path)
    whole = (tmp_path / "chains.bin").read_bytes()
    (tmp_path / "chains.bin").write_bytes(whole[:size] if size >= 0 else whole + b"x")
    with pytest.raises(CheckpointError, match=r"chains\.bin is missing or damaged"):
        mapped(tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "chains.bin").unlink()
    with pytest.raises(CheckpointError, match=r"chains\.bin is missing or damaged"):
        mapped(tmp_path)


def test_chains_without_a_description_are_not_overwritten(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "chains.json").unlink()
    with pytest.raises(CheckpointError, match=r"chains\.json is missing, but"):
        mapped(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\x00", "{}", '{"checksum": ""}'])
def test_a_damaged_description_is_refused(text: str, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "chains.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError):
        mapped(tmp_path)


def test_every_flipped_bit_of_a_description_is_seen(tmp_path: Path) -> None:
    written(tmp_path)
    whole = (tmp_path / "chains.json").read_bytes().rstrip()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 7
        (tmp_path / "chains.json").write_bytes(damaged)
        with pytest.raises(CheckpointError):
            mapped(tmp_path)


def test_a_description_without_numbers_is_refused(tmp_path: Path) -> None:
    """As a stranger may have made it, checksum and all."""
    from jsa.chains.mapped import FORMAT, Manifest
    from jsa.chains.storage import description

    written(tmp_path)
    for manifest in (Manifest(generation="2"), Manifest(visits=-1), Manifest(visits=None)):
        manifest.write(tmp_path / "chains.json", description(SPACE, ROWS, FORMAT))
        with pytest.raises(CheckpointError, match="damaged"):
            mapped(tmp_path)


@pytest.mark.parametrize(
    ("latent", "rows"),
    [(SPACE, ROWS + 1), (LatentSpace.of(*reversed(SPACE.layers)), ROWS)],
    ids=["rows", "layers"],
)
def test_mapped_chains_of_something_else_are_refused(latent: LatentSpace, rows: int, tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(CheckpointError, match="another model, dataset or version"):
        ChainCache(latent, rows, tmp_path)
    assert same(mapped(tmp_path), in_memory(2))


def test_chains_of_an_earlier_format_are_refused(tmp_path: Path) -> None:
    description = {"format": 1, "rows": ROWS, "layers": [["bernoulli", 9, 2]]}
    (tmp_path / "chains.json").write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(CheckpointError, match="are for format 1, this run has 3"):
        mapped(tmp_path)


def test_mapped_chains_are_on_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="memory-mapped chains are on the CPU"):
        ChainCache(SPACE, ROWS, folder=tmp_path, device="cuda")


def journal(folder: Path) -> tuple[dict[str, torch.Tensor], Path]:
    """Chains with a checkpoint that is not committed: what it returned, and its journal."""
    cache = written(folder)
    write_steps(cache, 3)
    return cache.state_dict(), folder / "journal-3.safetensors"


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    match how:
        case "flipped":
            path.write_bytes(content[:-5] + bytes([content[-5] ^ 16]) + content[-4:])
        case "truncated":
            path.write_bytes(content[: len(content) // 2])
        case "missing":
            path.unlink()
        case "other generation":
            tensors, notes = load_tensors(path)
            save_tensors(path, tensors, {**notes, "generation": 2})
        case "other rows":
            tensors, notes = load_tensors(path)
            save_tensors(path, {**tensors, "rows": tensors["rows"] + ROWS}, notes)
        case "no rows":
            tensors, notes = load_tensors(path)
            save_tensors(path, {"records": tensors["records"]}, notes)
        case "other chains":
            tensors, notes = load_tensors(path)
            save_tensors(path, tensors, {**notes, "rows": ROWS + 1})


DAMAGES = ["flipped", "truncated", "missing", "other generation", "other rows", "no rows", "other chains"]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_journal_is_refused_where_it_is_needed(how: str, tmp_path: Path) -> None:
    kept, path = journal(tmp_path)
    before = (tmp_path / "chains.bin").read_bytes()
    damage(path, how)
    with pytest.raises(CheckpointError, match=r"journal-3\.safetensors|put back copies of both"):
        mapped(tmp_path).load_state_dict(kept)
    assert (tmp_path / "chains.bin").read_bytes() == before


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_journal_does_not_matter_where_it_was_not_committed(how: str, tmp_path: Path) -> None:
    kept, path = journal(tmp_path)
    damage(path, how)
    cache = mapped(tmp_path)
    cache.load_state_dict({"clock": torch.tensor([cache.visits]), "generation": kept["generation"] - 1})
    assert same(cache, in_memory(2))
    assert not path.exists()


@pytest.mark.parametrize(("generation", "visits"), [(1, 0), (4, 0), (2, 1), (3, 1)])
def test_a_state_file_of_another_moment_is_refused(generation: int, visits: int, tmp_path: Path) -> None:
    """The chains are of checkpoint 2, with a journal of checkpoint 3."""
    kept, _ = journal(tmp_path)
    cache = mapped(tmp_path)
    clock = (kept["clock"] if generation > 2 else torch.tensor([cache.visits])) + visits
    with pytest.raises(CheckpointError, match="put back copies of both that were made together"):
        cache.load_state_dict({"clock": clock, "generation": torch.tensor([generation])})
    assert same(mapped(tmp_path), in_memory(2))


def test_a_copied_folder_goes_on_by_itself(tmp_path: Path) -> None:
    written(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    cache = mapped(tmp_path / "two")
    write_steps(cache, 3)
    cache.commit()
    assert same(mapped(tmp_path / "two"), in_memory(3))
    assert same(mapped(tmp_path / "one"), in_memory(2))


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writes beyond this size fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_journal_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    cache = written(tmp_path)
    write_steps(cache, 3)
    before = contents(cache)
    with largest_file(100), pytest.raises(CheckpointError, match="could not be written"):
        cache.state_dict()
    assert {path.name for path in tmp_path.iterdir()} == {"chains.bin", "chains.json"}
    assert same(mapped(tmp_path), in_memory(2))
    assert all(torch.equal(one, other) for one, other in zip(contents(cache), before, strict=True))
    cache.commit()
    assert same(mapped(tmp_path), in_memory(3))


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
