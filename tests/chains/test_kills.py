"""Chains on disk whose process is killed at any moment of a checkpoint: nothing is lost, nothing is different."""

from __future__ import annotations

import functools
import random
import re
import signal
import sys
from pathlib import Path

import pytest

import jsa.chains
from helpers.killed_chains import GENERATIONS, Kill, expected, go_on, kill, reopened, same
from helpers.kills import GENERATION, WRITING, forked
from helpers.sizes import sizes
from jsa.chains.database import FILE_NAME

# The places of a checkpoint, and at which of their passings in the three checkpoints to kill.
PLACES = {f"generation-{place}": (1, 2, 3) for place in GENERATION}
STATE_FILE = [f"state.safetensors-{step}" for step in WRITING]
RIGHT = [
    *(Kill(place, count) for place, counts in PLACES.items() for count in counts),
    *(Kill(place, count) for place in STATE_FILE for count in (1, 2, 3)),
    *(Kill(place, counts[-1], with_state_file=False) for place, counts in PLACES.items()),
]
WRONG = [
    Kill("generation-begin", 2, "WritesAtOnce"),
    Kill("state.safetensors-half", 2, "WritesAtOnce"),
    Kill("state.safetensors-half", 2, "KeepsNothing"),
    Kill("generation-written", 2, "NotAtOnce"),
]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the folders of the killed processes are; torch is loaded once for all of them."""
    folder = tmp_path_factory.mktemp("killed")
    kill(folder, RIGHT + WRONG)
    return folder


def differences(folder: Path, with_state_file: bool) -> list[str]:
    """What a process that goes on finds other than one that was never killed."""
    found = []
    # Twice, as if the process had been killed again right after opening.
    for when in ("", " when opened again"):
        cache, done = reopened(folder)
        if not same(cache, expected(done)):
            found.append(f"other chains at checkpoint {done}{when}")
        del cache
    if not same(go_on(folder, with_state_file), expected(GENERATIONS)):
        found.append("other chains at the end")
    if not same(reopened(folder)[0], expected(GENERATIONS)):
        found.append("other chains when the end is opened again")
    left = {path.name for path in (folder / "chains").iterdir() if path.stat().st_size}
    return [*found, *sorted(left - {FILE_NAME})]


def test_a_killed_checkpoint_is_the_old_one_or_the_new_one(killed: Path) -> None:
    counted = {each: reopened(killed / str(each))[1] for each in RIGHT}
    wrong = {str(each): differences(killed / str(each), each.with_state_file) for each in RIGHT}
    assert {name: found for name, found in wrong.items() if found} == {}
    # The power of that: the kills fell on both sides of the checkpoint, which is when the state file is renamed.
    assert counted[Kill("generation-made", 3)] == 2
    assert counted[Kill("state.safetensors-flushed", 2)] == 1
    assert counted[Kill("state.safetensors-renamed", 2)] == 2
    # Or, without a state file, when the generation is made.
    assert counted[Kill("generation-written", 3, with_state_file=False)] == 2
    assert counted[Kill("generation-made", 3, with_state_file=False)] == 3


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_ways_are_found_out(wrong: Kill, killed: Path) -> None:
    """The process that goes on is the right one: the wrong one has done its damage."""
    try:
        found = differences(killed / str(wrong), with_state_file=True)
    except jsa.JsaError as error:
        found = [str(error)]
    assert found != []


@pytest.mark.parametrize("with_state_file", [True, False])
@pytest.mark.parametrize("kills", sizes(6, 40))
def test_processes_that_are_killed_at_any_moment_go_on(tmp_path: Path, kills: int, with_state_file: bool) -> None:
    endless = functools.partial(go_on, tmp_path, with_state_file, sys.maxsize)
    moments = random.Random(0)
    done = 0
    while kills or not done:
        assert forked(endless, after=moments.uniform(0, 0.3)) == -signal.SIGKILL
        cache, found = reopened(tmp_path)
        assert found >= done
        assert same(cache, expected(found))
        del cache
        done, kills = found, max(kills - 1, 0)


def test_every_place_of_a_checkpoint_is_tried() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(jsa.chains.__file__).parent.glob("*.py"))
    assert set(re.findall(r'crash_point\("([^"]+)"', source)) == set(PLACES)
