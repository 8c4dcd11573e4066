"""Build docs/reference.md, every public name with its signature and what it does, from the docstrings.

    python scripts/build_reference.py [FILE]

The package `jsa` must be importable, with its extra `sklearn`. Examples stay with the code, where they are tested.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import pairwise
from pathlib import Path

from jsa.io.atomic_files import write_text

OUTPUT = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
WIDTH = 100
LONGEST_DEFAULT = 80

GROUPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "A model and its rows": (
        "jsa",
        ("LatentVariableModel", "Batch", "LatentSpace", "Layer", "TensorRows", "check_model"),
    ),
    "Distributions and inference models": (
        "jsa",
        (
            *("Factorized", "Bernoulli", "Categorical", "Gaussian"),
            *("Posterior", "LayeredPosterior", "TorchPosterior", "supervised_loss"),
        ),
    ),
    "Models that are there": ("jsa", ("BeliefNetwork", "StructuredPrediction", "Style")),
    "Training": ("jsa", ("Learner", "Estimator", "Estimate", "PersistentEstimator", "Stage", "JsaError")),
    "Methods": (
        "jsa.estimators",
        (
            *("JSA", "RaoBlackwellJSA", "Hybrid", "MarkovianScoreClimbing", "Enumeration"),
            *("Reinforce", "LeaveOneOut", "NVIL", "VIMCO", "ReweightedWakeSleep"),
            *("Concrete", "GumbelSoftmax", "StraightThrough", "Rebar", "Relax", "MuProp"),
            *("ARM", "DisARM", "ARMS", "ARSM", "Description"),
        ),
    ),
    "Evaluation": (
        "jsa",
        (
            *("likelihood", "exact_likelihood", "annealed_likelihood", "row_likelihoods"),
            *("multi_sample_bounds", "impute"),
        ),
    ),
    "Noise of gradients": ("jsa.evaluation.gradient_variance", ("gradient_variance",)),
    "Chains": ("jsa.chains", ("ChainCache", "frozen_chains", "FrozenChains")),
    "Kernels": ("jsa.kernels", ("metropolis_independence", "conditional_importance", "Trajectory")),
    "Data": (
        "jsa.data",
        (
            *("load", "names", "describe", "fetch", "Splits", "Schema", "Dataset", "IndexedDataset", "Conditioned"),
            *("DynamicBinarization", "Scan", "epoch_order", "batches_in_epoch"),
        ),
    ),
    "scikit-learn": ("jsa.sklearn", ("DiscreteLatentModel",)),
}
"""The headings, the module that each name is imported from, and the names in the order of the page."""

SECTION = re.compile(r"^(Args|Attributes|Returns|Example|References):$")


def page() -> str:
    """The whole page."""
    parts = [
        "# Reference",
        "",
        "Every public name, from its docstring. [own-models.md](own-models.md) is the guide to most of them,",
        "[estimators.md](estimators.md) compares the methods. Made by `scripts/build_reference.py`.",
    ]
    for title, (module, names) in GROUPS.items():
        parts += ["", f"## {title}", "", f"From `{module}`."]
        for name in names:
            parts += ["", *_entry(name, getattr(importlib.import_module(module), name))]
    return "\n".join(parts) + "\n"


def _entry(name: str, thing: object) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield from _code(_call(name, thing))
    if not inspect.isclass(thing) and not inspect.isfunction(thing):
        return
    if inspect.isclass(thing):
        parents = [base.__name__ for base in thing.__bases__ if base.__module__.startswith("jsa.")]
        if parents:
            yield ""
            yield f"A kind of {' and '.join(f'`{parent}`' for parent in parents)}."
    yield from _text(inspect.getdoc(thing) or "")
    if inspect.isclass(thing):
        yield from _fields(thing)
        yield from _methods(thing)


def _call(name: str, thing: object) -> str:
    if not inspect.isclass(thing) and not inspect.isfunction(thing):
        return f"{name} = {str(thing).replace('typing.', '')}"
    if inspect.isclass(thing) and issubclass(thing, Enum):
        return f"{name}({', '.join(thing.__members__)})"
    if inspect.isclass(thing) and (getattr(thing, "_is_protocol", False) or not _own_constructor(thing)):
        return f"class {name}"
    assert callable(thing)
    return name + _signature(thing)


def _own_constructor(thing: type) -> bool:
    """Whether it is made by a call that this package describes."""
    return any("__init__" in vars(one) for one in thing.__mro__ if one.__module__.startswith("jsa."))


def _signature(thing: object) -> str:
    assert callable(thing)
    signature = inspect.signature(thing)
    parts: list[str] = []
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(_parameter(one))
    # Annotations are text, as the modules ask for by their first import.
    returned = "" if inspect.isclass(thing) else f" -> {signature.return_annotation}"
    line = f"({', '.join(parts)}){returned}"
    return line if len(line) <= WIDTH else "(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"


def _parameter(one: inspect.Parameter) -> str:
    annotation = "" if one.annotation is one.empty else f": {one.annotation}"
    if one.default is one.empty:
        return f"{'*' * (one.kind is one.VAR_POSITIONAL)}{one.name}{annotation}"
    default = f"{type(one.default).__name__}.{one.default.name}" if isinstance(one.default, Enum) else repr(one.default)
    # One that is made anew at each call has no text of its own, and a long one says nothing.
    default = "..." if default.startswith("<") or len(default) > LONGEST_DEFAULT else default
    return f"{one.name}{annotation} = {default}"


def _code(text: str) -> list[str]:
    return ["```text", *text.splitlines(), "```"]


def _text(documentation: str) -> Iterator[str]:
    """The paragraphs of a docstring, its arguments as a list; without examples."""
    name = ""
    sections: dict[str, list[str]] = {"": []}
    for line in documentation.splitlines():
        if found := SECTION.match(line):
            name = found.group(1)
            sections[name] = []
        else:
            sections[name].append(line)
    yield ""
    paragraphs = "\n".join(sections.pop("")).strip("\n").split("\n\n")
    plain = "\n\n".join(paragraph for paragraph in paragraphs if not paragraph.startswith(">>>"))
    yield from _with_formulas(re.sub(r":math:`(.*?)`", r"$\1$", plain).splitlines())
    for title, lines in sections.items():
        if title == "Example":
            continue
        # Not cleandoc, which takes the indent of what goes on behind the first line for that of all.
        body = textwrap.dedent("\n".join(lines)).strip("\n").splitlines()
        yield ""
        if title in ("Args", "Attributes"):
            yield from _items(body)
        else:
            yield f"{title}: {' '.join(body)}"


def _items(lines: list[str]) -> Iterator[str]:
    item = ""
    for line in lines:
        if line.startswith(" "):
            item += f" {line.strip()}"
        else:
            if item:
                yield item.replace("``", "`")
            names, _, text = line.partition(": ")
            item = f"- {', '.join(f'`{name.strip()}`' for name in names.split(','))}: {text}"
    yield item.replace("``", "`")


def _with_formulas(lines: list[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        if line.startswith(".. math::"):
            inside = True
            yield "```math"
            line = line.removeprefix(".. math::").strip()
        elif inside and not line.startswith(" "):
            inside = False
            yield "```"
        if line or not inside:
            yield line.strip() if inside else line.replace("``", "`")
    if inside:
        yield "```"


def _fields(thing: type) -> Iterator[str]:
    """The fields that have a docstring of their own, below them, which the interpreter forgets."""
    (tree,) = ast.parse(inspect.getsource(thing)).body
    assert isinstance(tree, ast.ClassDef)
    found = []
    for field, below in pairwise(tree.body):
        if isinstance(field, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(below.value, ast.Constant)
            target = field.target if isinstance(field, ast.AnnAssign) else field.targets[0]
            found.append(f"- `{ast.unparse(target)}`: {' '.join(str(below.value.value).split())}")
    if found:
        yield from ("", *found)


def _methods(thing: type) -> Iterator[str]:
    """The methods and properties that its parents do not have, each with the first paragraph about it."""
    inherited = {name for parent in thing.__mro__[1:] if parent.__module__.startswith("jsa.") for name in vars(parent)}
    found = []
    for name, member in vars(thing).items():
        target = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        target = target.fget if isinstance(target, property) else getattr(target, "func", target)
        if name.startswith("_") or not inspect.isfunction(target) or not target.__doc__ or name in inherited:
            continue
        first = " ".join((inspect.getdoc(target) or "").split("\n\n")[0].split()).replace("``", "`")
        # A member that is not called has the decorator of a property.
        arguments = _arguments(target) if target in (member, getattr(member, "__func__", None)) else ""
        found.append(f"- `{name}{arguments}`: {first}")
    if found:
        yield from ("", "Methods and properties:", "", *found)


def _arguments(function: object) -> str:
    assert callable(function)
    names = [one for one in inspect.signature(function).parameters if one not in ("self", "cls")]
    return f"({', '.join(names)})"


if __name__ == "__main__":
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    write_text(output, page())
    print(output)
