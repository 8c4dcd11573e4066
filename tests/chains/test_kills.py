"""Memory-mapped chains whose process is killed at any moment of a checkpoint: nothing is lost, nothing is different."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import jsa.chains
from helpers.killed_chains import GENERATIONS, Kill, expected, go_on, kill, reopened, same
from helpers.kills import JOURNAL, WRITING

# The places of the journal, and at which of their passings in the three checkpoints to kill.
COUNTS = [(1, 2, 3), (1, 3), (1, 3), (1, 2), (1, 5, 25, 40), (1, 2), (1, 2), (1, 3), (1, 2), (1, 2)]
PLACES = {f"journal-{place}": counts for place, counts in zip(JOURNAL, COUNTS, strict=True)}
# The places of the files that are replaced as a whole, and likewise.
FILES = {"journal-1.safetensors": [1], "journal-2.safetensors": [1], "chains.json": [2, 3], "state.safetensors": [1, 2]}
RIGHT = [
    *(Kill(place, count) for place, counts in PLACES.items() for count in counts),
    *(Kill(f"{name}-{step}", count) for name, counts in FILES.items() for step in WRITING for count in counts),
    *(Kill(place, counts[-1], with_state_file=False) for place, counts in PLACES.items()),
]
WRONG = [
    Kill("journal-begin", 2, "WritesAtOnce"),
    Kill("state.safetensors-half", 2, "WritesAtOnce"),
    Kill("state.safetensors-half", 2, "DoesNotWait"),
    Kill("journal-applying", 25, "RecordsTooEarly"),
]


@pytest.fixture(autouse=True)
def as_in_the_killed_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the folders of the killed processes are; torch is loaded once for all of them."""
    folder = tmp_path_factory.mktemp("killed")
    kill(folder, RIGHT + WRONG)
    return folder


def differences(folder: Path, with_state_file: bool) -> list[str]:
    """What a process that goes on finds other than one that was never killed."""
    found = []
    cache, done = reopened(folder)
    if not same(cache, expected(done)):
        found.append(f"other chains at checkpoint {done}")
    # Once more, as if the process had been killed again right after opening.
    cache, again = reopened(folder)
    if again != done or not same(cache, expected(done)):
        found.append("other chains when opened again")
    if not same(go_on(folder, with_state_file), expected(GENERATIONS)):
        found.append("other chains at the end")
    if not same(reopened(folder)[0], expected(GENERATIONS)):
        found.append("other chains when the end is opened again")
    # Without a state file, a journal that is done with stays until the next flush.
    if with_state_file and {path.name for path in (folder / "chains").iterdir()} != {"chains.bin", "chains.json"}:
        found.append("files that are left over")
    return found


def test_a_killed_checkpoint_is_the_old_one_or_the_new_one(killed: Path) -> None:
    counted = {each: reopened(killed / str(each))[1] for each in RIGHT}
    wrong = {str(each): differences(killed / str(each), each.with_state_file) for each in RIGHT}
    assert {name: found for name, found in wrong.items() if found} == {}
    # The power of that: the kills fell on both sides of the commit, which is when the state file is renamed.
    assert counted[Kill("journal-written", 3)] == 2
    assert counted[Kill("state.safetensors-flushed", 2)] == 1
    assert counted[Kill("state.safetensors-renamed", 2)] == 2
    assert counted[Kill("journal-committing", 3)] == 3


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_ways_are_found_out(wrong: Kill, killed: Path) -> None:
    """The process that goes on is the right one: the wrong one has done its damage."""
    try:
        found = differences(killed / str(wrong), with_state_file=True)
    except jsa.JsaError as error:
        found = [str(error)]
    assert found != []


def test_every_place_of_the_journal_is_tried() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(jsa.chains.__file__).parent.glob("*.py"))
    assert set(re.findall(r'crash_point\("([^"]+)"', source)) == set(PLACES)
