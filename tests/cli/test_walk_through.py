"""What the page about tables shows is what its commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.terminal import Terminal

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def without_figures(text: str) -> str:
    """Figures differ in their last digits from machine to machine."""
    return re.sub(r"[0-9]+(\.[0-9]+)?", "#", text)


def shown(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a page, and the lines that they print."""
    commands: list[tuple[str, list[str]]] = []
    for line in re.findall(r"^    (.*)$", text, re.MULTILINE):
        if line.startswith("$ jsa "):
            commands.append((line.removeprefix("$ jsa "), []))
        elif commands:
            commands[-1][1].append(line)
    return commands


def test_the_walk_through_is_what_happens(here: Path, jsa: Terminal) -> None:
    if not PAGE.is_file():
        pytest.skip("the page is part of the repository, not of the distribution")
    _, walk_through = PAGE.read_text(encoding="utf-8").split("## A complete example")
    walk_through, _, _ = walk_through.partition("\n## ")
    (program,) = re.findall(r"```python\n(.*?)```", walk_through, re.DOTALL)
    exec(program, {})
    commands = shown(walk_through)
    assert len(commands) == 9
    for command, lines in commands:
        printed = jsa(command)
        found = without_figures(printed.out + printed.err)
        assert [line for line in lines if without_figures(line) not in found] == []
