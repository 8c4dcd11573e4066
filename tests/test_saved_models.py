"""A model is saved with its constructor's arguments, and comes back as it was."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import jsa
from helpers.refusals import refuses
from helpers.small_models import STYLE, one_layer, randomize
from jsa import (
    Batch,
    BeliefNetwork,
    Bernoulli,
    LatentSpace,
    LatentVariableModel,
    Layer,
    LayeredPosterior,
    StructuredPrediction,
    Style,
)
from jsa.errors import CheckpointError, NumericalError, UsageError
from jsa.io.arguments import Arguments
from jsa.io.tensor_files import load_tensors, save_tensors
from jsa.models.presets import NetworkConfig, preset
from jsa.models.registry import build_model, model_from_record
from jsa.saved_models import constructor_record
from jsa.training.weights import save_weights

SPACE = LatentSpace.of(Layer("bernoulli", 3))
X = Layer("bernoulli", 4)


class Own(LatentVariableModel):
    """Bits with a learned decoder; what the constructor is given is kept to be looked at."""

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__()
        self.latent = SPACE
        self.given, self.named = given, named
        self.decoder, self.encoder = nn.Linear(3, 4), nn.Linear(4, 3)

    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return Bernoulli(self.decoder(h)).log_prob(batch.x)

    def posterior(self, batch: Batch) -> LayeredPosterior:
        return LayeredPosterior(self.latent, Bernoulli(self.encoder(batch.x)))


class OfEveryKind(Own):
    """Every kind of parameter that Python has."""

    def __init__(self, first: int, /, second: str, *rest: float, option: object = (1, 2), **named: object) -> None:
        super().__init__(first, second, *rest, option=option, **named)


class OnlyNamed(Own):
    def __init__(self, *, scale: float, label: str | None = None, made_by: type[nn.Module] = nn.Linear) -> None:
        super().__init__(scale=scale, label=label)
        self.made_by = made_by


class OtherThanItsBase(BeliefNetwork):
    """A subclass with arguments of its own, and those of its base computed."""

    def __init__(self, width: int, units: Sequence[int] = (3,)) -> None:
        super().__init__(Layer("bernoulli", width), LatentSpace.of(*(Layer("bernoulli", one) for one in units)))


class AsItsBase(BeliefNetwork):
    """A subclass without a constructor."""


class ThatChangesItsArguments(Own):
    def __init__(self, sizes: list[int]) -> None:
        sizes.append(99)
        super().__init__(*sizes)


class WithItsOwnSave(Own):
    """A class whose methods of these names do something else."""

    def save(self, path: Path | str) -> None:
        Path(path).write_text("mine")

    @classmethod
    def load(cls, path: Path | str) -> WithItsOwnSave:
        return cls(Path(path).read_text())


class OfItsOwnMaking(Own):
    """A class that keeps its arguments from the base's __new__."""

    def __new__(cls, *args: object) -> OfItsOwnMaking:
        return super().__new__(cls)

    def __init__(self, size: int) -> None:
        super().__init__(size)


def there_and_back(model: LatentVariableModel, path: Path) -> LatentVariableModel:
    model.save(path)
    again = type(model).load(path)
    assert type(again) is type(model)
    state, found = model.state_dict(), again.state_dict()
    assert state.keys() == found.keys()
    assert all(torch.equal(state[name], found[name]) and state[name].dtype == found[name].dtype for name in state)
    return again


MADE: dict[str, Callable[[], LatentVariableModel]] = {
    "belief network": lambda: BeliefNetwork(X, SPACE, [5, 6], prior="learned", style=STYLE, values=(1, 2, 2, 2)),
    "positional": lambda: BeliefNetwork(X, LatentSpace.of(Layer("categorical", 2, 3), Layer("gaussian", 1)), (5,)),
    "structured": lambda: StructuredPrediction(X, 2, SPACE, hidden=(), missing=True, indicators=False),
    "preset": lambda: build_model(preset("two-layers"), X, indicators=True, values=[2, 2, 1, 2]),
    "conditional preset": lambda: build_model(preset("structured"), X, 3),
    "every kind": lambda: OfEveryKind(1, "two", 3.0, 4.5, option=None, more={"b": [True], "a": ()}),
    "positional by name": lambda: OfEveryKind(1, second="two"),
    "only named": lambda: OnlyNamed(scale=0.1),
    "other than its base": lambda: OtherThanItsBase(5, units=[2, 2]),
    "as its base": lambda: AsItsBase(X, SPACE, style=NetworkConfig(latents=(4, 5), latent_kind="gaussian")),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_model_comes_back(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = MADE[name]().to(dtype)
    before = torch.get_rng_state()
    again = there_and_back(model, tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)
    assert constructor_record(again) == constructor_record(model)
    assert again.latent == model.latent
    if isinstance(model, Own) and isinstance(again, Own):
        assert (again.given, again.named) == (model.given, model.named)
        assert list(map(type, again.given)) == list(map(type, model.given))


HELD = [
    *(None, True, 1, 10**30, -0.0, 0.1, float("inf"), "", "ä\ud800", [], (), {}),
    *([1, (2, [3.0])], ((),), {"z": 1, "a": {"tuple": ()}, "": None}, {"dict": [[1, 2]]}, {"float": "1"}),
    *(Layer("categorical", 2, 7), LatentSpace.of(Layer("gaussian", 2), Layer("bernoulli", 1)), STYLE),
    preset("categorical"),
]


@pytest.mark.parametrize("value", HELD, ids=repr)
def test_an_argument_comes_back_as_what_it_was(value: object, tmp_path: Path) -> None:
    for model in (Own(value), Own(name=value)):
        again = there_and_back(model, tmp_path / "model")
        assert isinstance(again, Own)
        (found,) = (*again.given, *again.named.values())
        assert repr(found) == repr(value)
        assert type(found) is type(value)


def test_nan_comes_back(tmp_path: Path) -> None:
    again = there_and_back(Own(float("nan")), tmp_path / "model")
    assert isinstance(again, Own)
    assert repr(again.given) == "(nan,)"


class Text(str):
    """Text that is more than text."""


@dataclass(frozen=True)
class OwnStyle(Style):
    pass


@dataclass(frozen=True)
class Layers:
    """A dataclass that nobody said can be stored."""

    width: int


def circle() -> list[object]:
    of_itself: list[object] = []
    of_itself.append(of_itself)
    return of_itself


NOT_HELD: list[tuple[object, str]] = [
    (nn.Linear(2, 2), r"torch\.nn\.modules\.linear\.Linear"),
    (torch.zeros(2), r"torch\.Tensor"),
    (np.float64(1.0), r"numpy\.float64"),
    (torch.float32, r"torch\.dtype"),
    (torch.relu, "builtin_function_or_method"),
    (nn.ReLU, "type"),
    (Path("x"), r"pathlib.*PosixPath"),
    (range(3), "range"),
    (torch.Size([2]), r"torch\.Size"),
    (Text("x"), r".*test_saved_models\.Text"),
    (OwnStyle(), r".*test_saved_models\.OwnStyle"),
    (Layers(3), r".*test_saved_models\.Layers"),
    ([1, (2, {"a": {3}})], "set:"),
    ({1: 2}, "dict"),
    (Layer("bernoulli", np.int64(3)), r"jsa\.latent\.Layer"),  # type: ignore[arg-type]
    (circle(), "list"),
]


@pytest.mark.parametrize(("value", "kind"), NOT_HELD, ids=[kind for _, kind in NOT_HELD])
def test_any_other_argument_is_refused_when_the_model_is_saved(value: object, kind: str, tmp_path: Path) -> None:
    # Not when it is made: a model that is never saved may take anything.
    for model, name in ((OfEveryKind(1, "two", option=value), "option"), (Own(3, value), "given")):
        with pytest.raises(UsageError, match=rf"its argument {name} is or holds a {kind}.*make the rest in the const"):
            jsa.save_model(model, tmp_path / "model")
        assert list(tmp_path.iterdir()) == []


def test_a_default_that_cannot_be_stored_is_that_of_the_class(tmp_path: Path) -> None:
    again = there_and_back(OnlyNamed(scale=2.0), tmp_path / "model")
    assert isinstance(again, OnlyNamed)
    assert again.made_by is nn.Linear
    with pytest.raises(UsageError, match="argument made_by is or holds a type"):
        OnlyNamed(scale=2.0, made_by=nn.Linear).save(tmp_path / "model")


def test_arguments_are_those_at_the_call(tmp_path: Path) -> None:
    sizes = [1, 2]
    model = ThatChangesItsArguments(sizes)
    sizes.append(3)
    assert model.given == (1, 2, 99)
    again = there_and_back(model, tmp_path / "model")
    assert isinstance(again, Own)
    assert again.given == (1, 2, 99)


def test_a_default_that_changes_later_does_not_change_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    OnlyNamed(scale=1.0).save(tmp_path / "model")

    def with_another_default(self: OnlyNamed, *, scale: float, label: str = "new", more: int = 3) -> None:
        Own.__init__(self, scale=scale, label=label, more=more)

    monkeypatch.setattr(OnlyNamed, "__init__", with_another_default)
    assert OnlyNamed.load(tmp_path / "model").named == {"scale": 1.0, "label": None, "more": 3}


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["deepcopy", "copy", "pickle"],
)
def test_a_copy_is_saved_like_its_original(copied: Callable[[Any], Any], tmp_path: Path) -> None:
    model = MADE["belief network"]()
    there_and_back(copied(model), tmp_path / "model")
    assert constructor_record(copied(model)) == constructor_record(model)


def test_a_constructor_that_refuses_its_arguments_still_says_so_itself() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'sort'"):
        OnlyNamed(sort=1)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="the prior must be"):
        BeliefNetwork(X, SPACE, prior="none")  # type: ignore[arg-type]


def test_a_class_with_its_own_save_keeps_it(tmp_path: Path) -> None:
    WithItsOwnSave("x").save(tmp_path / "own")
    assert (tmp_path / "own").read_text() == "mine"
    assert WithItsOwnSave.load(tmp_path / "own").given == ("mine",)
    jsa.save_model(WithItsOwnSave("x"), tmp_path / "model")
    assert jsa.load_model(WithItsOwnSave, tmp_path / "model").given == ("x",)


def test_weights_that_are_shared_stay_shared(tmp_path: Path) -> None:
    again = there_and_back(Tied(), tmp_path / "model")
    assert isinstance(again, Tied)
    assert again.decoder.weight is again.second.weight


class Tied(Own):
    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(3, 4)
        self.second.weight = self.decoder.weight


def test_several_precisions_come_back(tmp_path: Path) -> None:
    model = Own()
    model.encoder.to(torch.bfloat16)
    there_and_back(model, tmp_path / "model")


class WithATable(Own):
    """A buffer that is in no file, and is used with the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.eye(3), persistent=False)


def test_a_buffer_that_is_in_no_file_has_the_precision_of_the_weights(tmp_path: Path) -> None:
    again = there_and_back(WithATable().double(), tmp_path / "model")
    assert again.get_buffer("table").dtype == torch.float64


class OfAnotherModule(Own):
    __qualname__ = "Own"
    __module__ = "elsewhere"


class OfAScript(Own):
    __qualname__ = "Own"
    __module__ = "__main__"


class WithExtraState(Own):
    def get_extra_state(self) -> object:
        return {"steps": 3}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model"
    OnlyNamed(scale=1.0).save(path)
    return path


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Own, r"holds a .*:OnlyNamed, not a .*:Own: load it with the class that was saved"),
        (BeliefNetwork, r"not a jsa\.models\.belief_network:BeliefNetwork"),
    ],
)
def test_another_class_is_refused(saved: Path, kind: type[LatentVariableModel], sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence):
        jsa.load_model(kind, saved)


def test_a_class_of_that_name_elsewhere_is_another_one_but_for_scripts(tmp_path: Path) -> None:
    Own(1).save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="not a elsewhere:Own"):
        OfAnotherModule.load(tmp_path / "model")
    assert OfAScript.load(tmp_path / "model").given == (1,)
    OfAScript(2).save(tmp_path / "model")
    assert Own.load(tmp_path / "model").given == (2,)


def other_constructor(call: Callable[..., None]) -> type[OnlyNamed]:
    return type("OnlyNamed", (OnlyNamed,), {"__init__": call, "__module__": __name__, "__qualname__": "OnlyNamed"})


def needing_more(self: OnlyNamed, scale: float, label: str, made_by: type, units: int) -> None:
    Own.__init__(self)


def taking_less(self: OnlyNamed, label: str) -> None:
    Own.__init__(self)


def refusing(self: OnlyNamed, scale: float, label: str) -> None:
    raise ValueError("the scale is too small")


def of_other_widths(self: OnlyNamed, scale: float, label: str) -> None:
    Own.__init__(self)
    self.decoder = nn.Linear(3, 5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (taking_less, "another version of OnlyNamed, which today does not take the argument scale: use that version"),
        (needing_more, "another version of OnlyNamed, which today also needs the argument made_by"),
        (refusing, "OnlyNamed refuses the arguments that it has in .* \\(the scale is too small\\)"),
        (of_other_widths, r"another model: decoder\.bias is \(4,\) there and \(5,\) in this model"),
    ],
)
def test_a_class_that_has_changed_is_refused(saved: Path, call: Callable[..., None], sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence):
        other_constructor(call).load(saved)


def written(notes: Mapping[str, object]) -> Callable[[Path], object]:
    return lambda path: save_tensors(path, {}, notes)


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda path: None, "there is no file"),
        (lambda path: path.write_bytes(b"x"), "damaged"),
        (lambda path: save_weights(Own(), path, {}), r"was not written by jsa\.save_model: choose another file"),
        (written({"format": 2, "class": "a:B", "arguments": {}}), "has format 2; this version of jsa reads 1"),
        (written({"format": 1, "class": f"{__name__}:Own", "arguments": {"named": {"Odd": {}}}}), "Own refuses the"),
    ],
)
def test_what_is_no_model_is_refused(write: Callable[[Path], object], sentence: str, tmp_path: Path) -> None:
    write(tmp_path / "model")
    with pytest.raises(CheckpointError, match=sentence):
        Own.load(tmp_path / "model")


def infinite() -> Own:
    model = Own()
    with torch.no_grad():
        model.encoder.bias[1] = torch.inf
    return model


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NumericalError, match=r"the weights encoder\.bias are not finite"):
        infinite().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


test_what_cannot_be_saved_says_why = refuses(
    (lambda: Own().save("no/such/folder/model"), "there is no folder no/such/folder: make it"),
    (lambda: Own().save("."), "is a folder: choose a file"),
    (lambda: OfItsOwnMaking(3).save("model"), r"are not known, because its class has a __new__ that keeps them"),
    (lambda: WithExtraState().save("model"), "_extra_state is of type dict, .*: return a tensor from get_extra_state"),
)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    model = MADE["preset"]()
    for name in ("one", "two"):
        model.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


OWN_MODULE = """
import torch
from jsa import Bernoulli, LatentSpace, LatentVariableModel, Layer, LayeredPosterior

class Scaled(LatentVariableModel):
    def __init__(self, sizes, *, scale=0.5):
        super().__init__()
        visible, hidden = sizes
        self.latent = LatentSpace.of(Layer("bernoulli", hidden))
        self.decoder, self.encoder = torch.nn.Linear(hidden, visible), torch.nn.Linear(visible, hidden)
        self.scale = scale

    def log_joint(self, batch, h):
        return Bernoulli(self.scale * self.decoder(h)).log_prob(batch.x) - h.shape[-1] * torch.tensor(2.0).log()

    def posterior(self, batch):
        return LayeredPosterior(self.latent, Bernoulli(self.encoder(batch.x)))
"""

NLL = """
import sys, torch, jsa
torch.set_num_threads(1)
def nll(model):
    torch.manual_seed(3)
    x, context = torch.bernoulli(torch.full((8, 4), 0.4)), torch.rand(8, 2)
    rows = jsa.TensorRows(x, context if isinstance(model, jsa.StructuredPrediction) else None)
    torch.manual_seed(4)
    return jsa.likelihood(model, rows, samples=50).nll.hex()
"""


def test_a_fresh_process_finds_the_same_likelihood(tmp_path: Path) -> None:
    (tmp_path / "own_module.py").write_text(OWN_MODULE)
    make = """
from own_module import Scaled
space = jsa.LatentSpace.of(jsa.Layer("bernoulli", 3), jsa.Layer("categorical", 2, 3))
torch.manual_seed(0)
models = [
    jsa.BeliefNetwork(jsa.Layer("bernoulli", 4), space, (5,), style=jsa.Style("tanh"), prior="learned"),
    jsa.StructuredPrediction(jsa.Layer("bernoulli", 4), 2, jsa.LatentSpace.of(jsa.Layer("bernoulli", 3)), [6]),
    Scaled((4, 3), scale=2.0),
    Scaled([4, 3]),
]
for number, model in enumerate(models):
    model.save(f"{number}.safetensors")
    print(nll(model))
"""
    load = """
from own_module import Scaled
for number, kind in enumerate([jsa.BeliefNetwork, jsa.StructuredPrediction, Scaled, Scaled]):
    torch.rand(7)
    model = kind.load(f"{number}.safetensors")
    print(nll(model))
"""
    # The argument counts, and not the weights alone.
    with_another_scale = load.replace("    print", "    model.scale = 0.5\n    print")
    found = []
    for code in (make, load, with_another_scale):
        made = subprocess.run(
            [sys.executable, "-c", NLL + code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        found.append(made.stdout.split())
    assert found[0] == found[1]
    assert len(set(found[0])) == 4
    assert [one == other for one, other in zip(found[0], found[2], strict=True)] == [True, True, False, True]


def test_a_record_alone_makes_a_model_of_this_library() -> None:
    for name in ("preset", "conditional preset", "positional"):
        record = constructor_record(MADE[name]())
        again = model_from_record(record, "a file")
        assert again is not None
        assert constructor_record(again) == record
    assert model_from_record(constructor_record(MADE["as its base"]()), "a file") is None


def test_a_file_holds_no_more_than_weights_and_arguments(tmp_path: Path) -> None:
    model = randomize(one_layer().model, 3)
    model.save(tmp_path / "model")
    tensors, notes = load_tensors(tmp_path / "model")
    assert set(tensors) == set(model.state_dict())
    assert set(notes) == {"checksum", "format", "class", "arguments"} - {"checksum"}
    assert notes["class"] == "jsa.models.belief_network:BeliefNetwork"


def test_taking_arguments_never_fails_and_keeps_nothing_alive() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        def __repr__(self) -> str:
            raise RuntimeError

    taken = Arguments.of(OfEveryKind, (Odd(), Odd()), {"option": Odd()})
    assert set(taken.others) == {"first", "second", "option"}
    assert not Arguments.of(OnlyNamed, (1, 2), {}).known
