"""A run that was made: its model, its figures and its files."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jsa.data import Splits
from jsa.data.schema import Schema
from jsa.errors import UsageError
from jsa.evaluation.ancestral_samples import Samples, contexts_of, sample
from jsa.evaluation.codes import Codes, encode
from jsa.evaluation.imputation import Imputed, impute
from jsa.evaluation.latent_effects import Effects, describe
from jsa.evaluation.likelihood import Likelihood, likelihood
from jsa.evaluation.reconstructions import Reconstructions, reconstruct
from jsa.evaluation.rows import Rows, Subset
from jsa.io.displays import figures_table, picture
from jsa.io.home_folder import expanded
from jsa.model import LatentVariableModel
from jsa.models.registry import model_from_record
from jsa.report.page import write_page
from jsa.report.run_folders import run_page
from jsa.runs.build import load_splits_again, make_model
from jsa.runs.config import RunConfig
from jsa.runs.folder import RunFolder
from jsa.runs.identity import RunIdentity
from jsa.runs.rows import GivenRows, RunRows, any_rows
from jsa.runs.scores import Scores, read_scores
from jsa.training.weights import load_weights

PARTS = ("train", "valid", "test")
Split = Literal["train", "valid", "test"]

PAIRS, DESCRIBED = 50, 1000
"""The rows to reconstruct and to describe where none are given."""


class Run:
    """A trained model with its figures: what ``jsa.fit`` and ``jsa.open_run`` return.

    Its methods call the functions of the same names with its model. Rows that are not given are those of the run.

    Attributes:
        path: The run folder.
        config: All settings of the run.
        notes: The figures of the epoch whose weights the model has.
    """

    def __init__(
        self,
        folder: RunFolder,
        model: LatentVariableModel | None,
        notes: dict[str, object] | None = None,
        *,
        rows: RunRows | None = None,
        data_dir: Path | None = None,
    ) -> None:
        self.folder, self.path = folder, folder.path
        self.config: RunConfig = folder.read_config()
        self.notes = notes or {}
        self._model, self._rows, self._data_dir = model, rows, data_dir

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.config.model}, {self.config.estimator}, {self._state})"

    def _repr_html_(self) -> str:
        """Return figures and pictures for a notebook."""
        figures: dict[str, object] = {"run": self.path, "model": self.config.model, "method": self.config.estimator}
        if self.folder.evaluation.is_file():
            scores = self.evaluation
            figures["best epoch"] = scores.best.epoch
            if scores.best.nll == scores.best.nll:
                figures["validation NLL"] = f"{scores.best.nll:.2f} ({scores.validation_samples} samples)"
            if scores.test is not None:
                figures["test NLL"] = scores.test
        shown = [path for path in self.folder.outputs if path in (self.folder.curves, self.folder.samples)]
        return figures_table(figures) + "".join(picture(path.read_bytes(), path.stem) for path in shown)

    @property
    def has_model(self) -> bool:
        """Whether its model is here; that of a class of one's own must be given."""
        return self._model is not None

    @property
    def model(self) -> LatentVariableModel:
        """The model."""
        if self._model is None:
            raise UsageError(
                f"{self.path} holds the weights of {self.config.model}, a class that no file may load: pass an "
                f"instance or a function that makes one, jsa.open_run({str(self.path)!r}, model=...)"
            )
        return self._model

    @property
    def metrics(self) -> dict[str, NDArray[Any]]:
        """The figures of all epochs by name, an array each; NaN in epochs that do not have one."""
        records = list(self.folder.read_metrics())
        names = dict.fromkeys(name for record in records for name in record)
        return {name: np.array([record.get(name, np.nan) for record in records]) for name in names}

    @property
    def evaluation(self) -> Scores:
        """The best epoch, its validation NLL, and the test figures."""
        if not self.folder.evaluation.is_file():
            raise UsageError(f"{self.path} is not finished: continue it with {self.folder.continue_with}")
        return read_scores(self.folder)

    @property
    def schema(self) -> Schema:
        """The columns of its rows."""
        known = RunIdentity.read(self.path)
        found = self.splits.schema if known is None else known.shape
        if found is None:
            raise UsageError(f"nothing is known of the columns of {self.path}, whose rows were given in Python")
        return found

    @cached_property
    def splits(self) -> Splits:
        """The data of the run, loaded by its name; of rows that were given in Python, the folder knows nothing more."""
        if self.config.has_own_rows:
            raise UsageError(f"the rows of {self.path} were given in Python and are not in its folder: give some")
        return load_splits_again(self.config, self.folder, self._data_dir)

    def rows(self, split: Split = "test") -> Rows:
        """Return the rows that the run learned from, validated with or tested with."""
        if split not in PARTS:
            raise UsageError(f"split is train, valid or test, not {split!r}")
        known = self.splits.parts if self._rows is None else self._rows.parts
        if (found := known[split]) is None:
            raise UsageError(f"this run has no {split} rows: pass rows")
        return found

    def encode(self, rows: GivenRows | None = None, seed: int = 0) -> Codes:
        """Return the latent codes of rows, by default of the test rows."""
        return encode(self.model, self._given(rows), seed)

    def sample(self, count: int = 100, seed: int = 0, contexts: Tensor | None = None) -> Samples:
        """Draw rows from the model; a conditional one by default given the contexts of validation rows."""
        if contexts is None and self.config.conditional:
            contexts = contexts_of(self.rows("valid"), count)
        return sample(self.model, count, seed, contexts, image_shape=self._image_shape)

    def reconstruct(self, rows: GivenRows | None = None, seed: int = 0) -> Reconstructions:
        """Return rows and their reconstructions, by default of 50 test rows, spread evenly."""
        model = self.model
        chosen = Subset.spread(self.rows(), PAIRS) if rows is None else self._given(rows)
        return reconstruct(model, chosen, seed, image_shape=self._image_shape)

    def impute(
        self, rows: GivenRows | None = None, samples: int = 1000, *, draw: bool = False, seed: int = 0
    ) -> Imputed:
        """Fill in the missing values of rows, by default of the test rows."""
        return impute(self.model, self._given(rows), samples, draw=draw, seed=seed)

    def likelihood(self, rows: GivenRows | None = None, samples: int = 1000, *, seed: int = 0) -> Likelihood:
        """Estimate the likelihood of rows, by default of the test rows."""
        return likelihood(self.model, self._given(rows), samples, seed=seed)

    def describe(self, rows: GivenRows | None = None, seed: int = 0) -> Effects:
        """Return what each latent variable stands for, by default on 1,000 training rows, spread evenly."""
        model = self.model
        chosen = Subset.spread(self.rows("train"), DESCRIBED) if rows is None else self._given(rows)
        # The observations of a conditional model are a part of the image only.
        shape = None if self.config.conditional else self._image_shape
        return describe(model, chosen, seed, image_shape=shape)

    def report(self, path: Path | str) -> Path:
        """Write one HTML page about the run, and return its path. An existing report is replaced."""
        page = expanded(Path(path))
        write_page(run_page([self.path]), page)
        return page

    def _given(self, rows: GivenRows | None) -> Rows:
        return self.rows() if rows is None else any_rows(rows, self.model)

    @property
    def _image_shape(self) -> tuple[int, int] | None:
        known = RunIdentity.read(self.path)
        return None if known is None or known.shape is None else known.shape.image_shape

    @property
    def _state(self) -> str:
        if not self.folder.evaluation.is_file():
            return "unfinished"
        test = self.evaluation.test
        return "finished" if test is None else f"test NLL {test.nll:.2f}"


def open_run(
    path: Path | str,
    model: LatentVariableModel | Callable[..., LatentVariableModel] | None = None,
    checkpoint: Literal["best", "last"] = "best",
    *,
    data_dir: Path | str | None = None,
) -> Run:
    """Open a run with the best or last weights of its model.

    Args:
        path: The run folder.
        model: For an own model, an instance, which gets the weights, or a function that makes one; it is called with
            the ``jsa.Schema`` of the rows if it needs an argument. Without it, figures and report work all the same.
        checkpoint: ``best`` or ``last``.
        data_dir: Where the data is, if not where it was.

    Example:
        >>> open_run("nowhere")
        Traceback (most recent call last):
        jsa.errors.CheckpointError: nowhere is not a run folder: it has no config.json
    """
    if checkpoint not in ("best", "last"):
        raise UsageError(f"the checkpoint is best or last, not '{checkpoint}'")
    folder = RunFolder.open(expanded(Path(path)))
    found = Run(folder, None, data_dir=None if data_dir is None else expanded(Path(data_dir)))
    made = _model_of(found) if model is None else _own_model(model, found)
    if made is None:
        return found
    notes = load_weights(made, folder.best if checkpoint == "best" else folder.last)
    return Run(folder, made.eval(), notes, data_dir=found._data_dir)


def _model_of(run: Run) -> LatentVariableModel | None:
    """Make the model of a run with fresh weights, None for an own one."""
    known, network = RunIdentity.read(run.path), run.config.network
    # Whoever opens a run draws no random numbers of theirs for it.
    with torch.random.fork_rng([]):
        if network is not None:
            shape = run.splits.schema if known is None or known.shape is None else known.shape
            return make_model(network, shape)
        if known is None or known.made_with is None:
            return None
        return model_from_record(json.loads(known.made_with), run.path)


def _own_model(given: LatentVariableModel | Callable[..., LatentVariableModel], run: Run) -> LatentVariableModel:
    """Return the model that was given, or that the given function makes."""
    made: object = given
    if not isinstance(given, LatentVariableModel):
        if not callable(given):
            raise UsageError(f"model is a {type(given).__name__}: give an instance, or a function that makes one")
        needed = [
            one
            for one in inspect.signature(given).parameters.values()
            if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
        known = RunIdentity.read(run.path)
        made = given(*([known.shape] if needed and known is not None and known.shape is not None else []))
    if not isinstance(made, LatentVariableModel):
        raise UsageError(f"model returned {type(made).__name__}: return a jsa.LatentVariableModel")
    return made
