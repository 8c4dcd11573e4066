"""The kills of ``make torture``: a few of them, and as a slow test all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.sizes import sizes
from jsa.io.fault_injection import crash_at, crash_point

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("flags", sizes(["--few"], []))
def test_killed_runs_end_as_if_they_had_been_left_in_peace(flags: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-m", "torture", *flags]
    finished = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = finished.stdout.splitlines()
    count = int(lines[0].split()[0].removeprefix("1/"))
    judged, table = lines[:count], lines[count + 1 :]
    assert [line.split()[0] for line in judged] == [f"{number}/{count}" for number in range(1, count + 1)]
    # On a busy machine a run may end before a moment that was chosen by how long another one took.
    early = [line for line in judged if line.endswith(" -> ended before")]
    assert all("at random" in line for line in early)
    assert all(line.endswith(" -> the same") for line in judged if line not in early)
    figures = [line.split()[-3:] for line in table]
    kills = [int(figure[0]) for figure in figures]
    assert kills == [2, 1, 1, 2] if flags else sum(kills) + len(early) >= count > 150 > len(early), finished.stdout
    assert all(figure[1:] == ["0", "0"] for figure in figures)


def test_a_place_is_deadly_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    killed: list[int] = []
    monkeypatch.setattr("jsa.io.fault_injection.os.kill", lambda process, number: killed.append(number))
    crash_point("here")
    crash_at("here:2")
    try:
        crash_point("elsewhere")
        crash_point("here")
        assert killed == []
        path = tmp_path / "file"
        path.write_bytes(b"twelve bytes")
        crash_point("here", halve=path)
        assert killed == [9]
        assert path.read_bytes() == b"twelve"
    finally:
        crash_at("")
