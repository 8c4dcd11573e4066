"""The run-time check of the shapes that the annotations of ``jsa`` promise, in the tests only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args

from beartype import beartype
from jaxtyping import AbstractArray

Function = TypeVar("Function", bound=Callable[..., Any])


def check_shapes(function: Function) -> Function:
    """beartype, for the annotations that speak of arrays.

    The others are mypy's: ``Self`` and protocols that are not checkable at run time are sound annotations that
    beartype, which sees the methods one by one, has to refuse.
    """
    hints = function.__annotations__
    function.__annotations__ = {name: hint if _speaks_of_arrays(hint) else Any for name, hint in hints.items()}
    return beartype(function)


def _speaks_of_arrays(hint: object) -> bool:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return True
    return any(_speaks_of_arrays(part) for part in get_args(hint))
