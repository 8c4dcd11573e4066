"""The training loop on small data."""

import dataclasses
import math
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from helpers.small_runs import Quiet, new_folder, patterned, small_config, small_model, trained
from jsa import JSA, Batch, BeliefNetwork, Bernoulli, LatentSpace, LatentVariableModel, Layer, Learner
from jsa.chains import FrozenChains
from jsa.data import Scan
from jsa.errors import NumericalError
from jsa.evaluation.likelihood import exact_likelihood
from jsa.posteriors import LayeredPosterior
from jsa.runs.config import MachineConfig, RunConfig
from jsa.runs.folder import RunFolder
from jsa.training.config import OptimizerConfig, ValidationConfig
from jsa.training.loop import TrainingRows, train
from jsa.training.selection import ValidatedEpoch
from jsa.training.state import read_chains
from jsa.training.weights import load_weights


def run_small(path: Path, config: RunConfig, estimator: str = "jsa") -> tuple[BeliefNetwork, ValidatedEpoch, Quiet]:
    watcher = Quiet()
    model, leading, _ = trained(path, dataclasses.replace(config, estimator=estimator), watcher)
    return model, leading.best, watcher


@pytest.mark.parametrize("scan", ["shuffle", "random"])
def test_it_learns_and_leaves_its_files(tmp_path: Path, scan: Scan) -> None:
    untrained = exact_likelihood(small_model(), patterned(40, seed=2)).nll
    model, best, watcher = run_small(tmp_path / "run", small_config(epochs=30, scan=scan))
    assert exact_likelihood(model, patterned(40, seed=2)).nll < untrained - 1.0
    assert [record["stage"] for record in watcher.records[:5]] == [1, 1, 1, 2, 2]
    assert [("valid_nll" in record) for record in watcher.records[:4]] == [False, True, False, True]
    for record in watcher.records:
        for name in (
            "acceptance",
            "effective_sample_size",
            "cached_state_win_rate",
            "chain_age",
            "frozen_share",
            "objective",
        ):
            assert math.isfinite(float(str(record[name])))
        in_stage_two = "valid_nll" in record and record["stage"] == 2
        assert ("frozen_after_20_passes" in record) == in_stage_two
    written = list(RunFolder.open(tmp_path / "run").read_metrics())
    assert [record["epoch"] for record in written] == list(range(1, 31))
    lowest = min((record["valid_nll"], record["epoch"]) for record in written if "valid_nll" in record)
    assert (best.nll, best.epoch) == lowest


def test_the_best_checkpoint_is_that_of_the_best_epoch(tmp_path: Path) -> None:
    # A huge last learning rate spoils the model, so that best and last differ.
    config = small_config(optimization=OptimizerConfig(learning_rate=1.0), epochs=8)
    model, best, _ = run_small(tmp_path / "run", config)
    folder = RunFolder.open(tmp_path / "run")
    notes = load_weights(model, folder.best)
    assert notes["epoch"] == best.epoch
    assert notes["valid_nll"] == best.nll
    last = load_weights(model, folder.last)
    assert last["epoch"] == 8


def test_equal_seeds_give_equal_weights_to_the_bit(tmp_path: Path) -> None:
    one = run_small(tmp_path / "one", small_config())[0].state_dict()
    two = run_small(tmp_path / "two", small_config())[0].state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    other = run_small(tmp_path / "other", small_config(seed=5))[0].state_dict()
    assert not all(torch.equal(one[name], other[name]) for name in one)
    chains = [read_chains(tmp_path / name / "state.safetensors") for name in ("one", "two")]
    assert torch.equal(chains[0]["states"], chains[1]["states"])


def test_validation_leaves_the_training_as_it_is(tmp_path: Path) -> None:
    often = small_config(validation=ValidationConfig(validate_every=1, validation_samples=7))
    one = run_small(tmp_path / "one", small_config())[0].state_dict()
    two = run_small(tmp_path / "two", often)[0].state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_chains_on_disk_give_the_same_training(tmp_path: Path) -> None:
    in_memory = run_small(tmp_path / "one", small_config())[0].state_dict()
    config = small_config(machine=MachineConfig(threads=1, chains_on_disk=True))
    on_disk = run_small(tmp_path / "two", config)[0].state_dict()
    assert all(torch.equal(in_memory[name], on_disk[name]) for name in on_disk)
    assert (tmp_path / "two" / "chains").is_dir()
    assert not (tmp_path / "one" / "chains").exists()


def test_it_stops_early(tmp_path: Path) -> None:
    validation = ValidationConfig(validate_every=1, validation_samples=50, stop_after=2)
    config = small_config(
        epochs=60, validation=validation, optimization=OptimizerConfig(learning_rate=1.0), batch_size=5
    )
    _, best, watcher = run_small(tmp_path / "run", config)
    assert len(watcher.records) == best.epoch + 2 < 60


def test_the_average_of_the_weights_is_what_is_kept(tmp_path: Path) -> None:
    config = small_config(optimization=OptimizerConfig(learning_rate=0.02, average_decay=0.99))
    model, _, _ = run_small(tmp_path / "run", config)
    kept = load_file(tmp_path / "run" / "last.safetensors")
    raw = model.state_dict()
    start = small_model().state_dict()
    name = "generative.0.network.layers.0.weight"
    assert not torch.equal(kept[name], raw[name])
    assert (kept[name] - start[name]).norm() < (raw[name] - start[name]).norm()


def test_whoever_watches_is_told_of_frozen_chains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    still = FrozenChains(100, 100, 3_000, {1: 1.0, 5: 1.0, 20: 0.75}, ((8, 30.0),))
    monkeypatch.setattr("jsa.training.callbacks.frozen_chains", lambda cache: still)
    _, _, watcher = run_small(tmp_path / "run", small_config())
    assert watcher.notes == [still.warning] * 2
    assert [record.get("frozen_after_20_passes") for record in watcher.records] == [None, None, None, 0.75, None, 0.75]


class Breaking(LatentVariableModel):
    """A model whose joint density has another value from a certain call on."""

    def __init__(self, good_calls: int, then: float = math.nan) -> None:
        super().__init__()
        self.then = then
        self.latent = LatentSpace.of(Layer("bernoulli", 2))
        self.logits = nn.Parameter(torch.zeros(2))
        self.good_calls = good_calls

    def posterior(self, batch: Batch) -> LayeredPosterior:
        return LayeredPosterior(self.latent, Bernoulli(self.logits.expand(len(batch), -1)))

    def log_joint(self, batch: Batch, h: torch.Tensor) -> torch.Tensor:
        value = (h * self.logits).sum(-1) - 1.0
        if self.training:
            self.good_calls -= 1
        return value if self.good_calls > 0 else torch.full_like(value, self.then)


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    config = small_config()
    folder = new_folder(tmp_path / "run", config)
    rows = patterned(100, seed=1)
    # One or two calls a step and five steps an epoch, and one call for the validation after the second.
    model = Breaking(good_calls=25)
    with pytest.raises(NumericalError) as caught:
        train(
            Learner(model, JSA(model.latent, len(rows))),
            TrainingRows(rows, patterned(40, seed=2)),
            config,
            folder,
        )
    sentence = str(caught.value)
    found = re.search(r"at step (\d+) \(epoch (\d+)\) of JSA: log_joint is nan at row", sentence)
    assert found is not None
    step, epoch = int(found[1]), int(found[2])
    # The last checkpoint is that of the last leading epoch.
    assert step > 20
    assert "the checkpoint of step 20 is whole" in sentence
    assert f"jsa resume {folder.path} --non-finite skip" in sentence
    assert load_weights(model, folder.last)["epoch"] == epoch - 1 > 0
    assert not list(folder.path.glob(".*.part"))


def test_a_row_without_any_probability_is_named(tmp_path: Path) -> None:
    config = small_config()
    rows, model = patterned(100, seed=1), Breaking(good_calls=0, then=-math.inf)
    folder = new_folder(tmp_path / "run", config)
    with pytest.raises(NumericalError, match=r"at step 1 .*probability zero to row \d+ .*there is no checkpoint yet"):
        train(
            Learner(model, JSA(model.latent, len(rows))),
            TrainingRows(rows, patterned(40, seed=2)),
            config,
            folder,
        )


@pytest.mark.parametrize("batch_size", [20, 100])
def test_exploding_weights_are_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int) -> None:
    # With all rows in one batch, the only step is also the last one.
    monkeypatch.setattr("jsa.training.loop.learning_rate_share", lambda *_: 1e41)
    config = small_config(optimization=OptimizerConfig(optimizer="sgd"), epochs=1, batch_size=batch_size)
    with pytest.raises(NumericalError, match="at step"):
        run_small(tmp_path / "run", config, "enumeration")
    for checkpoint in (tmp_path / "run").glob("*.safetensors"):
        assert all(tensor.isfinite().all() for tensor in load_file(checkpoint).values())


@pytest.mark.parametrize(("estimator", "states"), [("rloo", 2), ("enumeration", 8)])
def test_decoder_evaluations_of_the_steps_are_counted_and_no_others(
    tmp_path: Path, estimator: str, states: int
) -> None:
    _, _, watcher = run_small(tmp_path / "run", small_config(epochs=3), estimator)
    assert [record["decoder_evaluations"] for record in watcher.records] == [100 * states * n for n in (1, 2, 3)]
