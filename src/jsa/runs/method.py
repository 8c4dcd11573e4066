"""The method of a run, from its name, its class, or an estimator that is made already."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from jsa.errors import UsageError
from jsa.estimators import Estimator, PersistentEstimator
from jsa.estimators.registry import (
    build_estimator,
    check_options,
    estimator_class,
    method_name,
    option_defaults,
)
from jsa.evaluation.rows import Rows
from jsa.model import LatentVariableModel
from jsa.runs.config import OWN, RunConfig

GivenMethod = str | type[Estimator] | partial[Estimator] | Estimator
"""A method as a caller has it."""


@dataclass(frozen=True)
class Method:
    """The method of a run.

    Attributes:
        name: Its name on the command line, or what tells an own one apart.
        kind: Its class.
        further: Its options beyond those of a configuration.
        made: An estimator that is made already, None to make one.
    """

    name: str
    kind: type[Estimator]
    further: dict[str, Any]
    made: Estimator | None = None

    @classmethod
    def of(cls, given: GivenMethod) -> Method:
        """Return the method that was given."""
        if isinstance(given, Estimator):
            kind = type(given)
            # An address would be another one in each process.
            told = re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(given).split()))
            return cls(f"{kind.__module__}{OWN}{told}", kind, {}, given)
        further: dict[str, Any] = {}
        named: object = given
        if isinstance(given, partial):
            if given.args:
                raise UsageError("pass the options of an estimator by their names: functools.partial(JSA, particles=5)")
            named, further = given.func, dict(given.keywords)
        if isinstance(named, str):
            named = estimator_class(named)
        if not (isinstance(named, type) and issubclass(named, Estimator)):
            raise UsageError(
                f"estimator is a {type(named).__name__}: give a name (see: jsa list estimators), a class such as "
                "jsa.JSA, functools.partial(jsa.JSA, particles=5), or an estimator"
            )
        return cls(method_name(named), named, further)

    @property
    def is_fixed(self) -> bool:
        """Whether nobody but its maker can make it with another number of particles."""
        return self.made is not None or "kernel" in self.further

    @property
    def switches_itself(self) -> bool:
        """Whether stage II begins by itself after some passes."""
        return (self.further.get("switch_after") or getattr(self.made, "switch_after", None)) is not None

    def settled(self, config: RunConfig) -> tuple[Method, RunConfig]:
        """Return the method and the configuration with all of its options that one knows and their defaults.

        What is left open is written out, so that no later default decides it.
        """
        if self.made is not None:
            if config.method.given:
                name = next(iter(config.method.given))
                raise UsageError(f"the estimator is made already, so {name} changes nothing: leave it out")
            return self, replace(config, estimator=self.name)
        ours = {name: value for name, value in self.further.items() if hasattr(config.method, name)}
        further = {name: value for name, value in self.further.items() if name not in ours}
        taken = inspect.signature(self.kind).parameters
        check_options(self.kind, {**config.method.given, **{name: 0 for name in self.further if name not in taken}})
        known = {name: value for name, value in option_defaults(self.kind).items() if hasattr(config.method, name)}
        if "kernel" in self.further:
            # It says its own number of particles.
            del known["particles"]
        options = {**known, **config.method.given, **ours}
        told = ", ".join(f"{name}={value!r}" for name, value in sorted(further.items()))
        # A method of the library with options that the command line lacks is none that it could make.
        name = self.name if not told else f"{self.kind.__module__}{OWN}{self.kind.__qualname__}({told})"
        return (
            replace(self, name=name, further=further),
            replace(config, estimator=name, method=replace(config.method, **options)),
        )

    def build(self, config: RunConfig, model: LatentVariableModel, rows: Rows, cache_folder: Path | None) -> Estimator:
        """Make the estimator, with chains for these rows if it keeps chains.

        Args:
            config: The settled configuration.
            model: The model.
            rows: The training rows.
            cache_folder: The folder of chains on disk, None for chains in memory.
        """
        if self.made is not None:
            return self._checked(self.made, model, rows)
        defaults = option_defaults(self.kind)
        return build_estimator(
            self.kind,
            model.latent,
            inputs=rows.batch(torch.arange(1)).inputs.shape[-1],
            rows=len(rows),
            options={name: value for name, value in config.method.given.items() if name in defaults},
            cache_folder=cache_folder,
            further=self.further,
        )

    @staticmethod
    def _checked(made: Estimator, model: LatentVariableModel, rows: Rows) -> Estimator:
        """Refuse an estimator that was made for another number of rows or for other latents."""
        if isinstance(made, PersistentEstimator):
            if made.chains.rows != len(rows):
                raise UsageError(
                    f"the estimator has chains for {made.chains.rows:,} rows, and {len(rows):,} are learned: pass its "
                    f"class, or make it with rows={len(rows)}"
                )
            if made.chains.latent != model.latent:
                raise UsageError("the estimator was made for other latents than the model's: make it with model.latent")
        return made
