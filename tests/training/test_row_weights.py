"""The weights of training rows: scaled once to mean one, learned by, and validated with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from helpers.small_runs import Quiet, new_folder, patterned, small_config, small_model
from jsa import JSA, Batch, BeliefNetwork, Learner, exact_likelihood, likelihood
from jsa.batch import Estimate
from jsa.data import IndexedDataset
from jsa.errors import UsageError
from jsa.estimators import Enumeration
from jsa.evaluation.rows import Subset
from jsa.model import LatentVariableModel
from jsa.training.loop import TrainingRows, train


class Recording(Enumeration):
    """Remembers the weights of the rows that it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, Tensor | None]] = []

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        self.seen.append((batch.row_numbers, batch.weight))
        return super().forward(model, batch)


def with_weights(rows: IndexedDataset, weights: Tensor | None) -> IndexedDataset:
    return IndexedDataset(rows.rows, weights=weights)


def trained_with(
    path: Path, weights: Tensor | None, estimator: JSA | Enumeration, valid_weights: Tensor | None = None
) -> tuple[BeliefNetwork, Quiet]:
    model, watcher = small_model(), Quiet()
    rows = with_weights(patterned(100, seed=1), weights)
    valid = with_weights(patterned(40, seed=2), valid_weights)
    config = small_config(epochs=4, batch_size=16)
    torch.manual_seed(0)
    train(Learner(model, estimator), TrainingRows(rows, valid), config, new_folder(path, config), [watcher])
    return model, watcher


def test_weights_are_scaled_to_mean_one_over_all_training_rows(tmp_path: Path) -> None:
    """The mean of a batch is another one: it is not divided by."""
    weights = 10 * torch.rand(100, generator=torch.Generator().manual_seed(0)) + 3
    weights[7] = 0
    estimator = Recording()
    trained_with(tmp_path / "run", weights, estimator)
    for index, weight in estimator.seen:
        assert weight is not None
        torch.testing.assert_close(weight, weights[index] / weights.mean())
    of_an_epoch = [weight for _, weight in estimator.seen[:7] if weight is not None]
    assert float(torch.cat(of_an_epoch).double().mean()) == pytest.approx(1, abs=1e-6)
    assert all(abs(float(weight.mean()) - 1) > 1e-3 for weight in of_an_epoch)


def test_equal_weights_change_no_bit(tmp_path: Path) -> None:
    models = [
        trained_with(tmp_path / name, weights, JSA(small_model().latent, rows=100))[0].state_dict()
        for name, weights in (("none", None), ("ones", torch.ones(100)), ("sevens", torch.full((100,), 7.0)))
    ]
    plain, *others = models
    for other in others:
        assert all(torch.equal(plain[name], other[name]) for name in plain)


def test_rows_are_learned_as_their_weights_say(tmp_path: Path) -> None:
    """Rows of weight zero are as if they were not there: those of one kind are learned better than from all rows."""
    rows = patterned(100, seed=1)
    first_block_on = rows.rows[:, :4].float().mean(1) > 0.5
    kind = Subset(rows, first_block_on.nonzero().flatten())
    nlls = {}
    for name, weights in (("all", None), ("kind", first_block_on.float())):
        model, _ = trained_with(tmp_path / name, weights, Enumeration())
        nlls[name] = exact_likelihood(model, kind).nll
    assert nlls["kind"] < nlls["all"] - 0.3


def test_the_validation_is_weighted(tmp_path: Path) -> None:
    weights = torch.zeros(40)
    weights[:3] = torch.tensor([1.0, 4.0, 2.0])
    model, watcher = trained_with(tmp_path / "run", None, Enumeration(), weights)
    valid = patterned(40, seed=2)
    found = watcher.records[-1]["valid_nll"]
    config = small_config()
    expected = likelihood(model, with_weights(valid, weights), config.validation.validation_samples, seed=config.seed)
    assert found == expected.nll
    assert found != likelihood(model, valid, config.validation.validation_samples, seed=config.seed).nll


def test_training_rows_that_do_not_count_are_refused_before_the_first_step(tmp_path: Path) -> None:
    estimator = Recording()
    with pytest.raises(UsageError, match="the weights of all 100 rows are zero, so no row counts"):
        trained_with(tmp_path / "run", torch.zeros(100), estimator)
    assert not estimator.seen


def test_a_wrong_weight_names_its_row_before_the_first_step(tmp_path: Path) -> None:
    rows = with_weights(patterned(100, seed=1), torch.ones(100))
    assert rows.weights is not None
    rows.weights[41] = torch.nan
    estimator, config = Recording(), small_config()
    with pytest.raises(UsageError, match="row 41 has weight nan"):
        train(
            Learner(small_model(), estimator),
            TrainingRows(rows, patterned(40, seed=2)),
            config,
            new_folder(tmp_path / "run", config),
        )
    assert not estimator.seen
