"""The measured steps extrapolated to the paper's Table 1: seconds per epoch, and hours per run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.report import Measurement

TABLE_1 = ("linear", "nonlinear", "two-layers")
STEPS = 1_000
"""50,000 rows in batches of 50."""
EPOCHS, VALIDATIONS, VALIDATION_ROWS = 1_000, 200, 10_000


def projections(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield a line for each measured method and architecture of Table 1, with one thread of this machine."""
    milliseconds_a_row = {
        measurement.setting: measurement.notes["ms a row"] for measurement in measurements if measurement.group == "nll"
    }
    for measurement in measurements:
        if measurement.group != "step" or measurement.setting not in TABLE_1:
            continue
        epoch = measurement.notes["ms"] * STEPS / 1e3
        validations = VALIDATIONS * VALIDATION_ROWS * milliseconds_a_row[measurement.setting] / 1e3
        yield (
            f"{measurement.setting:12} {measurement.name:20} {epoch:6.1f} s an epoch; {EPOCHS} epochs "
            f"{epoch * EPOCHS / 3600:5.2f} h, {VALIDATIONS} validations with 1,000 samples {validations / 3600:6.2f} h"
        )
