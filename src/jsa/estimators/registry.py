"""Estimators by name and options."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

from jsa.errors import UsageError, unknown_name
from jsa.estimators import (
    ARM,
    ARMS,
    ARSM,
    JSA,
    NVIL,
    VIMCO,
    Concrete,
    DisARM,
    Enumeration,
    GumbelSoftmax,
    Hybrid,
    LeaveOneOut,
    MarkovianScoreClimbing,
    MuProp,
    RaoBlackwellJSA,
    Rebar,
    Reinforce,
    Relax,
    ReweightedWakeSleep,
    StraightThrough,
)
from jsa.estimators.base import Estimator
from jsa.latent import LatentSpace

ESTIMATORS: dict[str, type[Estimator]] = {
    "jsa": JSA,
    "jsa-rao-blackwell": RaoBlackwellJSA,
    "hybrid": Hybrid,
    "msc": MarkovianScoreClimbing,
    "rws": ReweightedWakeSleep,
    "reinforce": Reinforce,
    "rloo": LeaveOneOut,
    "nvil": NVIL,
    "vimco": VIMCO,
    "concrete": Concrete,
    "gumbel-softmax": GumbelSoftmax,
    "st-gumbel-softmax": StraightThrough,
    "rebar": Rebar,
    "relax": Relax,
    "muprop": MuProp,
    "arm": ARM,
    "disarm": DisARM,
    "arms": ARMS,
    "arsm": ARSM,
    "enumeration": Enumeration,
}
"""The methods by their names on the command line."""


def estimator_class(method: str | type[Estimator]) -> type[Estimator]:
    """Return the class of a method: that of its name, or the class itself."""
    if not isinstance(method, str):
        return method
    if method not in ESTIMATORS:
        raise unknown_name("estimator", method, ESTIMATORS)
    return ESTIMATORS[method]


def method_name(kind: type[Estimator]) -> str:
    """Return the name of a method: that on the command line, or for an own one where its class is.

    >>> method_name(JSA)
    'jsa'
    """
    names = (name for name, known in ESTIMATORS.items() if known is kind)
    return next(names, f"{kind.__module__}:{kind.__qualname__}")


_NOT_OPTIONS = frozenset(
    {"latent", "inputs", "rows", "stage", "switch_after", "cache_folder", "device", "kernel", "gradient"}
)
"""Arguments that follow from the model, the data and the machine, or that are given in Python only."""


def option_defaults(method: str | type[Estimator]) -> dict[str, object]:
    """Return the options of a method that a user can set, with their defaults.

    >>> option_defaults("rws"), option_defaults("arsm")
    ({'particles': 2, 'sleep': 0.0}, {})
    """
    taken = inspect.signature(estimator_class(method)).parameters.values()
    # A class without a constructor inherits one that accepts any argument.
    named = (one for one in taken if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY))
    return {one.name: one.default for one in named if one.name not in _NOT_OPTIONS}


def check_options(method: str | type[Estimator], options: Mapping[str, object]) -> None:
    """Refuse an option that a method does not have."""
    own = option_defaults(method)
    for option in options:
        if option not in own:
            advice = f"its options are {', '.join(sorted(own))}" if own else "leave it out"
            name = method if isinstance(method, str) else method_name(method)
            raise UsageError(f"the method {name} has no option {option}: {advice}")


def build_estimator(
    method: str | type[Estimator],
    latent: LatentSpace,
    *,
    inputs: int,
    rows: int,
    options: Mapping[str, object],
    cache_folder: Path | None = None,
    further: Mapping[str, object] | None = None,
) -> Estimator:
    """Build the estimator of a method for a model and its data.

    The constructor gets the arguments that it names, so a new method needs no change here.

    Args:
        method: Its name, or its class.
        latent: The latent space of the model.
        inputs: The width of an observation together with its context.
        rows: The number of training rows.
        options: The options that the user set; the others have the method's defaults.
        cache_folder: The folder of chains on disk; if None, chains are in memory.
        further: Arguments of its constructor that are no options of the command line.
    """
    check_options(method, options)
    kind = estimator_class(method)
    known = {
        "latent": latent,
        "inputs": inputs,
        "rows": rows,
        "cache_folder": cache_folder,
        **options,
        **(further or {}),
    }
    taken = inspect.signature(kind).parameters
    return kind(**{argument: value for argument, value in known.items() if argument in taken})
