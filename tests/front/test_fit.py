"""``jsa.fit``: own models on any rows, continued to the bit, and what it refuses."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import jsa
from helpers.own_models import Convolutional, OtherMethod, images
from jsa.data import load
from jsa.io.tensor_files import load_tensors
from jsa.kernels import Cycle, Independence, MetropolisHastings, Repeat

QUIET = {"progress": False, "pictures": False, "threads": 1}
SHORT: dict[str, Any] = {
    **QUIET,
    "batch_size": 20,
    "learning_rate": 0.01,
    "validate_every": 1,
    "validation_samples": 5,
    "test_samples": 5,
    "checkpoint_seconds": 0,
}
TIMES = {"training_seconds", "processor_seconds", "seconds"}


def model(seed: int = 0, **options: int) -> Convolutional:
    torch.manual_seed(seed)
    return Convolutional(**options)


def fitted(out: Path, rows: Any = None, **options: Any) -> jsa.Run:
    config = {**SHORT, **options.pop("config", {})}
    if not {"steps", "epochs"} & options.keys():
        options["epochs"] = 4
    return jsa.fit(
        options.pop("model", None) or model(), images() if rows is None else rows, out=out, config=config, **options
    )


def figures(run: jsa.Run) -> list[dict[str, float]]:
    return [{name: value for name, value in line.items() if name not in TIMES} for line in run.folder.read_metrics()]


def differences(one: jsa.Run, other: jsa.Run) -> list[str]:
    """The names of everything in which the ends of two runs differ."""
    found = ["metrics"] if figures(one) != figures(other) else []
    for name in ("state", "best", "last"):
        ours, theirs = (load_tensors(getattr(run.folder, name))[0] for run in (one, other))
        found += [
            f"{name}: {part}" for part in ours.keys() | theirs.keys() if not equal(ours.get(part), theirs.get(part))
        ]
    return found + (["scores"] if one.evaluation != other.evaluation else [])


def equal(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and torch.equal(one, other)


# What is learned


class Pictures(Dataset[tuple[Tensor, int]]):
    """Items with a label."""

    def __len__(self) -> int:
        return 120

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        return images()[number], 7


class Plain(Pictures):
    """Items that are x."""

    def __getitem__(self, number: int) -> Tensor:  # type: ignore[override]
        return images()[number]


def to_batch(items: Sequence[tuple[Tensor, int]], numbers: Tensor) -> jsa.Batch:
    return jsa.Batch(torch.stack([x for x, _ in items]), numbers)


FORMS: dict[str, Callable[[], dict[str, Any]]] = {
    "rows": lambda: {"rows": jsa.TensorRows(images())},
    "array": lambda: {"rows": images().numpy()},
    "dataset": lambda: {"rows": Plain()},
    "items": lambda: {"rows": Pictures(), "to_batch": to_batch},
    "workers": lambda: {"rows": Pictures(), "to_batch": to_batch, "loader": {"num_workers": 1}},
}


@pytest.fixture(scope="module")
def of_a_tensor(tmp_path_factory: pytest.TempPathFactory) -> jsa.Run:
    return fitted(tmp_path_factory.mktemp("tensor") / "run")


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_any_form_give_the_same_run(form: str, of_a_tensor: jsa.Run, tmp_path: Path) -> None:
    run = fitted(tmp_path / "run", **FORMS[form]())
    assert figures(run) == figures(of_a_tensor)
    assert run.evaluation == of_a_tensor.evaluation


def test_it_learns(of_a_tensor: jsa.Run, tmp_path: Path) -> None:
    nll = fitted(tmp_path / "run", epochs=30).metrics["valid_nll"]
    assert nll[-1] < nll[0] - 5
    assert math.isfinite(nll[-1])


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, torch.as_tensor], ids=["array", "frame", "tensor"])
def test_a_model_of_the_library_takes_a_table(form: Any, tmp_path: Path) -> None:
    table = images().flatten(1).numpy()
    found = jsa.BeliefNetwork(jsa.Layer("bernoulli", 64), jsa.LatentSpace.of(jsa.Layer("bernoulli", 3)), missing=True)
    run = fitted(tmp_path / "run", form(table), model=found)
    assert run.evaluation.test is not None
    assert run.evaluation.test.rows == 12
    # Its class is known, so that nothing else is needed to open it.
    assert jsa.open_run(tmp_path / "run").likelihood(torch.as_tensor(table), 20) == run.likelihood(form(table), 20)


def test_classes_of_a_table_are_one_hot(tmp_path: Path) -> None:
    table = np.random.default_rng(0).integers(0, 3, (60, 4)).astype(float)
    table[3, 2] = np.nan
    found = jsa.BeliefNetwork(
        jsa.Layer("categorical", 4, 3), jsa.LatentSpace.of(jsa.Layer("bernoulli", 2)), missing=True
    )
    run = fitted(tmp_path / "run", table, model=found)
    assert run.rows("train").batch(torch.arange(1)).x.shape == (1, 12)
    with pytest.raises(jsa.DataError, match="3"):
        run.likelihood(table + 1)


def test_the_splits_of_a_dataset_are_taken_as_they_are(tmp_path: Path) -> None:
    found = jsa.BeliefNetwork(jsa.Layer("bernoulli", 784), jsa.LatentSpace.of(jsa.Layer("bernoulli", 2)))
    config = {"batch_size": 2000, "validation_rows": 20, "test_samples": 1, "pictures": True}
    run = fitted(tmp_path / "run", load("mnist-threshold"), model=found, epochs=1, config=config)
    assert run.evaluation.test is not None
    assert run.evaluation.test.rows == 10_000
    assert {path.name for path in run.folder.outputs} == {"samples.png", "reconstructions.png", "curves.png"}
    # The name leads to the data again.
    assert len(jsa.open_run(tmp_path / "run").rows("valid")) == 5_000


def test_parts_are_taken_by_the_seed_of_the_division(tmp_path: Path) -> None:
    sizes = {}
    for seed in (0, 1):
        run = fitted(tmp_path / str(seed), epochs=1, config={"split_seed": seed, "valid_fraction": 0.25})
        parts = {name: run.rows(name).batch(torch.arange(len(run.rows(name)))) for name in ("train", "valid", "test")}
        assert [len(part) for part in parts.values()] == [78, 30, 12]
        together = torch.cat([part.x for part in parts.values()]).flatten(1)
        assert torch.equal(together.sum(0), images().flatten(1).sum(0))
        sizes[seed] = parts["valid"].x.sum()
    assert sizes[0] != sizes[1]


# How long, and what decides


def test_steps_end_within_an_epoch(tmp_path: Path) -> None:
    # 96 rows are 5 batches of 20.
    run = fitted(tmp_path / "run", steps=12)
    assert run.metrics["step"].tolist() == [5, 10, 12]
    assert run.config.epochs == 3
    assert "valid_nll" in list(run.folder.read_metrics())[-1]


def test_a_cosine_ends_with_the_steps(tmp_path: Path) -> None:
    run = fitted(tmp_path / "run", steps=12, config={"schedule": "cosine"})
    assert run.metrics["learning_rate"][-1] == pytest.approx(0.01 * 0.5 * (1 + math.cos(math.pi * 11 / 12)))


def test_without_validation_the_last_epoch_is_the_best(tmp_path: Path) -> None:
    run = fitted(tmp_path / "run", valid=False, test=False)
    assert math.isnan(run.evaluation.best.nll)
    assert (run.evaluation.best.epoch, run.evaluation.test) == (4, None)
    ours, theirs = (load_tensors(path)[0] for path in (run.folder.best, run.folder.last))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert "valid_nll" not in run.metrics
    assert len(run.rows("train")) == 120
    with pytest.raises(jsa.UsageError, match="this run has no test rows: pass rows"):
        run.encode()
    assert "finished" in repr(run)


@pytest.mark.parametrize("valid", [None, False])
def test_a_callback_ends_the_training(valid: Any, tmp_path: Path) -> None:
    seen: list[Mapping[str, object]] = []

    def stop(record: Mapping[str, object]) -> object:
        seen.append(record)
        return record["epoch"] == 2

    run = fitted(tmp_path / "run", callbacks=[stop, lambda record: "no reason to stop"], valid=valid)
    assert [record["epoch"] for record in seen] == [1, 2]
    assert len(run.metrics["epoch"]) == 2
    assert run.evaluation.best.epoch <= 2
    # What was ended stays ended.
    again = fitted(tmp_path / "run", callbacks=[stop, lambda record: "no reason to stop"], valid=valid)
    assert differences(run, again) == []
    assert len(seen) == 2


# Methods

MOVES = Cycle(MetropolisHastings(Independence()), Repeat(MetropolisHastings(Independence()), 2))


@pytest.mark.parametrize(
    ("estimator", "name", "particles"),
    [
        ("rws", "rws", 3),
        (jsa.ReweightedWakeSleep, "rws", 3),
        (partial(jsa.ReweightedWakeSleep, particles=4), "rws", 4),
        (OtherMethod, "helpers.own_models:OtherMethod", 3),
        (partial(jsa.JSA, kernel=MOVES), f"jsa.estimators.joint_stochastic_approximation:JSA(kernel={MOVES})", None),
        (partial(jsa.JSA, switch_after=1), "jsa.estimators.joint_stochastic_approximation:JSA(switch_after=1)", 3),
    ],
    ids=["name", "class", "partial", "own", "kernel", "further"],
)
def test_methods_of_any_form(estimator: Any, name: str, particles: int | None, tmp_path: Path) -> None:
    config = {} if particles is None else {"particles": 3}
    run = fitted(tmp_path / "run", estimator=estimator, epochs=2, config=config)
    assert (run.config.estimator, run.config.method.particles) == (name, particles)
    assert np.isfinite(run.metrics["valid_nll"]).all()


def test_a_method_that_switches_by_itself_is_left_alone(tmp_path: Path) -> None:
    # At 60 % of the epochs the trainer would have switched.
    run = fitted(tmp_path / "run", estimator=partial(jsa.JSA, switch_after=3))
    assert run.metrics["stage"].tolist() == [1, 1, 1, 2]


def test_an_estimator_that_is_made_is_trained(tmp_path: Path) -> None:
    found = model()
    estimator = jsa.JSA(found.latent, rows=96, particles=3, switch_after=2)
    run = fitted(tmp_path / "run", model=found, estimator=estimator)
    assert run.metrics["stage"].tolist() == [1, 1, 2, 2]
    assert estimator.chains.visits == 4 * 96


# Optimizers


class Counting(torch.optim.Optimizer):
    """Plain steps that count in Python numbers, and shrink with them."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["done"], state["share"] = state.get("done", 0) + 1, state.get("share", 1.0) * 0.99
                with torch.no_grad():
                    parameter.sub_(parameter.grad, alpha=group["lr"] * state["share"] / state["done"] ** 0.5)


def two_rates(found: Convolutional) -> Callable[[list[nn.Parameter]], torch.optim.Optimizer]:
    def make(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        fast = {id(parameter) for parameter in found.encoder.parameters()}
        return torch.optim.SGD(
            [
                {"params": [parameter for parameter in parameters if id(parameter) in fast], "lr": 0.02},
                {"params": [parameter for parameter in parameters if id(parameter) not in fast], "lr": 0.01},
            ],
            momentum=0.9,
        )

    return make


def test_learning_rates_of_an_own_optimizer_follow_the_schedule(tmp_path: Path) -> None:
    found, rates = model(), []

    class Rates(jsa.Callback):
        def step(self, state: Any) -> None:
            rates.append([group["lr"] for group in state.optimizer.param_groups])

    fitted(
        tmp_path / "run",
        model=found,
        steps=6,
        optimizer=two_rates(found),
        config={"schedule": "cosine"},
        callbacks=[Rates()],
    )
    shares = [0.5 * (1 + math.cos(math.pi * step / 6)) for step in range(6)]
    assert rates == [[pytest.approx(0.02 * share), pytest.approx(0.01 * share)] for share in shares]


# Going on


class Stopping(jsa.Callback):
    """Breaks the training after a step, as a crash does."""

    def __init__(self, after: int) -> None:
        self.after = after

    def step(self, state: Any) -> None:
        if state.progress.step == self.after:
            raise RuntimeError("crash")


class Starting(jsa.Callback):
    """Breaks the training before its first step."""

    def start(self, state: Any) -> None:
        raise RuntimeError("crash")


OPTIMIZERS: dict[str, Callable[[Convolutional], Any]] = {
    "default": lambda found: None,
    "two-rates": two_rates,
    "counting": lambda found: partial(Counting, lr=0.01),
}


@pytest.mark.parametrize("after", [1, 7, 12])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_same_call_goes_on_to_the_same_bits(optimizer: str, after: int, tmp_path: Path) -> None:
    def call(out: str, *callbacks: jsa.Callback) -> jsa.Run:
        found = model()
        return fitted(tmp_path / out, model=found, optimizer=OPTIMIZERS[optimizer](found), callbacks=callbacks)

    whole = call("whole")
    with pytest.raises(RuntimeError, match="crash"):
        call("broken", Stopping(after))
    torch.manual_seed(99)
    continued = call("broken")
    assert differences(whole, continued) == []
    # The third call opens what is finished, and gives this model its weights.
    opened = call("broken")
    assert differences(whole, opened) == []
    assert all(
        torch.equal(one, other) for one, other in zip(whole.model.parameters(), opened.model.parameters(), strict=True)
    )


def test_an_optimizer_whose_numbers_are_lost_would_not_come_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fitted(tmp_path / "whole", optimizer=partial(Counting, lr=0.01))
    with pytest.raises(RuntimeError, match="crash"):
        fitted(tmp_path / "broken", optimizer=partial(Counting, lr=0.01), callbacks=[Stopping(7)])
    monkeypatch.setattr("jsa.training.state.restore_optimizer", lambda *arguments: None)
    assert differences(whole, fitted(tmp_path / "broken", optimizer=partial(Counting, lr=0.01))) != []


OTHERS: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "epochs": (lambda: {"epochs": 5}, r"epochs is 5 now and was 4"),
    "particles": (lambda: {"config": {"particles": 7}}, r"method.particles is 7 now and was 2"),
    "method": (lambda: {"estimator": "rws"}, r"estimator is rws now and was jsa"),
    "rows": (lambda: {"rows": images().flip(0)}, r"its train rows were others"),
    "test": (lambda: {"test": images(12)}, r"its train rows were others"),
    "layers": (lambda: {"model": model(width=4)}, r"its model was helpers.own_models.Convolutional of [\d,]+ weights"),
    "activation": (lambda: {"model": with_other_activation()}, "with digest .* give the same model"),
    "optimizer": (
        lambda: {"optimizer": partial(torch.optim.SGD, lr=0.1)},
        "the optimizer is SGD of .* and was unknown",
    ),
}


def with_other_activation() -> Convolutional:
    found = model()
    found.encoder[2] = nn.ELU()
    return found


@pytest.mark.parametrize("other", OTHERS)
def test_another_run_is_refused_in_the_same_folder(other: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="crash"):
        fitted(tmp_path / "run", callbacks=[Stopping(7)])
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")}
    options, sentence = OTHERS[other]
    with pytest.raises(jsa.CheckpointError, match=sentence):
        fitted(tmp_path / "run", **options())
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")} == before


def test_another_run_is_refused_in_the_folder_of_a_finished_one(of_a_tensor: jsa.Run) -> None:
    for options, sentence in (OTHERS[other] for other in ("epochs", "rows", "activation")):
        with pytest.raises(jsa.CheckpointError, match=sentence):
            fitted(of_a_tensor.path, **options())


def test_what_may_change_may_change(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="crash"):
        fitted(tmp_path / "run", callbacks=[Stopping(7)])
    run = fitted(tmp_path / "run", config={"learning_rate": 0.001})
    assert run.metrics["learning_rate"].tolist() == [0.01, 0.001, 0.001, 0.001]


def test_a_new_folder_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = [jsa.fit(model(), images(), epochs=1, config=SHORT).path for _ in range(2)]
    assert names == [Path("runs/Convolutional-seed0"), Path("runs/Convolutional-seed0-2")]
    with pytest.raises(jsa.UsageError, match="exists already"):
        fitted(names[0], epochs=1, resume=False)


# What a caller keeps


def test_the_callers_random_numbers_threads_and_modes_stay(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    found = Convolutional()
    torch.manual_seed(5)
    fitted(tmp_path / "run", model=found, epochs=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert not found.training


def test_the_seed_decides(tmp_path: Path) -> None:
    runs = [fitted(tmp_path / f"{seed}{time}", epochs=1, config={"seed": seed}) for seed in (0, 1) for time in (0, 1)]
    assert [differences(runs[0], other) == [] for other in runs[1:]] == [True, False, False]


def test_measuring_a_step_beforehand_changes_nothing_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = model()
    before = {name: value.clone() for name, value in found.state_dict().items()}
    with pytest.raises(RuntimeError, match="crash"):
        fitted(tmp_path / "run", model=found, callbacks=[Starting()])
    assert all(torch.equal(value, before[name]) for name, value in found.state_dict().items())
    assert all(parameter.grad is None for parameter in found.parameters())


# Refusals


class Stream(IterableDataset[Tensor]):
    """Items without numbers."""

    def __iter__(self) -> Iterator[Tensor]:
        return iter(images())


METHOD: Any = jsa.JSA

REFUSED: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "no-model": (lambda: {"model": nn.Linear(2, 2)}, "model is a Linear: give an instance of a subclass of jsa.Latent"),
    "frozen": (lambda: {"model": model().requires_grad_(False)}, "no parameter of the model is learned: unfreeze some"),
    "class": (lambda: {"model": Convolutional}, "model is a ABCMeta"),
    "iterable": (lambda: {"rows": Stream()}, "rows is an IterableDataset, which has no items by number"),
    "loader": (lambda: {"rows": DataLoader(TensorDataset(images()))}, "rows is a DataLoader.*pass its dataset"),
    "nothing": (lambda: {"rows": 3}, "rows is a int: give a tensor"),
    "empty": (lambda: {"rows": images()[:0]}, "rows is empty"),
    "few": (lambda: {"rows": images()[:2]}, "too few rows"),
    "tuples": (lambda: {"rows": Pictures()}, "an item of this dataset is a tuple, not a tensor x: pass to_batch"),
    "no-batch": (lambda: {"rows": Pictures(), "to_batch": lambda items, numbers: items}, "to_batch returned list"),
    "short-batch": (
        lambda: {"rows": Pictures(), "to_batch": lambda items, numbers: to_batch([*items, *items], numbers.repeat(2))},
        "to_batch returned 2 rows for 1 items",
    ),
    "shuffle": (lambda: {"rows": Plain(), "loader": {"shuffle": True}}, "such as num_workers.* shuffle"),
    "both": (lambda: {"steps": 3, "epochs": 3}, "steps and epochs both"),
    "twice": (lambda: {"epochs": 3, "config": {"steps": 3}}, "epochs is given, and config says"),
    "setting": (lambda: {"config": {"batchsize": 3}}, "there is no setting 'batchsize': did you mean 'batch_size'"),
    "kind": (lambda: {"config": {"batch_size": "many"}}, "batch_size must be of type int"),
    "range": (lambda: {"config": {"learning_rate": -1.0}}, "learning-rate must be above 0"),
    "argument": (
        lambda: {"config": {"latents": [3]}},
        "latents is no setting of jsa.fit, which gets model as",
    ),
    "config": (lambda: {"config": 3}, "config is a int"),
    "method": (lambda: {"estimator": "jsaa"}, "there is no estimator 'jsaa': did you mean 'jsa'"),
    "method-kind": (lambda: {"estimator": nn.Linear}, "estimator is a type"),
    "positional": (lambda: {"estimator": partial(METHOD, 3)}, "by their names"),
    "option": (lambda: {"estimator": partial(METHOD, particle=3)}, "the method jsa has no option particle"),
    "options": (
        lambda: {"estimator": "rws", "config": {"temperature": 0.5}},
        "the method rws has no option temperature",
    ),
    "other-rows": (lambda: {"estimator": jsa.JSA(model().latent, rows=120)}, "chains for 120 rows, and 96 are learned"),
    "made": (lambda: {"estimator": jsa.VIMCO(3), "config": {"particles": 5}}, "made already, so particles changes"),
    "optimizer": (lambda: {"optimizer": lambda parameters: None}, "optimizer returned NoneType"),
    "left-out": (lambda: {"optimizer": lambda parameters: torch.optim.SGD(parameters[1:], lr=0.1)}, "leaves out model"),
    "lbfgs": (lambda: {"optimizer": torch.optim.LBFGS}, "LBFGS evaluates a step several times"),
    "resume": (lambda: {"resume": True}, "resume is 'auto' or False"),
    "patience": (lambda: {"valid": False, "config": {"stop_after": 2}}, "stop-after counts validations"),
    "device": (lambda: {"device": "meta"}, "the device 'meta' cannot be used here"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_before_anything_is_written(case: str, tmp_path: Path) -> None:
    options, sentence = REFUSED[case]
    given = options()
    config = given.pop("config", {})
    settings = {**SHORT, **config} if isinstance(config, dict) else config
    found, rows = given.pop("model", None) or model(), given.pop("rows", None)
    with pytest.raises(jsa.JsaError, match=sentence):
        jsa.fit(found, images() if rows is None else rows, out=tmp_path / "run", config=settings, **given)
    assert not (tmp_path / "run" / "state.safetensors").exists()
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_rows_of_another_width_are_refused(tmp_path: Path) -> None:
    found = jsa.BeliefNetwork(jsa.Layer("bernoulli", 63), jsa.LatentSpace.of(jsa.Layer("bernoulli", 2)))
    for rows in (images().flatten(1), images().flatten(1).numpy()):
        with pytest.raises(jsa.UsageError, match=r"a row of rows has shape \(64,\), but x of Belief.* has width 63"):
            fitted(tmp_path / "run", rows, model=found)
    assert not (tmp_path / "run").exists()


def test_settings_are_written_out(of_a_tensor: jsa.Run) -> None:
    written = json.loads((of_a_tensor.path / "config.json").read_text())
    assert (written["data"], written["model"]) == ("own rows", "helpers.own_models:Convolutional")
    assert (written["network"], written["method"]["particles"], written["stages"]["switch_epoch"]) == (None, 2, 2)
