"""The public names are all there, and naming them costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import jsa
import jsa.errors
import jsa.estimators


@pytest.mark.parametrize("name", jsa.__all__)
def test_a_public_name_can_be_imported(name: str) -> None:
    thing = getattr(jsa, name)
    assert thing.__name__.removeprefix("jsa.") == name
    assert thing.__doc__


def test_names_are_listed() -> None:
    assert set(jsa.__all__) <= set(dir(jsa))
    assert len(jsa.__all__) > 30


def test_every_method_and_every_error_is_public() -> None:
    assert set(jsa.estimators.__all__) <= set(jsa.__all__)
    errors = {name for name, thing in vars(jsa.errors).items() if isinstance(thing, type)}
    assert {name for name in errors if issubclass(getattr(jsa.errors, name), Exception)} <= set(jsa.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No jsa attribute Jsa"):
        _ = jsa.Jsa  # type: ignore[attr-defined]


@pytest.mark.parametrize("module", ["jsa", "jsa.models.presets", "jsa.data", "jsa.errors"])
def test_importing_does_not_load_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
