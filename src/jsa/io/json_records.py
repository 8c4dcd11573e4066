"""Dataclasses to JSON and back, with every type checked and every error naming its field."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import reprlib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from jsa.errors import UsageError, unknown_name
from jsa.io.atomic_files import write_text
from jsa.io.regular_files import open_regular

T = TypeVar("T")

LARGEST_FILE = 1 << 20
"""The largest JSON file that is read, in bytes. A configuration has a few thousand."""


def to_record(value: object) -> Any:
    """Convert a value to what JSON can hold: dataclasses to objects, tuples to lists, paths to text."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_record(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): to_record(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_record(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def write_json(path: Path, value: object) -> None:
    """Write a value as indented JSON, whole or not at all."""
    write_text(path, json.dumps(to_record(value), indent=2, allow_nan=False) + "\n")


def from_record(kind: type[T], record: object, where: str = "", *, complete: bool = False) -> T:
    """Build a dataclass from a JSON object.

    Args:
        kind: The dataclass.
        record: The parsed JSON.
        where: The path of field names to this record, for errors.
        complete: Whether a missing field is an error; otherwise it gets its default.

    Example:
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
        raise UsageError(
            f"{where or 'the configuration'} must be an object with named fields, not {reprlib.repr(record)}"
        )
    # mypy does not know that every class can be hashed.
    hints = _hints(kind)  # type: ignore[arg-type]
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    names = [field.name for field in fields]
    inner = f"{where}." if where else ""
    for name in record:
        if name not in names:
            raise unknown_name("field", f"{inner}{_shortened(name)}", names)
    for field in fields:
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.name not in record and (complete or required):
            raise UsageError(f"the field {inner}{field.name} is missing: add it")
    return kind(**{name: _value(hints[name], value, f"{inner}{name}", complete) for name, value in record.items()})


def read_record(kind: type[T], path: Path, *, complete: bool = False) -> T:
    """Read a dataclass from a JSON file; every error names the file and the field.

    Args:
        kind: The dataclass.
        path: The file.
        complete: Whether a missing field is an error, as in files that jsa wrote; otherwise it gets its default.
    """
    record = read_json(path)
    try:
        return from_record(kind, record, complete=complete)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def read_json(path: Path) -> Any:
    """Parse a JSON file from an untrusted source."""
    try:
        with open_regular(path) as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}: check the path") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > LARGEST_FILE:
        raise UsageError(
            f"{path} is larger than {LARGEST_FILE} bytes, so it is not a configuration: choose another file"
        )
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_without_repetition)
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply to be a configuration: choose another file") from None
    except ValueError as error:
        raise UsageError(f"{path} is not valid JSON ({error}): fix it or choose another file") from error


def read_number_lines(path: Path) -> Iterator[dict[str, float]]:
    """Yield the lines of a file, each a JSON object of numbers, except a last one that a crash left incomplete."""
    try:
        with open_regular(path) as file:
            number = 0
            while (line := file.readline(LARGEST_FILE)).endswith(b"\n"):
                number += 1
                yield _numbers(line, f"{path}: line {number}")
            if len(line) == LARGEST_FILE:
                raise UsageError(f"{path}: line {number + 1} has more than {LARGEST_FILE} bytes: remove it")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _numbers(line: bytes, where: str) -> dict[str, float]:
    try:
        record = json.loads(line.decode("utf-8"), object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON ({error}): fix or remove it") from error
    if not isinstance(record, dict) or not all(type(value) in (int, float) for value in record.values()):
        raise UsageError(f"{where} is not an object of numbers: fix or remove it")
    return record


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build a JSON object; a repeated field is an error, because it is ambiguous."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field '{_shortened(twice)}' appears twice")
    return found


@functools.cache
def _hints(kind: type[object]) -> dict[str, Any]:
    """Return the types of the fields, cached: a curve has thousands of records, and resolving hints is slow."""
    return typing.get_type_hints(kind)


def _value(hint: Any, value: object, where: str, complete: bool) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return from_record(typing.cast("type[object]", hint), value, where, complete=complete)
    if origin is types.UnionType or origin is typing.Union:
        if value is None and type(None) in arguments:
            return None
        (rest,) = (argument for argument in arguments if argument is not type(None))
        return _value(rest, value, where, complete)
    if origin is Literal:
        if value not in arguments:
            raise UsageError(f"{where} is one of {', '.join(map(str, arguments))}, not {reprlib.repr(value)}")
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise UsageError(f"{where} must be a list, not {reprlib.repr(value)}")
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise UsageError(f"{where} must be a list of {len(arguments)}, not {reprlib.repr(value)}")
        return tuple(_value(arguments[0], item, where, complete) for item in value)
    if hint in (str, Path) and isinstance(value, str):
        return hint(_plain(value, where))
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value, where)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return _sixty_four_bits(value, where)
    raise UsageError(f"{where} must be of type {getattr(hint, '__name__', hint)}, not {reprlib.repr(value)}")


def _plain(text: str, where: str) -> str:
    """Return text that is printable and a valid file name; JSON allows zero bytes and lone surrogates."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"{where} contains an invalid character: {reprlib.repr(text)}")
    return text


def _finite(number: float, where: str) -> float:
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise UsageError(f"{where} must be of type float and finite, not {reprlib.repr(number)}")
    return value


def _sixty_four_bits(number: int, where: str) -> int:
    if not -(1 << 63) <= number < 1 << 63:
        raise UsageError(f"{where} must be of type int with at most 64 bits, not {reprlib.repr(number)}")
    return number


def _shortened(name: str) -> str:
    """Shorten a name from an untrusted file for an error."""
    return reprlib.repr(name)[1:-1]
