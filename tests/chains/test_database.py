"""Chains on disk: what a file brings that memory does not have, and what a full disk does."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.damage import Damage, flipped, holding, kept, largest_file, untouched
from helpers.killed_chains import ROWS, SPACE, contents, expected, same, write_steps
from helpers.latent_spaces import random_states
from jsa import ChainCache, LatentSpace, Layer
from jsa.chains.database import FILE_NAME, DatabaseStorage
from jsa.chains.records import checksums, make_records
from jsa.errors import CheckpointError, UsageError

OTHER_MOMENT = "put back copies of both that were made together"
DAMAGED = "are damaged .*: put back a copy of the file and of the checkpoint that belongs to it"


def on_disk(folder: Path, rows: int = ROWS) -> ChainCache:
    return ChainCache(SPACE, rows, folder)


def written(folder: Path) -> ChainCache:
    """Chains that were made permanent twice."""
    cache = on_disk(folder)
    for generation in (1, 2):
        write_steps(cache, generation)
        cache.commit()
    return cache


def stands(folder: Path, generation: int, saved: dict[str, Tensor] | None = None) -> bool:
    """Whether chains that are opened again, and go back to a state file, stand at a generation."""
    cache = on_disk(folder)
    if saved is not None:
        cache.load_state_dict(saved)
    return same(cache, expected(generation))


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@contextmanager
def queried(folder: Path) -> Iterator[sqlite3.Connection]:
    """What a stranger may do to the file."""
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as connection:
        yield connection


def altered(*statements: str) -> Damage:
    """Tables in which something is changed."""

    def alter(path: Path) -> None:
        with queried(path.parent) as connection:
            for statement in statements:
                connection.execute(statement)

    return alter


def test_permanent_chains_are_there_when_opened_again(tmp_path: Path) -> None:
    written(tmp_path)
    again = on_disk(tmp_path)
    assert same(again, expected(2))
    write_steps(again, 3)
    assert same(again, expected(3))


def test_only_a_generation_touches_the_file(tmp_path: Path) -> None:
    cache = written(tmp_path)
    with untouched(tmp_path):
        write_steps(cache, 3)
    before = (tmp_path / FILE_NAME).read_bytes()
    cache.state_dict()
    assert (tmp_path / FILE_NAME).read_bytes() != before
    del cache
    assert stands(tmp_path, 3)


def test_what_did_not_change_is_no_new_generation(tmp_path: Path) -> None:
    cache = written(tmp_path)
    saved = cache.state_dict()
    with untouched(tmp_path):
        cache.commit()
        assert equal(cache.state_dict(), saved)
        cache.load_state_dict(saved)
        assert equal(cache.state_dict(), saved)


@pytest.mark.parametrize("loaded", [2, 3, 4])
def test_two_whole_generations_can_be_undone(loaded: int, tmp_path: Path) -> None:
    """As when two state files in a row never got in place, and once more when the process that went back is killed."""
    cache = written(tmp_path)
    checkpoints = {2: cache.state_dict()}
    for generation in (3, 4):
        write_steps(cache, generation)
        checkpoints[generation] = cache.state_dict()
    assert same(cache, expected(4))
    del cache
    for _ in range(3):
        assert stands(tmp_path, loaded, checkpoints[loaded])
        again = on_disk(tmp_path)
        again.load_state_dict(checkpoints[loaded])
        write_steps(again, loaded + 1)
        again.commit()
        assert same(again, expected(loaded + 1))
        del again
        assert stands(tmp_path, loaded + 1)


def write_everything(cache: ChainCache, seed: int) -> Tensor:
    h = random_states(SPACE, (ROWS,), seed)
    cache.write(torch.arange(ROWS), h, torch.ones(ROWS, dtype=torch.bool))
    return h


def test_a_state_file_that_is_too_old_is_refused(tmp_path: Path) -> None:
    cache, checkpoints, states = on_disk(tmp_path), [], []
    for seed in range(4):
        states.append(write_everything(cache, seed))
        checkpoints.append(cache.state_dict())
    with untouched(tmp_path), pytest.raises(CheckpointError, match=rf"checkpoint 1 .*the last is 4\): {OTHER_MOMENT}"):
        cache.load_state_dict(checkpoints[0])
    cache.load_state_dict(checkpoints[1])
    assert torch.equal(cache.read(torch.arange(ROWS))[0], states[1])


def test_small_generations_can_be_undone_further(tmp_path: Path) -> None:
    """The file holds as many old records as two generations that change every row have."""
    cache = written(tmp_path)
    first, row = cache.state_dict(), torch.tensor([5])
    before = contents(cache)
    for seed in range(ROWS):
        cache.write(row, random_states(SPACE, (1,), seed), torch.tensor([True]))
        cache.commit()
    cache.load_state_dict(first)
    assert all(map(torch.equal, contents(cache), before))
    for seed in range(5):
        write_everything(cache, seed)
        cache.commit()
    del cache
    with queried(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM undo").fetchone() == (2 * ROWS,)


@pytest.mark.parametrize("change", [{"clock": 1}, {"generation": -1}, {"generation": 1}, {"identity": 1}])
def test_a_state_file_of_another_moment_is_refused(change: dict[str, int], tmp_path: Path) -> None:
    cache = written(tmp_path)
    saved = cache.state_dict()
    wrong = {**saved, **{name: saved[name] + number for name, number in change.items()}}
    with pytest.raises(CheckpointError, match=OTHER_MOMENT):
        cache.load_state_dict(wrong)
    assert same(cache, expected(2))


def test_a_state_file_of_another_file_is_refused(tmp_path: Path) -> None:
    """Even where both have the same history, and where a copy went on by itself."""
    first, second = written(tmp_path / "one"), written(tmp_path / "two")
    with pytest.raises(CheckpointError, match=OTHER_MOMENT):
        first.load_state_dict(second.state_dict())
    del second
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    copied = on_disk(tmp_path / "copy")
    for cache in (first, copied):
        write_steps(cache, 3)
        cache.commit()
    with pytest.raises(CheckpointError, match=OTHER_MOMENT):
        copied.load_state_dict(first.state_dict())


def test_a_generation_that_was_undone_is_gone(tmp_path: Path) -> None:
    cache = written(tmp_path)
    earlier = cache.state_dict()
    write_steps(cache, 3)
    given_up = cache.state_dict()
    cache.load_state_dict(earlier)
    # Until something takes its place.
    cache.load_state_dict(given_up)
    assert same(cache, expected(3))
    cache.load_state_dict(earlier)
    write_steps(cache, 4)
    cache.commit()
    with pytest.raises(CheckpointError, match=OTHER_MOMENT):
        cache.load_state_dict(given_up)


def test_a_file_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    first = written(tmp_path)
    code = (
        "import sys; from pathlib import Path; from helpers.killed_chains import *\n"
        "try: ChainCache(SPACE, ROWS, Path(sys.argv[1]))\n"
        "except jsa.JsaError as error: sys.exit(str(error))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    other = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert "chains.sqlite are in use by something else: end it" in other.stderr
    with pytest.raises(CheckpointError, match="are in use by something else"):
        DatabaseStorage(tmp_path / FILE_NAME, SPACE, ROWS, read_only=True)
    write_steps(first, 3)
    first.commit()
    del first
    assert stands(tmp_path, 3)


def test_the_later_of_two_caches_has_the_file(tmp_path: Path) -> None:
    """The earlier one may belong to an interrupted training that something keeps in memory."""
    first = written(tmp_path)
    saved = first.state_dict()
    write_steps(first, 4)
    second = on_disk(tmp_path)
    write_steps(second, 3)
    opened_again = r"chains\.sqlite were opened again since: use the later cache"
    for use in (first.commit, first.state_dict, lambda: first.load_state_dict(saved), lambda: contents(first)):
        with pytest.raises(CheckpointError, match=opened_again):
            use()
    second.commit()
    assert stands(tmp_path, 3)


def test_each_process_of_several_has_a_file(tmp_path: Path) -> None:
    storages = [DatabaseStorage(tmp_path / f"chains-rank{rank}.sqlite", SPACE, ROWS) for rank in range(2)]
    rows, times = torch.tensor([3]), torch.tensor([1])
    for rank, storage in enumerate(storages):
        storage.write(rows, torch.full((1, SPACE.packed_bytes), rank, dtype=torch.uint8), times)
        storage.commit()
    assert [int(storage.read(rows)[0][0, 0]) for storage in storages] == [0, 1]


def test_reading_alone_changes_nothing(tmp_path: Path) -> None:
    cache = written(tmp_path)
    saved = cache.state_dict()
    write_steps(cache, 3)
    cache.commit()
    del cache
    everything = torch.arange(ROWS)
    with untouched(tmp_path):
        storage = DatabaseStorage(tmp_path / FILE_NAME, SPACE, ROWS, read_only=True)
        storage.load_state_dict(saved)
        states, _ = storage.read(everything)
        storage.write(everything, states, everything)
        with pytest.raises(CheckpointError, match=r"cannot be opened .*readonly"):
            storage.commit()
    assert torch.equal(SPACE.unpack(states), expected(2).read(everything)[0])


def test_reading_alone_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there are no chains at"):
        DatabaseStorage(tmp_path / FILE_NAME, SPACE, ROWS, read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_gone_is_missed_at_the_next_checkpoint(tmp_path: Path) -> None:
    cache = written(tmp_path / "chains")
    (tmp_path / "chains").rename(tmp_path / "elsewhere")
    write_steps(cache, 3)
    gone = r"chains\.sqlite is gone: put back its folder and resume"
    with pytest.raises(CheckpointError, match=gone):
        cache.commit()
    shutil.copytree(tmp_path / "elsewhere", tmp_path / "chains")
    with pytest.raises(CheckpointError, match=gone):
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


def test_every_flipped_bit_of_a_record_is_seen() -> None:
    rows = np.array([70_001])
    record = make_records(rows, torch.randint(256, (1, 25), dtype=torch.uint8).numpy(), np.array([123_456_789]))
    for bit in range(8 * record.nbytes):
        found = record.copy()
        found.view(np.uint8)[bit // 8] ^= 1 << bit % 8
        assert checksums(rows, found) != found["checksum"]
    for bit in range(40):
        assert checksums(rows ^ (1 << bit), record) != record["checksum"]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE chains SET record = (SELECT record FROM chains WHERE row = {other}) WHERE row = {row}",
        "UPDATE chains SET record = substr(record, 2) WHERE row = {row}",
        "UPDATE chains SET record = 7 WHERE row = {row}",
        "UPDATE chains SET record = 'text' WHERE row = {row}",
        "DELETE FROM chains WHERE row = {row}",
        "flipped",
    ],
)
def test_a_damaged_row_is_refused_when_it_is_read(damage: str, tmp_path: Path) -> None:
    cache = written(tmp_path)
    other, row = sorted(ages(cache))[3:5]
    record = cache._storage._stored([row])[0]  # type: ignore[attr-defined]
    del cache
    path = tmp_path / FILE_NAME
    if damage == "flipped":
        # In the one place that is not an old record.
        places = [at for at in range(path.stat().st_size) if path.read_bytes().startswith(record, at)]
        for place in places:
            flipped(place + 1, bit=2)(path)
    else:
        altered(damage.format(row=row, other=other))(path)
    again = on_disk(tmp_path)
    others = torch.tensor([each for each in range(ROWS) if each != row])
    assert torch.equal(again.read(others)[0], expected(2).read(others)[0])
    for read in (again.read, again.age, again.forget):
        with pytest.raises(CheckpointError, match=rf"chains\.sqlite {DAMAGED[:11]} \(row {row} does not match"):
            read(torch.arange(ROWS))
    with pytest.raises(CheckpointError, match=f"row {row} does not match"):
        _ = again.visited_rows


EARLIER = json.dumps({"format": 3, "rows": ROWS, "layers": [["bernoulli", 9, 2]]})
RENAMED = ("DROP TABLE belongs_to", "ALTER TABLE other RENAME TO belongs_to")
TEXTS = ("{", "[]", "null", "[" * 100_000, "{}", EARLIER)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        *((kept(count), DAMAGED) for count in (1, 100, 1000, 5000, -4096)),
        *((holding(content), DAMAGED) for content in ("text", bytes(8192))),
        *((altered(f"DROP TABLE {name}"), DAMAGED) for name in ("belongs_to", "generations")),
        *(
            (altered(f"UPDATE belongs_to SET description = '{text}'"), f"{DAMAGED}|another model, dataset or version")
            for text in TEXTS
        ),
        (altered("DELETE FROM belongs_to"), DAMAGED),
        (altered("CREATE TABLE other (description)", "INSERT INTO other VALUES (NULL)", *RENAMED), DAMAGED),
        (altered("DELETE FROM generations"), DAMAGED),
        *(
            (altered(f"UPDATE generations SET {column} = {value}"), DAMAGED)
            for column in ("clock", "changes", "identity", "seal")
            for value in (-1, "clock + 1", "'2'", "NULL")
        ),
    ],
)
def test_a_damaged_file_is_refused(damage: Damage, sentence: str, tmp_path: Path) -> None:
    written(tmp_path)
    damage(tmp_path / FILE_NAME)
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(CheckpointError, match=sentence):
        on_disk(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM undo WHERE change = (SELECT max(change) FROM undo)",
        "UPDATE undo SET record = (SELECT record FROM undo ORDER BY change DESC LIMIT 1)",
        "UPDATE undo SET row = row + 1",
    ],
)
def test_damaged_old_records_are_refused_where_they_are_needed(damage: str, tmp_path: Path) -> None:
    cache = written(tmp_path)
    earlier = cache.state_dict()
    write_steps(cache, 3)
    last = cache.state_dict()
    del cache
    altered(damage)(tmp_path / FILE_NAME)
    assert stands(tmp_path, 3, last)
    with pytest.raises(CheckpointError, match=DAMAGED):
        stands(tmp_path, 2, earlier)


@pytest.mark.parametrize("table", ["chains", "undo"])
def test_a_missing_table_is_refused_where_it_is_needed(table: str, tmp_path: Path) -> None:
    written(tmp_path)
    altered(f"DROP TABLE {table}")(tmp_path / FILE_NAME)
    cache = on_disk(tmp_path)

    def go_on() -> None:
        write_steps(cache, 3)
        cache.commit()

    with pytest.raises(CheckpointError, match=f"no such table: {table}"):
        go_on()


def test_chains_of_an_earlier_version_are_refused(tmp_path: Path) -> None:
    for name in ("chains.bin", "chains.json"):
        (tmp_path / name).write_bytes(b"")
        with untouched(tmp_path), pytest.raises(CheckpointError, match="chains of an earlier version of jsa"):
            on_disk(tmp_path)
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    ("latent", "rows"),
    [(SPACE, ROWS + 1), (LatentSpace.of(*reversed(SPACE.layers)), ROWS)],
    ids=["rows", "layers"],
)
def test_chains_of_something_else_are_refused(latent: LatentSpace, rows: int, tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(CheckpointError, match="another model, dataset or version"):
        ChainCache(latent, rows, tmp_path)
    assert stands(tmp_path, 2)


def test_chains_on_disk_are_on_the_cpu(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="chains on disk are read on the CPU"):
        ChainCache(SPACE, ROWS, folder=tmp_path, device="cuda")


def test_a_generation_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    cache = ChainCache(SPACE, 20_000, tmp_path)
    rows = torch.randperm(20_000)[:10_000]
    cache.write(rows[:100], random_states(SPACE, (100,), 0), torch.ones(100, dtype=torch.bool))
    saved = cache.state_dict()
    earlier = contents(cache)
    cache.write(rows, random_states(SPACE, (10_000,), 1), torch.ones(10_000, dtype=torch.bool))
    before = contents(cache)
    size = (tmp_path / FILE_NAME).stat().st_size
    for _ in range(2):
        with (
            largest_file(size + 4096),
            pytest.raises(CheckpointError, match="make room on the disk and resume, no checkpoint is lost"),
        ):
            cache.commit()
        assert all(map(torch.equal, contents(cache), before))
    copied = tmp_path / "copy"
    shutil.copytree(tmp_path, copied)
    again = ChainCache(SPACE, 20_000, copied)
    again.load_state_dict(saved)
    assert all(map(torch.equal, contents(again), earlier))
    cache.commit()
    assert all(map(torch.equal, contents(cache), before))


def test_a_cache_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    with largest_file(1000), pytest.raises(CheckpointError, match="make room on the disk"):
        on_disk(tmp_path, rows=100_000)
    assert on_disk(tmp_path, rows=100_000).visited_rows == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    mounted = tmp_path / "disk"
    mounted.mkdir()
    found = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mounted)], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"no disk can be mounted: {found.stderr}")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)


def test_a_disk_without_room_is_refused_at_once(small_disk: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"has 2\.1 MB for the chains, which may take [0-9.]+ MB: make room on it"
    ):
        on_disk(small_disk, rows=20_000)


def fill(storage: DatabaseStorage) -> None:
    """Generations that change every row, in any order."""
    rows = storage._rows
    for generation in range(1, 6):
        states = torch.full((rows, storage.bytes_per_row - 12), generation, dtype=torch.uint8)
        storage.write(torch.randperm(rows), states, torch.full((rows,), generation))
        storage.commit()


@pytest.mark.parametrize("bits", [1, 200, 5_000, 40_000])
def test_what_is_asked_for_is_enough(bits: int, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the largest number of rows that this disk accepts, generations that change every row never fill it."""
    latent = LatentSpace.of(Layer("bernoulli", bits))

    def made(rows: int) -> DatabaseStorage:
        return DatabaseStorage(small_disk / FILE_NAME, latent, rows)

    rows = 1
    while True:
        try:
            made(2 * rows)
        except CheckpointError:
            break
        rows *= 2
        (small_disk / FILE_NAME).unlink()
    (small_disk / FILE_NAME).unlink()
    fill(made(rows))
    (small_disk / FILE_NAME).unlink()
    # The power of that: six times as many rows fill it.
    monkeypatch.setattr(DatabaseStorage, "_check_room", lambda storage: None)
    with pytest.raises(CheckpointError, match="make room on the disk and resume"):
        fill(made(6 * rows))


def test_a_disk_that_fills_up_stops_and_goes_on(small_disk: Path) -> None:
    """Everything is taken by another program, after the room was there."""
    cache = on_disk(small_disk, rows=3_000)
    rows = torch.arange(3_000)
    cache.write(rows, random_states(SPACE, (3_000,), 0), torch.ones(3_000, dtype=torch.bool))
    saved = cache.state_dict()
    before = contents(cache)
    hog = small_disk / "hog"
    with hog.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    cache.write(rows, random_states(SPACE, (3_000,), 1), torch.ones(3_000, dtype=torch.bool))
    with pytest.raises(CheckpointError, match=r"database or disk is full.*resume, no checkpoint is lost"):
        cache.commit()
    after = contents(cache)
    del cache
    with pytest.raises(CheckpointError, match="make room on it"):
        on_disk(small_disk, rows=3_000)
    hog.unlink()
    again = on_disk(small_disk, rows=3_000)
    again.load_state_dict(saved)
    assert all(map(torch.equal, contents(again), before))
    again.write(rows, random_states(SPACE, (3_000,), 1), torch.ones(3_000, dtype=torch.bool))
    again.commit()
    assert all(map(torch.equal, contents(again), after))
