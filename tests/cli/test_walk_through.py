"""What the page about tables shows is what its commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from jsa.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def without_figures(text: str) -> str:
    """Figures differ in their last digits from machine to machine."""
    return re.sub(r"[0-9]+(\.[0-9]+)?", "#", text)


def shown(text: str) -> list[tuple[list[str], list[str]]]:
    """The commands of a page, and the lines that they print."""
    commands: list[tuple[list[str], list[str]]] = []
    for line in re.findall(r"^    (.*)$", text, re.MULTILINE):
        if line.startswith("$ jsa "):
            commands.append((shlex.split(line)[2:], []))
        elif commands:
            commands[-1][1].append(line)
    return commands


def test_the_walk_through_is_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not PAGE.is_file():
        pytest.skip("the page is part of the repository, not of the distribution")
    _, walk_through = PAGE.read_text(encoding="utf-8").split("## From end to end")
    walk_through, _, _ = walk_through.partition("\n## ")
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", walk_through, re.DOTALL)
    exec(program, {})
    commands = shown(walk_through)
    assert len(commands) == 9
    for command, lines in commands:
        assert main(command) == 0
        printed = capsys.readouterr()
        found = without_figures(printed.out + printed.err)
        assert [line for line in lines if without_figures(line) not in found] == []
