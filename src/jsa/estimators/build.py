"""From a name and options to an estimator."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

import torch

from jsa.errors import UsageError, unknown_name
from jsa.estimators import ESTIMATORS
from jsa.estimators.base import Estimator
from jsa.latent import LatentSpace


def estimator_class(name: str) -> type[Estimator]:
    """The estimator of this name."""
    if name not in ESTIMATORS:
        raise unknown_name("estimator", name, ESTIMATORS)
    return ESTIMATORS[name]


def option_names(name: str) -> list[str]:
    """The options that a user can choose of the method of this name."""
    taken = inspect.signature(estimator_class(name)).parameters
    return sorted(set(taken) - {"latent", "inputs", "rows", "stage", "cache_folder", "device"})


def check_options(name: str, options: Mapping[str, object]) -> None:
    """Refuses an option that the method of this name does not take."""
    own = option_names(name)
    for option in options:
        if option not in own:
            known = ", ".join(own) if own else "none"
            raise UsageError(f"the method {name} takes no option {option}: its options are {known}")


def build_estimator(
    name: str,
    latent: LatentSpace,
    *,
    inputs: int,
    rows: int,
    options: Mapping[str, object],
    cache_folder: Path | None = None,
    device: str = "cpu",
) -> Estimator:
    """The estimator of this name, for a model and its data.

    A constructor is given what its arguments ask for by name, so that a new method needs no line here.

    Args:
        name: The name.
        latent: What a state is made of.
        inputs: The width of an observation together with its context.
        rows: The number of training rows.
        options: What the user chose; the method's own defaults stand for the rest.
        cache_folder: Where chains are memory-mapped, if they are to be.
        device: Where chains in memory are held.
    """
    check_options(name, options)
    kind = estimator_class(name)
    known = {
        "latent": latent,
        "inputs": inputs,
        "rows": rows,
        "cache_folder": cache_folder,
        "device": torch.device("cpu") if cache_folder else torch.device(device),
        **options,
    }
    taken = inspect.signature(kind).parameters
    return kind(**{argument: value for argument, value in known.items() if argument in taken})
