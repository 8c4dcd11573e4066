"""Nothing in the program can run code that somebody put into a file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import jsa

SOURCES = sorted(Path(jsa.__file__).parent.rglob("*.py"))

PICKLES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve"}
FORBIDDEN_MODULES = PICKLES | {"marshal", "yaml", "code"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
SAFE_ONLY_WITH = {"torch.load": ("weights_only", True), "numpy.load": ("allow_pickle", False)}
ALIASES = {"np": "numpy"}


def faults(source: str) -> list[str]:
    """What a source does that could run code of a file, each with its line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            from_module = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules = from_module or [alias.name for alias in node.names]
            forbidden = [name for name in modules if name.split(".")[0] in FORBIDDEN_MODULES]
            found += [f"line {node.lineno}: import {name}" for name in forbidden]
        elif isinstance(node, ast.Call):
            found += [f"line {node.lineno}: {fault}" for fault in call_faults(node)]
    return found


def call_faults(call: ast.Call) -> list[str]:
    if isinstance(call.func, ast.Name):
        return [call.func.id] if call.func.id in FORBIDDEN_CALLS else []
    if isinstance(call.func, ast.Attribute) and call.func.attr == "load" and isinstance(call.func.value, ast.Name):
        name = f"{ALIASES.get(call.func.value.id, call.func.value.id)}.load"
        if name in SAFE_ONLY_WITH:
            keyword, value = SAFE_ONLY_WITH[name]
            given = {one.arg: one.value for one in call.keywords}.get(keyword)
            safe = isinstance(given, ast.Constant) and given.value is value
            return [] if safe else [f"{name} without {keyword}={value}"]
    return [
        f"{keyword.arg}=True"
        for keyword in call.keywords
        if keyword.arg == "allow_pickle"
        and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    ]


def test_there_are_sources() -> None:
    assert len(SOURCES) > 50


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(SOURCES[0].parent).as_posix())
def test_no_source_runs_what_is_in_a_file(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml",
        "eval(text)",
        "exec(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.lib.format.read_array(stream, allow_pickle=True)",
    ],
)
def test_the_search_would_find_it(source: str) -> None:
    assert len(faults(source)) == 1


@pytest.mark.parametrize(
    "source", ["torch.load(path, weights_only=True)", "np.load(path, allow_pickle=False)", "model.eval()"]
)
def test_the_search_lets_the_rest_be(source: str) -> None:
    assert faults(source) == []
