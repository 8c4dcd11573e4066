"""The training loop on small data."""

import dataclasses
import math
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from jsa import JSA, Batch, BeliefNetwork, Bernoulli, Enumeration, LatentSpace, LatentVariableModel, Layer
from jsa.configuration import MachineConfig, OptimiserConfig, StageConfig, TrainConfig, ValidationConfig
from jsa.data import IndexedDataset
from jsa.errors import NumericalError
from jsa.evaluation.likelihood import exact_likelihood
from jsa.posteriors import LayeredPosterior
from jsa.training.checkpoint import load_weights
from jsa.training.folder import RunFolder
from jsa.training.loop import train
from jsa.training.selection import BestEpoch


class Quiet:
    """A watcher that remembers the records."""

    def __init__(self) -> None:
        self.records: list[Mapping[str, object]] = []

    def step(self, epoch: int) -> None: ...

    def validating(self, rows: int):
        return lambda count: None

    def epoch(self, record: Mapping[str, object]) -> None:
        self.records.append(dict(record))


def patterned(rows: int, seed: int) -> IndexedDataset:
    """Rows of 8 bits in two blocks that are all on or all off, with some bits turned."""
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.randint(0, 2, (rows, 2), generator=generator, dtype=torch.uint8)
    turned = (torch.rand(rows, 8, generator=generator) < 0.05).to(torch.uint8)
    return IndexedDataset(blocks.repeat_interleave(4, dim=1) ^ turned)


def small_config(**changes: object) -> TrainConfig:
    config = TrainConfig(
        epochs=6,
        batch_size=20,
        stages=StageConfig(switch_epoch=3),
        optimisation=OptimiserConfig(learning_rate=0.02),
        validation=ValidationConfig(validate_every=2, validation_samples=50),
        machine=MachineConfig(threads=1),
    )
    return dataclasses.replace(config, **changes)


def small_model() -> BeliefNetwork:
    torch.manual_seed(0)
    return BeliefNetwork(Layer("bernoulli", 8), LatentSpace.of(Layer("bernoulli", 3)), hidden=(6,))


def run_small(path: Path, config: TrainConfig, estimator_kind: str = "jsa") -> tuple[BeliefNetwork, BestEpoch, Quiet]:
    rows, valid = patterned(100, seed=1), patterned(40, seed=2)
    model, watcher = small_model(), Quiet()
    estimator = JSA(model.latent, len(rows)) if estimator_kind == "jsa" else Enumeration()
    best = train(model, estimator, rows, valid, config, RunFolder.create(path, config), watcher)
    return model, best, watcher


@pytest.mark.parametrize("scan", ["shuffle", "random"])
def test_it_learns_and_leaves_its_files(tmp_path: Path, scan: str) -> None:
    untrained = exact_likelihood(small_model(), patterned(40, seed=2)).nll
    model, best, watcher = run_small(tmp_path / "run", small_config(epochs=30, scan=scan))
    assert exact_likelihood(model, patterned(40, seed=2)).nll < untrained - 1.0
    assert [record["stage"] for record in watcher.records[:5]] == [1, 1, 1, 2, 2]
    assert [("valid_nll" in record) for record in watcher.records[:4]] == [False, True, False, True]
    for record in watcher.records:
        for name in ("acceptance", "effective_sample_size", "chain_age", "frozen_share", "objective"):
            assert math.isfinite(float(str(record[name])))
    written = list(RunFolder.open(tmp_path / "run").read_metrics())
    assert [record["epoch"] for record in written] == list(range(1, 31))
    lowest = min((record["valid_nll"], record["epoch"]) for record in written if "valid_nll" in record)
    assert (best.nll, best.epoch) == lowest


def test_the_best_checkpoint_is_that_of_the_best_epoch(tmp_path: Path) -> None:
    # A huge last learning rate spoils the model, so that best and last differ.
    config = small_config(optimisation=OptimiserConfig(learning_rate=1.0), epochs=8)
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
    chains = [load_file(tmp_path / name / "chains.safetensors") for name in ("one", "two")]
    assert torch.equal(chains[0]["states"], chains[1]["states"])


def test_validation_leaves_the_training_as_it_is(tmp_path: Path) -> None:
    often = small_config(validation=ValidationConfig(validate_every=1, validation_samples=7))
    one = run_small(tmp_path / "one", small_config())[0].state_dict()
    two = run_small(tmp_path / "two", often)[0].state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_mapped_chains_give_the_same_training(tmp_path: Path) -> None:
    in_memory = run_small(tmp_path / "one", small_config())[0].state_dict()
    rows, model = patterned(100, seed=1), small_model()
    config = small_config(machine=MachineConfig(threads=1, mapped_chains=True))
    folder = RunFolder.create(tmp_path / "two", config)
    estimator = JSA(model.latent, len(rows), cache_folder=folder.mapped_chains)
    train(model, estimator, rows, patterned(40, seed=2), config, folder, Quiet())
    mapped = model.state_dict()
    assert all(torch.equal(in_memory[name], mapped[name]) for name in mapped)
    assert not folder.chains.exists()


def test_it_stops_early(tmp_path: Path) -> None:
    validation = ValidationConfig(validate_every=1, validation_samples=50, stop_after=2)
    config = small_config(
        epochs=60, validation=validation, optimisation=OptimiserConfig(learning_rate=1.0), batch_size=5
    )
    _, best, watcher = run_small(tmp_path / "run", config)
    assert len(watcher.records) == best.epoch + 2 < 60


def test_the_average_of_the_weights_is_what_is_kept(tmp_path: Path) -> None:
    config = small_config(optimisation=OptimiserConfig(learning_rate=0.02, average_decay=0.99))
    model, _, _ = run_small(tmp_path / "run", config)
    kept = load_file(tmp_path / "run" / "last.safetensors")
    raw = model.state_dict()
    start = small_model().state_dict()
    name = "generative.0.network.layers.0.weight"
    assert not torch.equal(kept[name], raw[name])
    assert (kept[name] - start[name]).norm() < (raw[name] - start[name]).norm()


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
    folder = RunFolder.create(tmp_path / "run", config)
    rows = patterned(100, seed=1)
    # One or two calls a step and five steps an epoch, and one call for the validation after the second.
    model = Breaking(good_calls=25)
    with pytest.raises(NumericalError) as caught:
        train(model, JSA(model.latent, len(rows)), rows, patterned(40, seed=2), config, folder, Quiet())
    sentence = str(caught.value)
    found = re.search(r"at step \d+ \(epoch (\d+)\)", sentence)
    assert found is not None
    assert "log_joint is nan at row" in sentence
    assert str(folder.last) in sentence
    assert load_weights(model, folder.last)["epoch"] == int(found[1]) - 1 > 0
    assert not list(folder.path.glob(".*.part"))


def test_a_row_without_any_probability_is_named(tmp_path: Path) -> None:
    config = small_config()
    rows, model = patterned(100, seed=1), Breaking(good_calls=0, then=-math.inf)
    folder = RunFolder.create(tmp_path / "run", config)
    with pytest.raises(NumericalError, match=r"at step 1 .*probability zero to row \d+ .*there is no checkpoint yet"):
        train(model, JSA(model.latent, len(rows)), rows, patterned(40, seed=2), config, folder, Quiet())


def test_exploding_weights_are_never_written(tmp_path: Path) -> None:
    config = small_config(optimisation=OptimiserConfig(optimiser="sgd", learning_rate=1e38), epochs=3)
    with pytest.raises(NumericalError, match="at step"):
        run_small(tmp_path / "run", config, "enumeration")
    for checkpoint in (tmp_path / "run").glob("*.safetensors"):
        assert all(tensor.isfinite().all() for tensor in load_file(checkpoint).values())
