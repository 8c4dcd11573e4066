"""Whether the data of the experiments is there, before anything is begun."""

from __future__ import annotations

from collections.abc import Iterable

from jsa.data import load
from jsa.errors import DataError
from jsa.experiments.jobs import Job


def check_data(jobs: Iterable[Job]) -> None:
    """Loads each dataset once; the error for one that is missing says what can be taken in its place."""
    for name in dict.fromkeys(job.config.data for job in jobs):
        try:
            load(name)
        except DataError as error:
            if name != "mnist-salakhutdinov":
                raise
            raise DataError(
                f"{error}; or take the binarisation that comes with jsa for table1 or table3 by --data mnist-static, "
                "which marks the table"
            ) from error
