"""The names of the datasets, and how little it costs to know them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import jsa.data
from jsa.data import describe, names
from jsa.data.loading import BUILDERS
from jsa.errors import UsageError


def test_every_name_can_be_built_and_every_builder_is_named():
    assert set(names()) == set(BUILDERS)
    assert len(names()) == len(set(names())) == 5


def test_a_description_is_one_line():
    for name in names():
        assert describe(name)
        assert "\n" not in describe(name)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'mnist-static'"):
        describe("mnist-statik")


def test_the_catalog_and_the_download_load_neither_torch_nor_numpy():
    program = """
        import sys
        import jsa.data
        jsa.data.names()
        jsa.data.fetch
        print([name for name in ("torch", "numpy", "jaxtyping") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_arrives():
    assert dir(jsa.data) == sorted(jsa.data.__all__)
    for name in jsa.data.__all__:
        assert getattr(jsa.data, name) is not None


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        jsa.data.lod  # noqa: B018
