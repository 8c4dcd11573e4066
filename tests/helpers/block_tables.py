"""A small table in which there is something to learn, and sizes of a model that learns it in a moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SIZES = ["--model", "linear", "--latents", "4", "--epochs", "4", "--learning-rate", "0.02", "--threads", "1"]


def blocks(rows: int, seed: int, classes: int = 2) -> npt.NDArray[np.int64]:
    """Twelve columns in three blocks of equal values, a few of them disturbed."""
    random = np.random.default_rng(seed)
    values = np.repeat(random.integers(0, classes, (rows, 3)), 4, axis=1)
    disturbed = random.random(values.shape) < 0.05
    return np.where(disturbed, random.integers(0, classes, values.shape), values)


def strictly(path: Path) -> dict[str, Any]:
    """The content of a JSON file, where NaN and infinite numbers are none."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{path} holds {name}, which is no JSON")

    return json.loads(path.read_text(), parse_constant=refuse)
