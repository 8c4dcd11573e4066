"""What all tests share: shape checks, one thread, a seed a test and repeatable property tests."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import jaxtyping
import pytest
import torch
from hypothesis import settings

# Before jsa is imported. The packages that take data from users are left out: they refuse wrong shapes themselves,
# with a sentence that their tests want to see.
jaxtyping.install_import_hook(
    [
        "jsa.chains",
        "jsa.distributions",
        "jsa.estimators",
        "jsa.evaluation",
        "jsa.latent",
        "jsa.model",
        "jsa.models",
        "jsa.model_calls",
        "jsa.posteriors",
        "jsa.kernels",
        "jsa.batch",
        "jsa.importance",
    ],
    "shape_checks.check_shapes",
)

from helpers.small_models import EXAMPLES, Example  # noqa: E402  (it imports jsa)
from helpers.terminal import Terminal  # noqa: E402

# Small tensors gain nothing from a second thread, and the sums are then the same on every machine.
torch.set_num_threads(1)

# The same examples in every run: a failure that comes and goes helps nobody.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


def _find_doctests_of_checked_functions() -> None:
    """doctest skips a function whose globals are of another module, which those of a checked function are."""
    find: Callable[..., bool] = vars(doctest.DocTestFinder)["_from_module"]

    def from_module(self: doctest.DocTestFinder, module: ModuleType | None, thing: object) -> bool:
        return find(self, module, inspect.unwrap(thing) if inspect.isfunction(thing) else thing)

    setattr(doctest.DocTestFinder, "_from_module", from_module)  # noqa: B010  (typeshed does not list it)


_find_doctests_of_checked_functions()


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(20200614)


@pytest.fixture(autouse=True)
def denormal_numbers() -> Iterator[None]:
    """A run switches them off for its process, which here is that of all other tests too."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def jsa(capsys: pytest.CaptureFixture[str]) -> Terminal:
    """The command ``jsa``."""
    return Terminal(capsys)


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Example:
    """Each of the small models in turn, with some rows of data."""
    return EXAMPLES[request.param]()
