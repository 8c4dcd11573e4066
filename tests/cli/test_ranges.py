"""Every number on the command line has one range: outside it is refused in a sentence, and the help shows it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from typing import get_args, get_type_hints

import pytest

from helpers.terminal import Terminal, exit_code
from jsa.cli.commands.describe import DescribeArguments
from jsa.cli.commands.encode import EncodeArguments
from jsa.cli.commands.evaluate import EvaluateArguments
from jsa.cli.commands.impute import ImputeArguments
from jsa.cli.commands.reproduce import ReproduceArguments
from jsa.cli.commands.sample import SampleArguments
from jsa.cli.commands.train import TrainArguments
from jsa.cli.commands.variance import VarianceArguments
from jsa.errors import Range
from jsa.ranges import declared_ranges

COMMANDS: dict[str, type] = {
    "train": TrainArguments,
    "evaluate ..": EvaluateArguments,
    "sample ..": SampleArguments,
    "encode ..": EncodeArguments,
    "impute .. --data none.csv": ImputeArguments,
    "describe ..": DescribeArguments,
    "variance ..": VarianceArguments,
    "reproduce table1": ReproduceArguments,
}
MOST, LEAST = 2**63 - 1, -(2**63)


def numbers(kind: type) -> Iterator[tuple[str, Range | None]]:
    """The fields of a dataclass and of those in it that hold numbers, each with its range."""
    ranges = declared_ranges(kind)
    for name, hint in get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from numbers(hint) if isinstance(hint, type) else ()
        elif {int, float} & {hint, *get_args(hint)}:
            yield name, ranges.get(name)


def just_outside(limits: Range) -> list[str]:
    """Numbers that are next to the range, or none at all."""
    if limits.whole:
        least = LEAST if limits.least is None else limits.least
        most = MOST if limits.most is None else limits.most
        return [str(least - 1), str(most + 1)]
    low = limits.above if limits.least is None else math.nextafter(limits.least, -math.inf)
    high = limits.below if limits.most is None else math.nextafter(limits.most, math.inf)
    return [str(low), str(math.inf if high is None else high), "nan"]


CASES = [
    (command, name, limits)
    for command, kind in COMMANDS.items()
    for name, limits in numbers(kind)
    if limits is not None
]


@dataclasses.dataclass
class Without:
    """Arguments with a number whose range was forgotten."""

    rows: int | None = None


def test_every_number_has_a_range() -> None:
    assert dict(numbers(Without)) == {"rows": None}
    for kind in COMMANDS.values():
        assert None not in dict(numbers(kind)).values()


@pytest.mark.parametrize(("command", "name", "limits"), CASES)
def test_a_number_outside_is_refused(jsa: Terminal, command: str, name: str, limits: Range) -> None:
    flag = name.replace("_", "-")
    for wrong in just_outside(limits):
        sentence = jsa.refuses(command, f"--{flag} {wrong}")
        assert sentence.startswith(f"jsa: {flag} must be {limits}"), sentence


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_shows_the_ranges(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert exit_code(command, "--help") == 0
    shown = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    for name, limits in numbers(COMMANDS[command]):
        about = re.split(rf" --{name.replace('_', '-')} \S*(?:INT|FLOAT)", shown)[1]
        assert re.findall(r"\(default: .*?; (.*?)\)", about)[0] == str(limits), name
