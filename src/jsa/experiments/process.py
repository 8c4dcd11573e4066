"""The process of one job: it beats while it works, and stops with a checkpoint when the other end asks it to.

Its standard input is a socket. The other end hears a heartbeat every second, and closes the socket to stop the process;
the system does so if the command at the other end is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from jsa.errors import guarded
from jsa.experiments.jobs import Job, Places
from jsa.io.json_records import from_record

INPUT = 0
"""Not sys.stdin: a waiting thread would hold its lock when the interpreter ends."""


def keep_in_touch() -> None:
    """Begin to beat, and to listen for the end."""
    for endless in (_beat, _end_with_input):
        threading.Thread(target=endless, daemon=True).start()


def _beat() -> None:
    # A thread beats during a long step too. It is silent in a process that was stopped, as all threads are.
    with suppress(OSError):
        while True:
            os.write(INPUT, b".")
            time.sleep(1)


def _end_with_input() -> None:
    # One that is closed before all beats were heard is an error.
    with suppress(ConnectionError):
        while os.read(INPUT, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def main(arguments: Sequence[str]) -> int:
    """Work on the job in the argument."""

    def action() -> int:
        record = json.loads(arguments[0])
        keep_in_touch()
        from jsa.experiments.worker import published_methods, work  # after the first beat, for torch takes a while

        with published_methods():
            work(from_record(Job, record["job"]), Places(Path(record["runs"]), Path(record["results"])))
        return 0

    return guarded(action)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
