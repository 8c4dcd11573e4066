"""Dataclasses to JSON and back, with every type checked and every mistake named."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from jsa.errors import UsageError, unknown_name

T = TypeVar("T")


def to_record(value: object) -> Any:
    """What JSON can hold of a configuration."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_record(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): to_record(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_record(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def from_record(kind: type[T], record: object, where: str = "") -> T:
    """The dataclass that a record describes; a field that is left out has its default.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int = 0
    ...     y: float = 0.0
    >>> from_record(Point, {"y": 2})
    Point(x=0, y=2.0)
    >>> from_record(Point, {"z": 2})
    Traceback (most recent call last):
    jsa.errors.UsageError: there is no field 'z': known are: x, y
    """
    if not isinstance(record, Mapping):
        raise UsageError(f"{where or 'the configuration'} must be an object with named fields, not {record!r}")
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in record:
        if name not in names:
            raise unknown_name("field", f"{where}.{name}" if where else str(name), names)
    values = {
        name: _value(hints[name], value, f"{where}.{name}" if where else str(name)) for name, value in record.items()
    }
    return kind(**values)


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a readable JSON file ({error})") from error


def _value(hint: Any, value: object, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return from_record(typing.cast("type[object]", hint), value, where)
    if origin is types.UnionType or origin is typing.Union:
        if value is None and type(None) in arguments:
            return None
        (rest,) = (argument for argument in arguments if argument is not type(None))
        return _value(rest, value, where)
    if origin is Literal:
        if value not in arguments:
            raise UsageError(f"{where} is one of {', '.join(map(str, arguments))}, not {value!r}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise UsageError(f"{where} must be a list, not {value!r}")
        return tuple(_value(arguments[0], item, where) for item in value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if hint in (int, str, bool) and type(value) is hint:
        return value
    raise UsageError(f"{where} must be of type {getattr(hint, '__name__', hint)}, not {value!r}")
