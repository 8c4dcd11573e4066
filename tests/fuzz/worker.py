"""Opens mutated files, in a process of its own whose memory is limited, and writes a line about each.

Every file is determined by its kind and its number alone, so that one that was found can be made again.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from jsa.errors import JsaError

from .kinds import KINDS, Kind, comparable, mutations_of

MEMORY = 256 << 20
"""Bytes that opening a file of a few kilobytes may take more than the program itself."""
SECONDS = 5
"""Seconds of the processor that opening a file may take."""
WAITING = 120
"""Seconds of any kind: only a file that is waited for without end takes so long, however busy the machine is."""


class TooSlow(BaseException):
    """Opening a file has taken too long. No handler of ordinary errors may take it for one."""


@contextmanager
def limited_time() -> Iterator[None]:
    def stop(signal_number: int, frame: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(WAITING)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def limit_memory() -> None:
    """From here on the process cannot take more than MEMORY bytes beside those that it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def outcome_of(kind: Kind, folder: Path, good: object) -> tuple[str, str]:
    """How opening ended: refused, equal, different, mistaken or crash, and what it said."""
    try:
        with limited_time():
            found = kind.open(folder)
    except JsaError as error:
        return ("crash", f"memory: {error}") if ran_out_of_memory(error) else ("refused", str(error))
    except TooSlow:
        return "crash", f"too slow: {traceback.format_exc()}"
    except BaseException:  # the point of this program: anything else is a fault
        return "crash", traceback.format_exc()
    if comparable(found) == comparable(good):
        return "equal", ""
    return ("mistaken" if kind.checksummed else "different"), ""


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether the limit was met: without one, the machine's memory would have been taken."""
    while error is not None:
        if isinstance(error, MemoryError) or "allocate" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def mutate(kind: Kind, good: dict[str, bytes], number: int) -> tuple[str, bytes]:
    """The file that is changed, and its new content."""
    rng = random.Random(f"{kind.name} {number}")
    name = rng.choice(sorted(good))
    content = rng.choice(mutations_of(kind))(good[name], rng)
    return name, content


def main(arguments: list[str]) -> None:
    """Opens the files ``first`` ... ``last - 1`` of all kinds, kind by kind; says ``start`` before each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    given = parser.parse_args(arguments)
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    prepared = []
    with tempfile.TemporaryDirectory() as root:
        for number, kind in enumerate(KINDS):
            folder = Path(root) / str(number)
            folder.mkdir()
            kind.make(folder)
            good = files_in(folder)
            content = kind.open(folder)
            prepared.append((folder, good, content))
        limit_memory()
        for place in range(given.kind, len(KINDS)):
            kind, (folder, good, content) = KINDS[place], prepared[place]
            for number in range(given.first if place == given.kind else 0, given.last):
                name, changed = mutate(kind, good, number)
                put_files(folder, {**good, name: changed})
                say(place, number, "start", "")
                say(place, number, *outcome_of(kind, folder, content))


def files_in(folder: Path) -> dict[str, bytes]:
    """The content of every file of a folder, by its path there."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put_files(folder: Path, files: dict[str, bytes]) -> None:
    """Makes these the files of a folder, whatever opening it has left there."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def say(place: int, number: int, outcome: str, detail: str) -> None:
    sys.stdout.write(json.dumps([place, number, outcome, detail]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
