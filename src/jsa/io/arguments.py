"""The arguments of a constructor as records that JSON can hold, and back. Nothing here needs torch."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jsa.errors import CheckpointError, UsageError, shortened
from jsa.io.json_records import from_record, to_record

T = TypeVar("T")
Kind = TypeVar("Kind", bound=type)

_STORABLE: dict[str, type] = {}


def storable(kind: Kind) -> Kind:
    """Let a dataclass be an argument that a file can hold. Its subclasses are not, unless they say so themselves."""
    _STORABLE[kind.__name__] = kind
    return kind


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call of a constructor, by the names of its parameters.

    They are taken when the object is made: a list that is changed later does not change them, and no large argument is
    kept alive.

    Attributes:
        records: The arguments that a file can hold, also defaults.
        others: The types of the arguments that it cannot hold. A default of such a type is in neither.
        known: Whether the constructor accepted the arguments at all.
    """

    records: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    known: bool = True

    @classmethod
    def of(cls, kind: type, positional: tuple[Any, ...], named: Mapping[str, Any]) -> Arguments:
        """Take the arguments of a call; this never fails, for the constructor itself refuses what is wrong."""
        values = by_name(kind, positional, named)
        if values is None:
            return cls(known=False)
        records, others = {}, {}
        for name, (value, given) in values.items():
            try:
                records[name] = _record(value)
            except _CannotHoldError as error:
                if given:
                    others[name] = str(error)
        return cls(records, others)


def by_name(kind: type, positional: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, tuple[Any, bool]] | None:
    """Return the arguments of a call of a constructor, each with whether it was given or is the default.

    None if the constructor does not accept them.
    """
    try:
        signature = _signature(kind)
        given = signature.bind(*positional, **named).arguments
    except (TypeError, ValueError):
        return None
    values = {name: (given.get(name, one.default), name in given) for name, one in signature.parameters.items()}
    # What takes any number of arguments may have got none.
    return {name: pair for name, pair in values.items() if pair[0] is not inspect.Parameter.empty}


def parameter_names(kind: type) -> list[str]:
    """Return the names of the arguments that a constructor takes."""
    return list(_signature(kind).parameters)


def make(kind: type[T], records: Mapping[str, Any], where: object) -> T:
    """Call the constructor of a class with the arguments of a file.

    Args:
        kind: The class.
        records: The arguments by the names of its parameters, as ``Arguments.records`` has them.
        where: What the arguments were read from, for errors.
    """
    signature = _signature(kind)
    unknown = [name for name in records if name not in signature.parameters]
    missing = [
        name
        for name, one in signature.parameters.items()
        if name not in records and one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    for names, what in ((unknown, "does not take"), (missing, "also needs")):
        if names:
            raise CheckpointError(
                f"{where} was made by another version of {kind.__name__}, which today {what} the argument "
                f"{shortened(names[0])}: use that version, or save the model again"
            )
    try:
        values = {name: _value(records[name]) for name in signature.parameters if name in records}
        bound = inspect.BoundArguments(signature, values)
        return kind(*bound.args, **bound.kwargs)
    except Exception as error:  # a constructor may raise anything
        raise CheckpointError(
            f"{kind.__name__} refuses the arguments that it has in {where} ({shortened(error)}): use the version of "
            "the class that saved it, or save the model again"
        ) from error


def _signature(kind: type) -> inspect.Signature:
    """Return what the constructor takes, without the object itself."""
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    _, *taken = signature.parameters.values()
    return signature.replace(parameters=taken)


class _CannotHoldError(Exception):
    """A value that a file cannot hold; the text is its type."""


def _record(value: Any) -> Any:
    """Return the record of a value: itself, a list of records, or an object with one entry that names the type."""
    kind = type(value)
    # Not of subclasses, which would come back as something else.
    if value is None or kind in (bool, int, str):
        return value
    try:
        if kind is float:
            return value if abs(value) < float("inf") else {"float": repr(value)}
        if kind is list:
            return [_record(item) for item in value]
        if kind is tuple:
            return {"tuple": [_record(item) for item in value]}
        if kind is dict and all(type(name) is str for name in value):
            # Pairs, because the order of a dict can matter and that of a JSON object does not.
            return {"dict": [[name, _record(item)] for name, item in value.items()]}
        if _STORABLE.get(kind.__name__) is kind:
            record = to_record(value)
            # A field of another type than it should have is found here, and not when the file is read.
            from_record(kind, record, complete=True)
            return {kind.__name__: record}
    except (RecursionError, UsageError) as error:
        raise _CannotHoldError(_name(kind)) from error
    raise _CannotHoldError(_name(kind))


def _value(record: Any) -> Any:
    """Return the value of a record."""
    if isinstance(record, list):
        return [_value(item) for item in record]
    if not isinstance(record, dict):
        return record
    ((kind, content),) = record.items()
    match kind:
        case "float":
            return float(content)
        case "tuple":
            return tuple(_value(item) for item in content)
        case "dict":
            return {name: _value(item) for name, item in content}
    return from_record(_STORABLE[kind], content, kind, complete=True)


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
