"""A scikit-learn estimator for tables of 0/1 values or small integers: fit, transform, score, sample, impute.

This is the only module that needs scikit-learn: ``pip install "jsa-torch[sklearn]"``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import index
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from jsa.batch import Batch
from jsa.data.schema import Schema
from jsa.data.streams import permutation
from jsa.data.tables.table import dataset_of
from jsa.data.tables.values import RULE, Values, as_values, refuse_classes_above, refuse_empty_columns
from jsa.errors import DataError, NumericalError, Range, UsageError, check_at_least
from jsa.evaluation.codes import compact, encode, most_probable
from jsa.evaluation.imputation import impute
from jsa.evaluation.likelihood import evaluating, exact_row_likelihoods, row_likelihoods
from jsa.evaluation.rows import Rows
from jsa.front.fit import fit
from jsa.io.atomic_files import short_lived
from jsa.latent import LatentSpace
from jsa.models.presets import NetworkConfig, preset
from jsa.runs.build import make_model
from jsa.runs.config import MethodConfig, OutputConfig, RunConfig
from jsa.torch_contexts import seeded
from jsa.training.config import OptimizerConfig

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
    from sklearn.utils import Tags, check_random_state
    from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('jsa.sklearn needs scikit-learn: pip install "jsa-torch[sklearn]"') from error


class DiscreteLatentModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A generative model of the rows of a table with discrete latent variables, as a scikit-learn estimator.

    The model p(x, h) = p(x | h) p(h), with bits or classes h, is learned by maximum likelihood together with an
    inference model q(h | x), whose probabilities ``transform`` returns.

    Args:
        latents: The number of latent variables, or one number per stochastic layer, starting with the layer next to the
            data.
        latent_classes: The number of values of each latent variable; 2 for bits.
        hidden: The width of a deterministic layer between data and latent variables, or of several; empty for a linear
            model.
        prior: ``fixed`` for fair coins and uniform classes, or ``learned``.
        method: The learning method; see ``jsa list estimators``.
        particles: Its proposals or samples per row and step; by default those of the method.
        epochs: Passes through the rows.
        batch_size: Rows per step.
        learning_rate: The learning rate of Adam.
        validation_fraction: The share of the rows that selects the best epoch instead of being learned from.
        samples: Importance samples per row for ``score``, which is exact if there are no more latent states than that.
        device: The torch device.
        random_state: The source of all randomness: an integer seed, a numpy RandomState, or None.
        verbose: Whether to show the training progress.

    Attributes:
        model_: The model, a ``jsa.BeliefNetwork``.
        column_classes_: The number of values of each column: one more than the largest seen.
        best_epoch_: The epoch whose weights the model has.
        validation_nll_: The mean negative log-likelihood of the validation rows at that epoch, from 100 samples.
        history_: The metrics of each epoch.
        n_features_in_, feature_names_in_: As scikit-learn defines them.

    Example:
        >>> import numpy as np
        >>> x = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 2)), 4, axis=1)  # two bits, four times each
        >>> model = DiscreteLatentModel(latents=2, epochs=60, learning_rate=0.03, random_state=0).fit(x)
        >>> model.transform(x).shape, model.score_samples(x).shape, model.sample(3).shape
        ((200, 2), (200,), (3, 8))
        >>> bool(model.score(x) > 8 * np.log(0.5))  # better than fair coins
        True
    """

    def __init__(
        self,
        latents: int | Sequence[int] = 10,
        *,
        latent_classes: int = 2,
        hidden: int | Sequence[int] = (),
        prior: Literal["fixed", "learned"] = "fixed",
        method: str = "jsa",
        particles: int | None = None,
        epochs: int = 300,
        batch_size: int = 50,
        learning_rate: float = 3e-3,
        validation_fraction: float = 0.1,
        samples: int = 1000,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.latents = latents
        self.latent_classes = latent_classes
        self.hidden = hidden
        self.prior = prior
        self.method = method
        self.particles = particles
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.samples = samples
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from the rows of a table.

        Args:
            X: Integers from 0 on, row by row: 0 and 1 for bits. NaN, or None in a list, is a missing value and is left
                out of the likelihood. Rows with missing values can be scored, transformed and filled in whether or not
                the training rows have any.
            y: Ignored.
        """
        before = dict(vars(self))
        try:
            with _mended_by_the_caller(), TemporaryDirectory() as name, short_lived():
                self._learn(self._values(X, reset=True), Path(name) / "run")
        except BaseException:
            # Until here, the results of an earlier fit are unchanged.
            self.__dict__ = before
            raise
        return self

    def _learn(self, values: Values, out: Path) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        network, config = self._network(), self._config(seed)
        classes, parts = values.classes, self._divided(values, seed)
        refuse_empty_columns(parts[0], "X")
        learned, validated = (dataset_of(part, Schema.of(values.columns, classes)) for part in parts)
        with seeded(seed):
            model = make_model(network, learned.schema)
        run = fit(
            model,
            learned,
            valid=validated,
            test=False,
            estimator=self.method,
            device=self.device,
            out=out,
            config=config,
        )
        self.column_classes_, self._seed = classes, seed
        # In double precision the probabilities of a row do not depend on the other rows.
        self.model_ = model.cpu().double()
        self.best_epoch_, self.validation_nll_ = run.evaluation.best.epoch, run.evaluation.best.nll
        self.history_ = list(run.folder.read_metrics())

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability under q(h | x) that each bit is on, or of each class of each variable, for each row.

        With several stochastic layers, these are the variables of the layer next to the data.
        """
        rows = self._known(X)
        return encode(self.model_, rows).first_means.numpy()

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return log p(x) of each row. An estimate from samples is more often too low than too high."""
        rows = self._known(X)
        if self.model_.latent.states <= self.samples:
            return -exact_row_likelihoods(self.model_, rows).nll.numpy()
        return -row_likelihoods(self.model_, rows, self.samples, seed=self._seed).nll.numpy()

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the mean of log p(x) over the rows; higher is better."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None) -> NDArray[np.int64]:
        """Draw rows from the model.

        Args:
            n_samples: The number of rows.
            random_state: The source of randomness; None for new rows at each call.
        """
        check_is_fitted(self, "model_")
        with _mended_by_the_caller():
            check_at_least(1, n_samples=n_samples)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        with seeded(seed), evaluating(self.model_):
            observed = self.model_.observation(self.model_.sample_latent((n_samples,)))
            return compact(LatentSpace.of(observed.layer), observed.sample()).numpy().astype(np.int64)

    def impute(
        self, X: ArrayLike, *, draw: bool = False, random_state: int | np.random.RandomState | None = None
    ) -> NDArray[np.int64]:
        """Fill in the missing values (NaN) of rows given the observed ones.

        Args:
            X: The rows.
            draw: Whether to draw the values, so that they vary as complete rows do, instead of choosing the most
                probable ones.
            random_state: The source of randomness; None for new values at each call.
        """
        rows = self._known(X)
        seed = int(check_random_state(random_state).randint(2**31 - 1)) if draw else self._seed
        filled = impute(self.model_, rows, self.samples, draw=draw, seed=seed)
        return most_probable(self.model_.observed, filled.x).numpy().astype(np.int64)

    @property
    def _n_features_out(self) -> int:
        """The number of columns that ``transform`` returns, which scikit-learn needs to name them."""
        return int(self.model_.latent.layers[0].width)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.positive_only = tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _network(self) -> NetworkConfig:
        """Return the settings of the model, or refuse an invalid one."""
        latent_classes = _whole("latent_classes", self.latent_classes, lowest=2)
        hidden = _widths("hidden", self.hidden)
        return replace(
            preset("nonlinear" if hidden else "linear"),
            latents=_widths("latents", self.latents),
            latent_kind="bernoulli" if latent_classes == 2 else "categorical",
            latent_classes=latent_classes,
            hidden=hidden,
            prior=self.prior,
        )

    def _config(self, seed: int) -> RunConfig:
        """Return the settings of the training, or refuse an invalid one."""
        check_at_least(1, samples=self.samples)
        return RunConfig(
            method=MethodConfig(particles=None if self.particles is None else _whole("particles", self.particles)),
            epochs=_whole("epochs", self.epochs),
            batch_size=_whole("batch_size", self.batch_size),
            seed=seed,
            optimization=OptimizerConfig(learning_rate=self.learning_rate),
            output=OutputConfig(progress=self.verbose, pictures=False),
        )

    def _divided(self, values: Values, seed: int) -> tuple[Values, Values]:
        """Return the rows to learn from and those that select the best epoch, at least one of each."""
        Range(above=0, below=1).check(validation_fraction=self.validation_fraction)
        count = min(len(values) - 1, max(1, round(self.validation_fraction * len(values))))
        order = permutation(len(values), "table split", seed)
        return values.take(np.sort(order[count:])), values.take(np.sort(order[:count]))

    def _known(self, X: ArrayLike) -> Rows:
        """Return rows of the kind that the model was trained on."""
        check_is_fitted(self, "model_")
        with _mended_by_the_caller():
            values = self._values(X, reset=False)
            refuse_classes_above(values, self.column_classes_, "X")
            return _InDoublePrecision(dataset_of(values, Schema.of(values.columns, self.column_classes_)))

    def _values(self, X: ArrayLike, *, reset: bool) -> Values:
        if np.ma.is_masked(X):
            X = np.ma.filled(np.ma.asarray(X, dtype=np.float64), np.nan)
        least = 2 if reset else 1
        try:
            checked = validate_data(
                self, _without_categories(X), reset=reset, ensure_min_samples=least, ensure_all_finite="allow-nan"
            )
            if checked.dtype.kind == "O":
                # A list with None.
                checked = checked.astype(np.float64)
        except ValueError as error:
            if "string" not in str(error):
                raise
            raise DataError(f"{error}; {RULE}: encode words with sklearn.preprocessing.OrdinalEncoder") from error
        if checked.dtype.kind in "if":
            check_non_negative(checked, type(self).__name__)
        return as_values(checked, "X")


class _InDoublePrecision:
    """A view of rows with x in double precision."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, index: torch.Tensor, device: torch.device | None = None) -> Batch:
        """Return the rows with these numbers."""
        batch = self._rows.batch(index, device)
        return replace(batch, x=batch.x.double())


def _without_categories(X: Any) -> Any:
    """Return a data frame with NaN for missing values in its columns of categories and objects."""
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        return X
    doubtful = {name: object for name, dtype in X.dtypes.items() if str(dtype) in ("category", "object")}
    if not doubtful:
        return X
    plain = X.astype(doubtful)
    return plain.where(plain.notna(), np.nan)


def _whole(name: str, given: Any, lowest: int = 1) -> int:
    """Return a setting as a Python integer, or refuse one that is not an integer of any library."""
    if given is None:
        raise UsageError(f"{name.replace('_', '-')} must be a whole number, not None")
    check_at_least(lowest, **{name: given})
    return index(given)


def _widths(name: str, given: object) -> tuple[int, ...]:
    """Return the widths of layers; a single one may be given as a number.

    >>> _widths("latents", 3), _widths("latents", np.array([4, 2])), _widths("hidden", ())
    ((3,), (4, 2), ())
    """
    several: list[Any] = list(given) if isinstance(given, list | tuple | np.ndarray) else [given]
    return tuple(_whole(name, width) for width in several)


@contextmanager
def _mended_by_the_caller() -> Iterator[None]:
    """Raise invalid values and settings as ValueErrors, as scikit-learn expects, and advise after a divergence."""
    try:
        yield
    except NumericalError as error:
        raise NumericalError(f"{error.__cause__ or error}; a lower learning_rate often helps") from error
    except (UsageError, DataError) as error:
        raise ValueError(str(error)) from error
