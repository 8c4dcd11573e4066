"""Own models and methods, imported by what a flag names: ``package.module:name``.

Only a flag may name them. A name in a file of a run is never imported, for it would run the code of whoever made it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsa.errors import UsageError, shortened
from jsa.runs.config import OWN

if TYPE_CHECKING:
    from jsa.runs.build import Own


def imported(model: str | None, estimator: str | None) -> Own:
    """Import what the flags name; names of the library, and flags that are not given, name nothing to import."""
    from jsa.estimators import Estimator
    from jsa.model import LatentVariableModel
    from jsa.runs.build import Own

    factory = kind = None
    if model is not None and OWN in model:
        factory = _found("model", model)
        if not callable(factory):
            raise UsageError(
                f"--model {model} is a {type(factory).__name__}: name a function or class that makes a model"
            )

        def make(schema: Any, factory: Any = factory) -> LatentVariableModel:
            made: object = factory(schema)
            if not isinstance(made, LatentVariableModel):
                raise UsageError(f"{model} returned {type(made).__name__}: return a jsa.LatentVariableModel")
            return made

        factory = make
    if estimator is not None and OWN in estimator:
        kind = _found("estimator", estimator)
        if not (isinstance(kind, type) and issubclass(kind, Estimator)):
            raise UsageError(f"--estimator {estimator} is no class of estimators: derive it from jsa.Estimator")
    return Own(factory, kind)


def _found(flag: str, name: str) -> Any:
    """Import an object by ``package.module:name``, also from the working folder."""
    module, _, attribute = name.partition(OWN)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            # Something that the module itself imports.
            raise UsageError(f"--{flag} {name}: {module} needs {error.name}, which is not installed") from error
        raise UsageError(
            f"--{flag} {name}: there is no module {module} in {here} or among the installed packages"
        ) from error
    except Exception as error:  # the module may do anything
        raise UsageError(f"--{flag} {name}: {module} cannot be imported ({shortened(error)})") from error
    for part in attribute.split("."):
        if not part or not hasattr(found, part):
            raise UsageError(f"--{flag} {name}: {module} has no {attribute or 'name after the colon'}")
        found = getattr(found, part)
    return found
