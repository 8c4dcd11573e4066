"""The reference of the command line, from the dataclasses that ``--help`` is made from.

``{commands}`` in a page becomes a section for each command: what it does, and its flags with default, range and help.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import tyro
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from jsa.cli import COMMANDS
from jsa.ranges import declared_ranges


@dataclass(frozen=True)
class Flag:
    """A flag of a command, or an argument without a flag.

    Attributes:
        name: As it is typed.
        values: What may follow it.
        default: What it is if not given; None if it must be given.
        range: The range of a number.
        text: What it does.
    """

    name: str
    values: str
    default: str | None
    range: str
    text: str


@dataclass(frozen=True)
class Group:
    """Flags with a common text; those of the command itself have none."""

    text: str
    flags: tuple[Flag, ...]


def groups(kind: type) -> Iterator[Group]:
    """Yield the flags of a dataclass, first its own."""
    own, nested = [], []
    hints, texts = get_type_hints(kind, include_extras=True), _texts(kind)
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            (inner,) = groups(hints[field.name])
            nested.append(dataclasses.replace(inner, text=texts.get(field.name) or _summary(hints[field.name])))
        else:
            own.append(_flag(kind, field, hints[field.name], texts[field.name]))
    yield Group("", tuple(own))
    yield from nested


def _summary(kind: type) -> str:
    return " ".join((kind.__doc__ or "").split())


def _texts(kind: type) -> dict[str, str]:
    """Return the docstring below each field, also of bases, whose fields a subclass may declare anew."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if dataclasses.is_dataclass(one):
            comments = ModuleAnalyzer.for_module(one.__module__).find_attr_docs()
            found |= {
                name: " ".join(lines).strip() for (owner, name), lines in comments.items() if owner == one.__name__
            }
    return found


def _flag(kind: type, field: dataclasses.Field[Any], hint: object, text: str) -> Flag:
    parts = getattr(hint, "__metadata__", ())
    positional = any(part is tyro.conf.Positional for part in parts)
    bare = getattr(hint, "__origin__", hint) if parts else hint
    limits = declared_ranges(kind).get(field.name)
    default = None if _is_required(field) else _spelled(field.default)
    # What is on can only be turned off.
    flag = f"--{'no-' if field.default is True else ''}{field.name.replace('_', '-')}"
    name = field.name.upper() if positional else flag
    return Flag(name, "" if positional and not _choices(bare) else _values(bare), default, str(limits or ""), text)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _spelled(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_spelled, value))
    if value is True:
        return "on; this turns it off"
    return "" if value is None or value is False else str(value.value if isinstance(value, Enum) else value)


def _choices(hint: object) -> tuple[str, ...]:
    return tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else ()


def _values(hint: object) -> str:
    """Return what a value looks like: choices, or the name of its type."""
    inner = [one for one in get_args(hint) if one not in (type(None), Ellipsis)]
    if choices := _choices(hint):
        return "{" + ", ".join(choices) + "}"
    if get_origin(hint) is tuple:
        return f"{_values(inner[0])} ..."
    if get_origin(hint) is Union or type(hint).__name__ == "UnionType":
        return _values(inner[0])
    if hint is bool:
        return ""
    return {int: "N", float: "X", str: "NAME", Path: "PATH"}[hint]  # type: ignore[index]


def arguments_of(command: str) -> type:
    """Return the dataclass of a command's arguments."""
    module = importlib.import_module(f"jsa.cli.commands.{command}")
    (found,) = (
        one
        for name, one in vars(module).items()
        if name.endswith("Arguments") and isinstance(one, type) and one.__module__ == module.__name__
    )
    return found


class Commands(SphinxDirective):
    """A section for each command."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        return [self._section(command) for command in COMMANDS]

    def _section(self, command: str) -> nodes.section:
        kind = arguments_of(command)
        title = f"jsa {command}"
        section = nodes.section(ids=[nodes.make_id(title)], names=[nodes.fully_normalize_name(title)])
        section += nodes.title("", "", nodes.literal(text=title))
        self.state.document.note_implicit_target(section)
        for paragraph in (kind.__doc__ or "").split("\n\n"):
            section += nodes.paragraph("", "", *_marked(" ".join(paragraph.split())))
        for group in groups(kind):
            if group.text:
                section += nodes.paragraph("", "", *_marked(group.text))
            if group.flags:
                section += _table(group.flags)
        return section


def _table(flags: tuple[Flag, ...]) -> nodes.table:
    table = nodes.table(classes=["flags"])
    columns = nodes.tgroup(cols=2)
    columns += [nodes.colspec(colwidth=width) for width in (35, 65)]
    body = nodes.tbody()
    for flag in flags:
        row = nodes.row()
        call = nodes.paragraph("", "", nodes.literal(text=flag.name))
        if flag.values:
            call += [nodes.Text(" "), nodes.inline(text=flag.values, classes=["values"])]
        row += nodes.entry("", call)
        notes = "required" if flag.default is None else f"default: {flag.default}" if flag.default else ""
        about = nodes.paragraph("", "", *_marked(flag.text))
        if said := "; ".join(filter(None, (notes, flag.range))):
            about += nodes.inline(text=f" ({said})", classes=["range"])
        row += nodes.entry("", about)
        body += row
    columns += body
    table += columns
    return table


def _marked(text: str) -> Iterator[nodes.Node]:
    """Yield a text whose flags and names of commands are marked as code."""
    for part in re.split(rf"(--[a-z][a-z-]*|``.*?``|\bjsa (?:{'|'.join(COMMANDS)})\b)", text):
        if part.startswith(("--", "``", "jsa ")):
            yield nodes.literal(text=part.strip("`"))
        elif part:
            yield nodes.Text(part)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
