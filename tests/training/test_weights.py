"""Weights to and from files."""

from pathlib import Path

import pytest
import torch

from jsa import BeliefNetwork, LatentSpace, Layer
from jsa.errors import CheckpointError, NumericalError, UsageError
from jsa.io.tensor_files import save_tensors
from jsa.runs.folder import RunFolder, unused
from jsa.training.weights import load_weights, save_weights


def model_of(width: int) -> BeliefNetwork:
    return BeliefNetwork(Layer("bernoulli", 5), LatentSpace.of(Layer("bernoulli", width)))


def test_weights_come_back(tmp_path: Path) -> None:
    one, two = model_of(3), model_of(3)
    save_weights(one, tmp_path / "w.safetensors", {"epoch": 4})
    notes = load_weights(two, tmp_path / "w.safetensors")
    assert notes["epoch"] == 4
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    save_weights(model_of(3), tmp_path / "w.safetensors", {})
    with pytest.raises(CheckpointError, match=r"another model: .* is \(5, 3\) there and \(5, 4\) in this model"):
        load_weights(model_of(4), tmp_path / "w.safetensors")


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_a_damaged_file_is_recognized(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(model_of(3), path, {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="damaged"):
        load_weights(model_of(3), path)


def test_a_file_of_another_format_says_so(tmp_path: Path) -> None:
    save_tensors(tmp_path / "w.safetensors", model_of(3).state_dict(), {"format": 99})
    with pytest.raises(CheckpointError, match="has format 99; this version of jsa reads 1"):
        load_weights(model_of(3), tmp_path / "w.safetensors")


def test_a_missing_file_says_what_that_means(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="first validation"):
        load_weights(model_of(3), tmp_path / "none.safetensors")


def test_weights_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    model = model_of(3)
    with torch.no_grad():
        next(model.parameters())[0, 0] = float("inf")
    with pytest.raises(NumericalError, match="not finite"):
        save_weights(model, tmp_path / "w.safetensors", {})
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    from jsa.runs.config import RunConfig

    (tmp_path / "run").mkdir()
    RunFolder(tmp_path / "run").begin(RunConfig())
    with pytest.raises(UsageError, match="exists already"):
        RunFolder(tmp_path / "run").begin(RunConfig())
    assert unused(tmp_path / "run").name == "run-2"
    assert unused(tmp_path / "fresh").name == "fresh"


def test_equal_weights_are_equal_files(tmp_path: Path) -> None:
    model, notes = model_of(3), {"epoch": 4, "valid_nll": 100.5, "stage": 2, "step": 17}
    for name in ("one", "two"):
        save_weights(model, tmp_path / name, notes)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
