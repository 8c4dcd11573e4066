"""The states of torch's random generators, to be saved and restored."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from jsa.errors import CheckpointError


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that a training on this device draws from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the states of the generators of a device."""
    for name, present in random_states(device).items():
        if name not in states or states[name].shape != present.shape:
            raise CheckpointError(
                f"the random state of {name} is missing or that of another version of torch: continue with the version "
                "and the device that the run began with"
            )
    try:
        torch.set_rng_state(states["cpu"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"], device)
        elif device.type == "mps":
            torch.mps.set_rng_state(states["mps"])
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"the random state of the checkpoint is damaged ({error}): use another copy") from error
