"""Where runs are killed."""

from __future__ import annotations

from helpers.kills import GENERATION, WRITING
from torture.kills import Kill


def checkpoint_kills() -> list[Kill]:
    """Inside the writing of a checkpoint, in both stages, and of the files that follow it."""
    kind = "in a checkpoint"
    # A run of 30 steps that is kept after each has written a dozen states in stage I before the 13th, and some 20 more
    # in stage II.
    state = [Kill(kind, f"state.safetensors-{place}:{count}") for place in WRITING for count in (1, 13, 28)]
    weights = [
        Kill(kind, f"{name}.safetensors-{place}:2", seconds=30.0)
        for name in ("best", "last")
        for place in ("begin", "half", "flushed", "renamed")
    ]
    metrics = [Kill(kind, f"metrics-{place}:2", seconds=30.0) for place in ("begin", "half", "written")]
    return [*state, *weights, *metrics]


def generation_kills() -> list[Kill]:
    """While chains on disk are made permanent."""
    kills = [f"generation-{place}:{count}" for place in GENERATION for count in (1, 2, 13, 25)]
    return [Kill("in a generation", kill) for kill in kills]


def stage_two_kills() -> list[Kill]:
    """After steps of stage II, with a checkpoint at each step, some steps before, or none since the last validation."""
    kills = [
        Kill("in stage II", f"step-in-stage-two:{count}", seconds=(0.0, 0.02, 30.0)[count % 3])
        for count in range(1, 16)
    ]
    return [*kills, *(Kill("in stage II", f"validation:{count}", seconds=0.02) for count in (2, 3))]


def switch_kills() -> list[Kill]:
    """Around the switch from stage I to stage II, which is behind step 15 and epoch 3."""
    kind = "at the switch"
    places = ["switch:1", *(f"step:{count}" for count in (14, 15, 16, 17)), "epoch-end:3", "epoch-begin:3"]
    places += [f"metrics-{place}:3" for place in ("begin", "half", "written")]
    places += [f"last.safetensors-{place}:3" for place in ("half", "renamed")]
    return [Kill(kind, place, seconds=30.0 * (number % 2)) for number, place in enumerate(places)]


def final_kills() -> list[Kill]:
    """Behind the training: in the test and the pictures."""
    places = [f"{name}-{place}" for name in ("evaluation.json", "curves.png") for place in ("begin", "half", "renamed")]
    return [Kill("behind the training", f"{place}:1") for place in places]
