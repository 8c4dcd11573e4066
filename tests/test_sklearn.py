"""The door for scikit-learn: its own checks, and what the figures mean."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from itertools import product
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, OrdinalEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from helpers.block_tables import blocks
from jsa.errors import NumericalError
from jsa.sklearn import DiscreteLatentModel


def tiny(**settings: object) -> DiscreteLatentModel:
    model = DiscreteLatentModel(latents=2, epochs=2, samples=20, random_state=0)
    model.set_params(**settings)
    return model


def three_bits() -> DiscreteLatentModel:
    """What learns the blocks of the table."""
    return DiscreteLatentModel(latents=3, epochs=60, learning_rate=0.03, random_state=0)


CHECKS: pytest.MarkDecorator = parametrize_with_checks([tiny()])


@CHECKS
def test_it_is_an_estimator_as_scikit_learn_defines_it(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    return blocks(400, seed=3)


@pytest.fixture(scope="module")
def model(table: np.ndarray) -> DiscreteLatentModel:
    return three_bits().fit(table)


def every_row(columns: int, values: int = 2) -> np.ndarray:
    return np.array(list(product(range(values), repeat=columns)))


def test_it_learns_what_columns_have_in_common(model: DiscreteLatentModel) -> None:
    new = blocks(400, seed=4)
    # Three fair bits, of which four columns each are copies with one in forty flipped: 5 % are drawn anew.
    error = 0.025
    noise = -(error * np.log(error) + (1 - error) * np.log(1 - error))
    ideal = -(3 * np.log(2) + 12 * noise)
    alone = 12 * np.log(0.5)
    assert ideal - 1.0 < model.score(new) < ideal + 0.5
    assert model.score(new) > alone + 3
    assert model.score(new) == pytest.approx(model.score_samples(new).mean())


@pytest.mark.parametrize("settings", [{}, {"latent_classes": 3}, {"latents": (3, 2)}, {"hidden": (5,)}])
def test_probabilities_of_all_rows_sum_to_one(settings: dict[str, Any]) -> None:
    rows = np.random.default_rng(0).integers(0, 3, (30, 4))
    found = tiny(**{"samples": 100, **settings}).fit(rows)
    assert found.column_classes_ == 3
    assert np.exp(found.score_samples(every_row(4, 3))).sum() == pytest.approx(1, abs=1e-5)


def test_samples_estimate_what_enumeration_gives(model: DiscreteLatentModel, table: np.ndarray) -> None:
    # Eight states are summed over by 1,000 samples, and estimated by 7 of them.
    few = deepcopy(model).set_params(samples=7)
    exact, estimated = model.score_samples(table), few.score_samples(table)
    assert np.abs(exact - estimated).max() > 1e-3
    assert estimated.mean() == pytest.approx(exact.mean(), abs=0.5)


def test_samples_come_from_the_model(model: DiscreteLatentModel) -> None:
    rows = every_row(12)
    weights = np.exp(model.score_samples(rows))
    expected = weights @ rows
    drawn = model.sample(5_000, random_state=1)
    assert drawn.dtype == np.int64
    errors = (drawn.mean(0) - expected) / np.sqrt(expected * (1 - expected) / len(drawn))
    assert np.abs(errors).max() < 4.5
    # Columns of one block agree; independent columns of these means would not.
    agreed = (drawn[:, 0] == drawn[:, 1]).mean()
    assert agreed == pytest.approx(weights @ (rows[:, 0] == rows[:, 1]), abs=0.03)
    assert agreed > 0.8
    assert np.array_equal(model.sample(3, random_state=1), model.sample(3, random_state=1))
    assert set(np.unique(tiny().fit(np.array([[0, 3], [2, 1]])).sample(200))) == {0, 1, 2, 3}


def test_codes_tell_the_blocks_apart(model: DiscreteLatentModel) -> None:
    codes = model.transform(np.repeat(every_row(3), 4, axis=1))
    assert codes.shape == (8, 3)
    assert len(np.unique(codes.round(), axis=0)) == 8
    assert list(model.get_feature_names_out()) == [f"discretelatentmodel{number}" for number in range(3)]


def test_the_best_epoch_is_taken(model: DiscreteLatentModel) -> None:
    validated = {line["epoch"]: line["valid_nll"] for line in model.history_ if "valid_nll" in line}
    assert len(model.history_) == 60
    assert (model.best_epoch_, model.validation_nll_) == min(validated.items(), key=lambda one: one[1])


def test_it_is_repeatable_and_leaves_the_callers_random_numbers_alone(table: np.ndarray) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = (tiny().fit(table) for _ in range(2))
    other = tiny(random_state=1).fit(table)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(first.transform(table), second.transform(table))
    assert not np.array_equal(first.transform(table), other.transform(table))
    again = pickle.loads(pickle.dumps(first))
    assert np.array_equal(first.score_samples(table), again.score_samples(table))


def test_denormal_numbers_stay_as_they_are(table: np.ndarray) -> None:
    tiny().fit(table)
    assert np.array([5e-324]) * 1 > 0
    torch.set_flush_denormal(True)
    tiny().fit(table)
    assert np.array([5e-324]) * 1 == 0


def test_it_can_be_searched_over_and_stand_in_a_pipeline(table: np.ndarray) -> None:
    search = GridSearchCV(tiny(), {"latents": [1, 3]}, cv=2).fit(table)
    assert search.best_params_["latents"] in (1, 3)
    whole = make_pipeline(Binarizer(threshold=0.5), tiny()).fit(table + 0.25)
    assert whole.transform(table + 0.25).shape == (400, 2)


WHOLE = ("latents", "latent_classes", "epochs", "particles", "batch_size")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        *(({name: 2.5}, f"{name.replace('_', '-')} must be a whole number, not 2.5") for name in WHOLE),
        ({"latents": "12"}, "latents must be a whole number, not 12"),
        ({"latents": None}, "latents must be a whole number, not None"),
        ({"epochs": None}, "epochs must be a whole number, not None"),
        ({"latents": 0}, "latents must be 1 or more, not 0"),
        ({"latents": ()}, "latents must name the units of 1 layer or more"),
        ({"hidden": [3, 0]}, "hidden must be 1 or more, not 0"),
        ({"prior": "learnt"}, "the prior must be 'fixed' or 'learned', not 'learnt'"),
        ({"method": "vimko"}, "did you mean 'vimco'?"),
        ({"method": "arsm"}, "ARSM is for categorical latents"),
        ({"epochs": 0}, "epochs"),
        ({"samples": 0}, "samples must be 1 or more, not 0"),
        ({"validation_fraction": 1.0}, "validation-fraction must be above 0 and below 1, not 1.0"),
        ({"device": "nowhere"}, "nowhere"),
    ],
)
def test_wrong_settings_are_value_errors(table: np.ndarray, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        tiny(**settings).fit(table)


def test_whole_numbers_of_numpy_will_do(table: np.ndarray) -> None:
    settings = {"latents": np.int64(2), "hidden": np.array([3]), "epochs": np.int32(2), "particles": np.int64(2)}
    assert tiny(**settings).fit(table).transform(table).shape == (400, 2)
    assert tiny(hidden=3).fit(table).transform(table).shape == (400, 2)
    assert tiny().fit(table).transform(np.ma.masked_array(table)).shape == (400, 2)


Call = Callable[[DiscreteLatentModel, np.ndarray], object]

REFUSALS: list[tuple[Call, str]] = [
    (lambda model, table: tiny().fit(np.array([[0.5, 1], [0, 1]])), r"X: row 1, column 1 \(counted from 1\) holds 0.5"),
    (
        lambda model, table: model.transform(table + 1),
        r"X: row \d+, column \d+ \(counted from 1\) holds 2, but 2 classes go up to 1",
    ),
    (lambda model, table: model.sample(0), "n-samples must be 1 or more, not 0"),
    (lambda model, table: model.sample(2.5), r"n-samples must be a whole number, not 2\.5"),  # type: ignore[arg-type]
    (lambda model, table: tiny().fit(table.astype("datetime64[D]")), "X holds values of type datetime64"),
    (lambda model, table: tiny().fit(with_gap(table, 3, slice(None))), "X: row 4 .* at all: leave it out"),
    (lambda model, table: tiny().fit(with_gap(table, slice(None), 2)), "X: column 3 .* to learn from: leave it out"),
    (lambda model, table: DiscreteLatentModel().sample(), "not fitted"),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSALS)
def test_wrong_values_are_named(model: DiscreteLatentModel, table: np.ndarray, call: Call, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call(model, table)


def with_gap(table: np.ndarray, row: int | slice, column: int | slice) -> np.ndarray:
    """The table without these values."""
    holes = table.astype(float)
    holes[row, column] = np.nan
    return holes


@pytest.fixture(scope="module")
def gaps(table: np.ndarray) -> np.ndarray:
    """Which values are missing: at most three of the four of a block."""
    missing = np.random.default_rng(0).random(table.shape) < 0.3
    missing[:, ::4] = False
    return missing


@pytest.fixture(scope="module")
def open_to_gaps(table: np.ndarray, gaps: np.ndarray) -> DiscreteLatentModel:
    return three_bits().fit(np.where(gaps, np.nan, table))


def test_it_learns_from_what_is_there(
    open_to_gaps: DiscreteLatentModel, table: np.ndarray, gaps: np.ndarray, model: DiscreteLatentModel
) -> None:
    # Learned from 70 % of the values of three quarters of the columns, and nearly as good.
    new = blocks(400, seed=4)
    assert model.score(new) - 0.5 < open_to_gaps.score(new)
    # The probability of a row with a gap is the sum over what may stand in it.
    row = np.where(np.arange(12) == 5, np.nan, new[:1])
    filled = np.concatenate([np.where(np.isnan(row), value, row) for value in (0, 1)])
    found, parts = open_to_gaps.score_samples(row), open_to_gaps.score_samples(filled)
    assert float(found[0]) == pytest.approx(np.logaddexp(*parts), abs=1e-5)


def test_gaps_are_filled_in(open_to_gaps: DiscreteLatentModel, table: np.ndarray, gaps: np.ndarray) -> None:
    holes = np.where(gaps, np.nan, table)
    found = open_to_gaps.impute(holes)
    assert found.dtype == np.int64
    assert np.array_equal(found[~gaps], table[~gaps])
    assert (found == table)[gaps].mean() > 0.9
    one, again, other = (open_to_gaps.impute(holes, draw=True, random_state=seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert np.array_equal(open_to_gaps.impute(np.ma.masked_array(table, mask=gaps)), found)
    assert np.array_equal(open_to_gaps.impute(table), table)


@pytest.mark.parametrize("kind", ["int64", "Int64", "boolean", "category", "one category", "object", "NA", "list"])
def test_frames_and_lists_are_what_the_array_is(table: np.ndarray, gaps: np.ndarray, kind: str) -> None:
    array = np.where(gaps, np.nan, table) if kind != "int64" else table
    whole = pandas.DataFrame(table, columns=[f"question {number}" for number in range(12)])
    X: Any = [[None if np.isnan(value) else int(value) for value in row] for row in array]
    if kind != "list":
        kinds = {"one category": {"question 1": "category"}, "NA": "object"}
        frame = whole if kind == "int64" else whole.astype("bool" if kind == "boolean" else "int64")
        X = frame.astype(kinds.get(kind, kind))
        X = X.mask(np.isnan(array), pandas.NA) if kind == "NA" else X.mask(np.isnan(array))
    fitted, expected = tiny().fit(X), tiny().fit(array)
    assert np.array_equal(fitted.transform(X), expected.transform(array))
    assert np.array_equal(fitted.impute(X), expected.impute(array))
    if kind != "list":
        assert fitted.feature_names_in_.tolist() == whole.columns.tolist()


def test_words_are_encoded_before_and_come_back(table: np.ndarray, gaps: np.ndarray) -> None:
    words = pandas.DataFrame(np.where(table, "yes", "no")).mask(gaps)
    words.columns = [f"question {number}" for number in range(12)]
    for wrong in (words, words.astype("category"), np.where(table, "yes", "no"), np.where(table, "yes", "no").tolist()):
        with pytest.raises(ValueError, match=r"string.*; a table holds whole numbers.*OrdinalEncoder"):
            tiny().fit(wrong)
    encoder, model = OrdinalEncoder(), three_bits()
    encoded = encoder.fit_transform(words)
    filled = pandas.DataFrame(encoder.inverse_transform(model.fit(encoded).impute(encoded)), columns=words.columns)
    assert filled.where(~gaps).equals(words.where(~gaps))
    assert (filled.to_numpy() == np.where(table, "yes", "no"))[gaps].mean() > 0.9


def test_a_model_of_complete_rows_takes_gaps(model: DiscreteLatentModel, table: np.ndarray, gaps: np.ndarray) -> None:
    holes = np.where(gaps, np.nan, table)
    assert np.isfinite(model.transform(holes)).all()
    assert (model.impute(holes) == table)[gaps].mean() > 0.9
    assert np.isfinite(cross_val_score(tiny(), with_gap(table, 7, 2), cv=3)).all()


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jsa.training.loop.learning_rate_share", lambda *_: 1e41)


@pytest.mark.usefixtures("diverging")
def test_a_fit_that_fails_leaves_an_earlier_one_as_it_was(model: DiscreteLatentModel, table: np.ndarray) -> None:
    again = deepcopy(model)
    with pytest.raises(NumericalError):
        again.fit(2 * table[:, 1:])
    assert again.column_classes_ == 2
    assert again.n_features_in_ == table.shape[1]
    assert np.array_equal(again.score_samples(table), model.score_samples(table))
    never = tiny(latents=0)
    with pytest.raises(ValueError, match="latents must be 1 or more"):
        never.fit(table)
    with pytest.raises(NotFittedError):
        never.transform(table)


@pytest.mark.usefixtures("diverging")
def test_a_training_that_diverges_says_what_helps(table: np.ndarray) -> None:
    with pytest.raises(NumericalError, match="a lower learning_rate often helps") as caught:
        tiny().fit(table)
    assert "--resume" not in str(caught.value)


def test_without_scikit_learn_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import jsa; jsa.likelihood; import jsa.sklearn"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'jsa.sklearn needs scikit-learn: pip install "jsa-torch[sklearn]"' in found.stderr
