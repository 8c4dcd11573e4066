"""``jsa.open_run`` and ``Run``: a trained run opened again, in this process and in a fresh one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import jsa
from helpers.own_models import Convolutional, convolutional, images

SHORT: dict[str, Any] = {
    "batch_size": 20,
    "learning_rate": 0.01,
    "validate_every": 2,
    "validation_samples": 5,
    "test_samples": 5,
    "progress": False,
    "threads": 1,
}
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> jsa.Run:
    torch.manual_seed(0)
    return jsa.fit(Convolutional(5), images(), epochs=5, out=tmp_path_factory.mktemp("own") / "run", config=SHORT)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> jsa.Run:
    model = jsa.BeliefNetwork(jsa.Layer("bernoulli", 64), jsa.LatentSpace.of(jsa.Layer("bernoulli", 3)), missing=True)
    rows = images().flatten(1).numpy()
    return jsa.fit(model, rows, epochs=4, out=tmp_path_factory.mktemp("ours") / "run", config=SHORT)


def weights(model: nn.Module) -> list[torch.Tensor]:
    return [value for value in model.state_dict().values() if isinstance(value, torch.Tensor)]


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(ours, theirs) for ours, theirs in zip(weights(one), weights(other), strict=True))


# Models


GIVEN = {"instance": lambda: Convolutional(5), "factory": lambda: lambda: Convolutional(5)}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_an_own_model_gets_the_weights_of_the_best_epoch(given: Any, own: jsa.Run) -> None:
    opened = jsa.open_run(own.path, given())
    assert same(opened.model, own.model)
    assert opened.notes["epoch"] == own.evaluation.best.epoch
    assert not opened.model.training
    assert opened.likelihood(images(), 20) == own.likelihood(images(), 20)


def test_the_last_weights_are_others(own: jsa.Run) -> None:
    last = jsa.open_run(own.path, Convolutional(5), checkpoint="last")
    assert last.notes["epoch"] == 5
    assert same(last.model, own.model) == (own.evaluation.best.epoch == 5)


def test_a_model_of_the_library_is_made_from_the_folder(ours: jsa.Run) -> None:
    opened = jsa.open_run(str(ours.path))
    assert same(opened.model, ours.model)


def test_opening_draws_no_random_numbers(ours: jsa.Run) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    jsa.open_run(ours.path)
    assert torch.equal(torch.get_rng_state(), before)


def test_without_an_own_model_figures_and_report_work_all_the_same(own: jsa.Run, tmp_path: Path) -> None:
    opened = jsa.open_run(own.path)
    assert opened.evaluation == own.evaluation
    assert list(opened.metrics["epoch"]) == [1, 2, 3, 4, 5]
    page = opened.report(tmp_path / "page.html").read_text()
    assert "jsa.fit of helpers.own_models:Convolutional" in page
    for method in (opened.encode, opened.sample, opened.likelihood, opened.describe):
        with pytest.raises(jsa.UsageError, match=r"holds the weights of helpers.own_models:Conv.*model=\.\.\."):
            method()


FRESH = """
import sys, torch, jsa
from helpers.own_models import Convolutional, images
torch.set_num_threads(1)
own, ours, folder = jsa.open_run(sys.argv[1], Convolutional(5)), jsa.open_run(sys.argv[2]), sys.argv[3]
saved = Convolutional.load(f"{folder}/own"), jsa.load_model(jsa.BeliefNetwork, f"{folder}/ours")
for model in (own.model, saved[0]):
    print(jsa.likelihood(model, images(), 20).nll.hex())
for model in (ours.model, saved[1]):
    print(jsa.likelihood(model, images().flatten(1), 20).nll.hex())
"""


def test_a_fresh_process_gives_the_same_nll(own: jsa.Run, ours: jsa.Run, tmp_path: Path) -> None:
    own.model.save(tmp_path / "own")
    jsa.save_model(ours.model, tmp_path / "ours")
    program = [sys.executable, "-c", FRESH, str(own.path), str(ours.path), str(tmp_path)]
    ended = subprocess.run(program, capture_output=True, text=True, cwd=TESTS, check=False)
    assert ended.returncode == 0, ended.stderr
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    own_nll, our_nll = own.likelihood(images(), 20).nll.hex(), ours.likelihood(images().flatten(1), 20).nll.hex()
    torch.set_num_threads(threads)
    assert ended.stdout.split() == [own_nll, own_nll, our_nll, our_nll]


# What it has


def test_metrics_are_arrays_that_a_data_frame_takes(own: jsa.Run) -> None:
    frame = pd.DataFrame(own.metrics)
    assert frame["epoch"].tolist() == [1, 2, 3, 4, 5]
    # Validated every second epoch and at the end.
    assert frame["valid_nll"].notna().tolist() == [False, True, False, True, True]
    assert frame["valid_nll"].min() == own.evaluation.best.nll
    assert frame["step"].dtype.kind == "i"


def test_its_methods_are_the_public_functions_at_its_model(own: jsa.Run, ours: jsa.Run) -> None:
    assert torch.equal(own.encode().states, jsa.encode(own.model, own.rows("test")).states)
    assert own.sample(7, seed=3).x.shape == (7, 1, 8, 8)
    assert torch.equal(own.sample(7, seed=3).x, jsa.sample(own.model, 7, seed=3).x)
    assert own.reconstruct(images()[:3]).means.shape == (3, 1, 8, 8)
    assert len(own.reconstruct().x) == 12
    assert own.describe().rows == 96
    gaps = images().flatten(1).numpy()
    gaps[:, :3] = np.nan
    filled = ours.impute(gaps, 50)
    assert filled.x.shape == (120, 64)
    assert not filled.x.isnan().any()


def test_it_draws_what_can_be_drawn(own: jsa.Run, ours: jsa.Run) -> None:
    assert [path.name for path in own.folder.outputs] == ["samples.png", "reconstructions.png", "curves.png"]
    assert [path.name for path in ours.folder.outputs] == ["samples.csv", "curves.png"]


def test_it_is_shown_in_a_notebook(own: jsa.Run, ours: jsa.Run) -> None:
    assert own.evaluation.test is not None
    figure = f"test NLL {own.evaluation.test.nll:.2f}"
    assert repr(own) == f"Run('{own.path}', helpers.own_models:Convolutional, jsa, {figure})"
    for run, pictures in ((own, 2), (ours, 1)):
        shown = run._repr_html_()
        assert shown.count("data:image/png;base64,") == pictures
        assert f"{run.evaluation.best.nll:.2f}" in shown
        assert len(shown) < 200_000


# Refusals


def test_what_is_no_run_is_refused(tmp_path: Path, own: jsa.Run) -> None:
    with pytest.raises(jsa.CheckpointError, match=r"nowhere is not a run folder: it has no config.json"):
        jsa.open_run(tmp_path / "nowhere")
    with pytest.raises(jsa.UsageError, match="the checkpoint is best or last, not 'middle'"):
        jsa.open_run(own.path, checkpoint="middle")  # type: ignore[arg-type]
    with pytest.raises(jsa.CheckpointError, match=r"belongs to another model: decoder.0.weight is \(48, 5\) there"):
        jsa.open_run(own.path, Convolutional(4))
    with pytest.raises(jsa.UsageError, match="model returned Linear: return a jsa"):
        jsa.open_run(own.path, lambda: nn.Linear(2, 2))  # type: ignore[arg-type,return-value]
    with pytest.raises(jsa.UsageError, match="model is a str: give an instance, or a function"):
        jsa.open_run(own.path, "Convolutional")  # type: ignore[arg-type]
    with pytest.raises(jsa.UsageError, match="split is train, valid or test, not 'all'"):
        own.rows("all")  # type: ignore[arg-type]


def test_rows_that_were_given_in_python_are_not_in_the_folder(ours: jsa.Run) -> None:
    opened = jsa.open_run(ours.path)
    with pytest.raises(jsa.UsageError, match="were given in Python and are not in its folder"):
        opened.encode()
    assert len(opened.encode(images().flatten(1)).states) == 120


def test_a_factory_may_take_the_columns_of_the_rows(tmp_path: Path) -> None:
    rows = jsa.data.IndexedDataset(images().flatten(1).to(torch.uint8))
    torch.manual_seed(0)
    run = jsa.fit(Convolutional(), rows, epochs=1, out=tmp_path / "run", config=SHORT)
    assert same(jsa.open_run(run.path, convolutional).model, run.model)
