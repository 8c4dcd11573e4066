"""A centered model is the same function class in other coordinates, and starts at the means of the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from helpers.methods import BITS_ONLY, CLASSES_ONLY, NAMES, estimator_of
from helpers.refusals import refuses
from helpers.small_models import STYLE, randomize
from jsa import (
    Batch,
    BeliefNetwork,
    LatentSpace,
    Layer,
    StructuredPrediction,
    Style,
    column_means,
    fit,
    likelihood,
    load_model,
    open_run,
)
from jsa.errors import CheckpointError
from jsa.io.tensor_files import load_tensors
from jsa.models import Center, Centered
from jsa.models.networks import RAREST_AT_START, Conditional, Perceptron, gather_sum_wins
from jsa.models.presets import preset
from jsa.models.registry import build_model
from jsa.training.weights import load_weights, save_weights

Model = BeliefNetwork | StructuredPrediction
BITS, CLASSES, NUMBERS = Layer("bernoulli", 4), Layer("categorical", 2, classes=3), Layer("gaussian", 3)
CONTEXT = 2


def network(observed: Layer, *layers: Layer, hidden: tuple[int, ...] = (5,)) -> Callable[[Center | None], Model]:
    latent = LatentSpace.of(*layers)
    return lambda center: BeliefNetwork(
        observed, latent, hidden, prior="learned", style=STYLE, missing=True, center=center
    )


def conditional(observed: Layer, layer: Layer, hidden: tuple[int, ...] = (5,)) -> Callable[[Center | None], Model]:
    latent = LatentSpace.of(layer)
    return lambda center: StructuredPrediction(
        observed, CONTEXT, latent, hidden, style=STYLE, missing=True, center=center
    )


MODELS: dict[str, Callable[[Center | None], Model]] = {
    "bits": network(BITS, Layer("bernoulli", 3)),
    "linear": network(BITS, Layer("bernoulli", 3), hidden=()),
    "layers": network(BITS, Layer("bernoulli", 2), Layer("categorical", 1, classes=3), Layer("bernoulli", 2)),
    "classes": network(CLASSES, Layer("categorical", 2, classes=3)),
    "numbers": network(NUMBERS, Layer("bernoulli", 3)),
    "context": conditional(BITS, Layer("bernoulli", 3)),
    "context-linear": conditional(BITS, Layer("bernoulli", 3), hidden=()),
    "context-classes": conditional(CLASSES, Layer("categorical", 2, classes=3)),
    "gaussian": network(CLASSES, Layer("bernoulli", 2), Layer("gaussian", 2)),
}
ENUMERABLE = sorted(MODELS.keys() - {"gaussian"})


def center_of(model: Model) -> Center:
    """Means far from those of zeros and of fair coins."""
    layer = model.observed
    shares = torch.rand(layer.variables, layer.width // layer.variables)
    mean = (shares / shares.sum(-1, keepdim=True) if layer.kind == "categorical" else 0.1 + 0.3 * shares).flatten()
    return Center(mean, torch.tensor([0.3, -2.0]) if isinstance(model, StructuredPrediction) else None)


def rows_of(model: Model) -> Batch:
    """Rows of which values are missing, of the first none."""
    layer, count = model.observed, 4
    match layer.kind:
        case "bernoulli":
            x = torch.randint(2, (count, layer.variables)).double()
        case "categorical":
            x = nn.functional.one_hot(torch.randint(layer.classes, (count, layer.variables)), layer.classes).double()
        case "gaussian":
            x = torch.randn(count, layer.variables, dtype=torch.float64)
    by_variable = x.view(count, layer.variables, -1)
    by_variable[1, 0], by_variable[2, 1], by_variable[3] = torch.nan, torch.nan, torch.nan
    context = torch.randn(count, CONTEXT, dtype=torch.float64) if isinstance(model, StructuredPrediction) else None
    return Batch(by_variable.flatten(1), torch.arange(count), context)


def relaxed(space: LatentSpace, *shape: int) -> Tensor:
    """Values between the states of discrete variables."""
    parts = []
    for layer in space.layers:
        values = torch.randn(*shape, layer.variables, layer.width // layer.variables, dtype=torch.float64)
        of_kind = {"bernoulli": values.sigmoid(), "categorical": values.softmax(-1), "gaussian": values}
        parts.append(of_kind[layer.kind].flatten(-2))
    return torch.cat(parts, -1)


def states_of(model: Model, rows: int) -> Tensor:
    """Every state and some relaxed ones, for each row; of a continuous space, relaxed ones only."""
    between = relaxed(model.latent, 20, rows)
    if math.isinf(model.latent.states):
        return between
    every = model.latent.enumerate(torch.float64).unsqueeze(1).expand(-1, rows, -1)
    return torch.cat([every, between])


def centered(name: str) -> tuple[Model, Center, Batch]:
    """A centered model with random weights, its center, and rows."""
    torch.manual_seed(7)
    center = center_of(MODELS[name](None))
    model = randomize(MODELS[name](center), seed=3, scale=0.7)
    return model, center, rows_of(model)


@torch.no_grad()
def to_plain(perceptron: Perceptron, states: Layer | None) -> None:
    """Change the first weights of a copy so that it takes states as they are."""
    if states is None or states.kind == "gaussian":
        return
    linear, count = perceptron.first, states.classes
    # (h - 1/K) / sqrt((1 - 1/K) / K), which for bits is 2h - 1.
    factor = count / (count - 1) ** 0.5
    of_states = linear.weight[:, : states.width]
    of_states.mul_(factor)
    linear.bias.sub_(of_states.sum(-1) / count)


@torch.no_grad()
def of_plain_x(linear: nn.Linear, mean: Tensor, layer: Layer) -> None:
    """Change the weights of a copy so that it takes x as it is, with zeros for gaps."""
    of_x = linear.weight[:, : layer.width]
    moved = of_x * mean
    if layer.kind == "categorical":
        # A gap is a vector of zeros, so the ones of a row tell where none is.
        of_x.sub_(moved.unflatten(-1, (layer.variables, -1)).sum(-1).repeat_interleave(layer.classes, -1))
    else:
        linear.bias.sub_(moved.sum(-1))
        linear.weight[:, layer.width : 2 * layer.width].add_(moved)


def conditionals(model: Model) -> tuple[list[Conditional], list[Conditional]]:
    """Those of q and of p(x | h), from the data upward."""
    found = [list(part) if isinstance(part, nn.ModuleList) else [part] for part in (model.inference, model.generative)]
    return tuple([one for one in part if isinstance(one, Conditional)] for part in found)  # type: ignore[return-value]


def with_the_same_weights(name: str, model: Model) -> Model:
    """A model without centering, of which nothing is worked out."""
    other = MODELS[name](None).double()
    other.load_state_dict({key: value for key, value in model.state_dict().items() if key in other.state_dict()})
    return other


@torch.no_grad()
def plain_twin(name: str, model: Model, center: Center) -> Model:
    """A model without centering that computes the same, by weights that are worked out here."""
    twin = with_the_same_weights(name, model)
    upward, downward = conditionals(twin)
    layers = twin.latent.layers
    for one, below in zip(upward, [None, *layers], strict=False):
        to_plain(one.network, below)
    for one, above in zip(downward, layers, strict=True):
        to_plain(one.network, above)
    assert center.x is not None
    of_plain_x(upward[0].network.first, center.x.double(), twin.observed)
    if isinstance(twin, StructuredPrediction):
        assert center.context is not None
        for network in (upward[0].network, downward[0].network, twin.prior.network):
            of_context = network.first.weight[:, -CONTEXT:]
            network.first.bias.sub_(of_context @ center.context.double())
    return twin


def computed(model: Model, batch: Batch, h: Tensor) -> dict[str, Tensor]:
    """What a model computes of rows and states."""
    found = {
        "log p(x, h)": model.log_joint(batch, h),
        "log q(h | x)": model.posterior(batch).log_prob(h),
        "mean of x": model.observation(h, batch.context).mean,
    }
    conditionals = model.latent_conditionals(batch, h)
    return found | {f"p of layer {number}": one.mean for number, one in enumerate(conditionals)}


def largest_differences(one: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, float]:
    return {name: float((one[name] - other[name]).detach().abs().max()) for name in one}


@pytest.mark.parametrize("name", MODELS)
def test_the_same_functions_in_other_coordinates(name: str) -> None:
    model, center, batch = centered(name)
    twin = plain_twin(name, model, center)
    h = states_of(model, len(batch)).requires_grad_()
    found, expected = computed(model, batch, h), computed(twin, batch, h)
    assert max(largest_differences(found, expected).values()) < 1e-10
    # Methods that relax h differentiate by it.
    for part in ("log p(x, h)", "log q(h | x)"):
        one, other = (torch.autograd.grad(some[part].sum(), h)[0] for some in (found, expected))
        assert (one - other).abs().max() < 1e-10


@pytest.mark.parametrize("name", MODELS)
def test_the_same_weights_without_the_change_of_coordinates_are_another_model(name: str) -> None:
    model, _, batch = centered(name)
    other = with_the_same_weights(name, model)
    h = states_of(model, len(batch))
    differences = largest_differences(computed(model, batch, h), computed(other, batch, h))
    assert min(differences["log p(x, h)"], differences["log q(h | x)"]) > 1e-2


@torch.no_grad()
@pytest.mark.parametrize("name", ["classes", "layers"])
def test_classes_are_gathered_to_the_same_product(name: str) -> None:
    model, _, _ = centered(name)
    decoders = conditionals(model)[1]
    layer, place = next((one, i) for i, one in enumerate(model.latent.layers) if one.kind == "categorical")
    h = model.latent.enumerate(torch.float64)[:, model.latent.slices[place]]
    assert gather_sum_wins(h, layer.classes)
    gathered = decoders[place].network(h)
    with torch.enable_grad():
        assert not gather_sum_wins(h, layer.classes)
        assert torch.allclose(gathered, decoders[place].network(h), atol=1e-12, rtol=0)


def test_bits_are_minus_one_and_one_and_classes_have_their_variance() -> None:
    for layer in (Layer("bernoulli", 3), Layer("categorical", 2, classes=2), Layer("categorical", 2, classes=5)):
        network = Perceptron(layer.width, (), layer.width, centered=layer).double()
        with torch.no_grad():
            network.first.weight.copy_(torch.eye(layer.width))
            network.first.bias.zero_()
        seen = network(LatentSpace.of(layer).enumerate(torch.float64))
        assert seen.mean(0).abs().max() < 1e-12
        assert (seen.square().mean(0) - 1).abs().max() < 1e-12
        assert layer.classes > 2 or set(seen.flatten().tolist()) == {-1.0, 1.0}


def estimated(method: str, model: Model, batch: Batch) -> dict[str, Tensor]:
    """What a method makes of equal random numbers, with the gradients by biases, which are in no coordinates."""
    estimator = estimator_of(method, model, batch)
    torch.manual_seed(1)
    estimate = estimator(model, batch)
    model.zero_grad()
    estimate.loss.backward()
    biases = {
        name: one.grad for name, one in model.named_parameters() if name.endswith("bias") and one.grad is not None
    }
    return {"loss": estimate.loss.detach(), "objective": estimate.objective.detach(), **biases}


def takes(method: str, space: LatentSpace) -> bool:
    kinds = {layer.kind for layer in space.layers}
    return kinds <= {"bernoulli"} if method in BITS_ONLY else kinds <= {"categorical"} or method not in CLASSES_ONLY


@pytest.mark.parametrize("name", ENUMERABLE)
def test_every_method_learns_the_same_from_both(name: str) -> None:
    model, center, batch = centered(name)
    twin, other = plain_twin(name, model, center), with_the_same_weights(name, model)
    methods = [method for method in NAMES if takes(method, model.latent)]
    assert {"jsa", "rebar", "relax", "concrete", "muprop"} <= set(methods)
    for method in methods:
        found, expected, wrong = (estimated(method, one, batch) for one in (model, twin, other))
        assert found.keys() == expected.keys()
        assert len(found) >= 4  # at least one bias of p and one of q
        assert max(largest_differences(found, expected).values()) < 1e-9, method
        assert max(largest_differences(found, wrong).values()) > 1e-2, method


@pytest.mark.parametrize("name", MODELS)
def test_weights_begin_as_without_a_center_but_for_the_bias_of_x(name: str) -> None:
    models = []
    for center in (None, center_of(MODELS[name](None))):
        torch.manual_seed(2)
        models.append(MODELS[name](center))
    plain, moved = (dict(model.named_parameters()) for model in models)
    assert not list(models[0].buffers())
    assert plain.keys() == moved.keys()
    different = [key for key in plain if not torch.equal(plain[key], moved[key])]
    assert len(different) == 1
    assert different[0].startswith("generative")
    assert different[0].endswith("bias")


def start(observed: Layer, mean: list[float]) -> Tensor:
    """The mean of x of a new model whose decoder has no weights yet."""
    latent = LatentSpace.of(Layer("bernoulli", 2))
    model = BeliefNetwork(observed, latent, style=Style(initial_bias=0.0), center=Center(torch.tensor(mean)))
    (decoder,) = conditionals(model)[1]
    nn.init.zeros_(decoder.network.first.weight)
    with torch.no_grad():
        return model.observation(torch.ones(1, 2)).mean[0]


@pytest.mark.parametrize(
    ("observed", "mean"),
    [
        (Layer("bernoulli", 3), [0.2, 0.9, 0.5]),
        (Layer("categorical", 2, classes=3), [0.2, 0.7, 0.1, 0.25, 0.25, 0.5]),
        (Layer("gaussian", 2), [-30.0, 2.0]),
    ],
)
def test_a_model_starts_at_the_means(observed: Layer, mean: list[float]) -> None:
    assert torch.allclose(start(observed, mean), torch.tensor(mean), atol=1e-6)


def test_a_constant_column_starts_as_a_rare_value() -> None:
    low, high = RAREST_AT_START, 1 - RAREST_AT_START
    assert torch.allclose(start(Layer("bernoulli", 2), [0.0, 1.0]), torch.tensor([low, high]), atol=1e-6)
    classes = start(Layer("categorical", 1, classes=3), [0.0, 1.0, 0.0])
    assert torch.allclose(classes, torch.tensor([low, 1.0, low]) / (1 + 2 * low), atol=1e-6)


def test_a_column_without_values_starts_as_the_fixed_prior() -> None:
    assert torch.allclose(start(Layer("bernoulli", 2), [torch.nan, 0.2]), torch.tensor([0.5, 0.2]), atol=1e-6)
    nothing = [torch.nan] * 4
    assert torch.allclose(start(Layer("categorical", 1, classes=4), nothing), torch.full((4,), 0.25), atol=1e-6)
    assert torch.allclose(start(Layer("gaussian", 1), [torch.nan]), torch.zeros(1))


@torch.no_grad()
@pytest.mark.parametrize("indicators", [True, False])
@pytest.mark.parametrize("observed", [BITS, CLASSES, NUMBERS])
def test_a_gap_is_the_mean_to_a_new_inference_network(observed: Layer, indicators: bool) -> None:
    torch.manual_seed(5)
    latent = LatentSpace.of(Layer("bernoulli", 3))
    plain = BeliefNetwork(observed, latent, (5,))
    center = center_of(plain)
    assert center.x is not None
    model = BeliefNetwork(observed, latent, (5,), missing=True, indicators=indicators, center=center)
    x = rows_of(model).x.float()
    filled = x.where(~x.isnan(), center.x)
    found, expected, zeros = (model.posterior(Batch(one)).first.mean for one in (x, filled, x.nan_to_num(0.0)))
    assert torch.allclose(found, expected, atol=1e-6)
    assert (found - zeros).abs().max() > 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_the_center_is_saved_with_the_model(name: str, tmp_path: Path) -> None:
    model, _, batch = centered(name)
    model.save(tmp_path / "model.safetensors")
    again = load_model(type(model), tmp_path / "model.safetensors")
    h = states_of(model, len(batch))
    assert max(largest_differences(computed(model, batch, h), computed(again, batch, h)).values()) == 0
    _, notes = load_tensors(tmp_path / "model.safetensors")
    arguments = notes["arguments"]
    assert isinstance(arguments, dict)
    assert arguments["center"] == {"Center": {}}
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("name", ["bits", "context"])
def test_weights_of_a_run_bring_the_center(name: str, tmp_path: Path) -> None:
    model, _, batch = centered(name)
    save_weights(model, tmp_path / "best", {})
    again, h = MODELS[name](Center()).double(), states_of(model, len(batch))
    load_weights(again, tmp_path / "best")
    assert max(largest_differences(computed(model, batch, h), computed(again, batch, h)).values()) == 0
    with pytest.raises(CheckpointError, match=r"belongs to another model: .*mean is .* there and missing"):
        load_weights(MODELS[name](None).double(), tmp_path / "best")


def test_a_run_folder_rebuilds_a_centered_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.bernoulli(torch.linspace(0, 0.9, 4).expand(200, 4))
    settings = {"progress": False, "pictures": False}
    run = fit(MODELS["bits"](column_means(x)), x, epochs=1, out=tmp_path / "run", config=settings)
    opened = open_run(tmp_path / "run").model
    mean = opened.state_dict()["observations.mean"]
    assert torch.equal(mean, x.mean(0))
    assert likelihood(opened, x, 5).nll == likelihood(run.model, x, 5).nll
    # The twin that keeps the weights and forgets the means.
    mean.zero_()
    assert likelihood(opened, x, 5).nll != likelihood(run.model, x, 5).nll


@pytest.mark.parametrize("name", ["linear", "categorical", "structured"])
def test_a_configuration_is_built_centered(name: str) -> None:
    config, width = preset(name), 4 if preset(name).conditional else 0
    mean = torch.full((6,), 0.2)
    center = Center(mean, torch.full((width,), 0.7) if width else None)
    model = build_model(config, Layer("bernoulli", 6), width, center=center)
    assert model.observations.mean is not None
    assert torch.equal(model.observations.mean, mean)
    last = conditionals(model)[1][0].network.layers[-1]
    assert torch.allclose(dict(last.named_parameters())["bias"], mean.logit())
    assert not list(chain(build_model(preset("structured"), Layer("bernoulli", 6), 4).buffers()))


def test_a_module_sees_its_input_without_the_mean(tmp_path: Path) -> None:
    torch.manual_seed(0)
    linear, mean = nn.Linear(3, 2), torch.tensor([0.5, torch.nan, 2.0])
    module = Centered(linear, mean)
    x = torch.randn(4, 5, 3)
    assert torch.allclose(module(x), linear(x - torch.tensor([0.5, 0.0, 2.0])))
    x[0, 0, 0] = torch.nan
    assert torch.allclose(module(x)[0, 0], linear(torch.cat([torch.zeros(1), x[0, 0, 1:] - torch.tensor([0.0, 2.0])])))
    again = Centered(nn.Linear(3, 2), torch.zeros(3))
    again.load_state_dict(module.state_dict())
    assert torch.equal(again(x), module(x))
    images = Centered(nn.Flatten(), torch.ones(1, 2, 2))
    assert torch.equal(images(torch.ones(7, 1, 2, 2)), torch.zeros(7, 4))


def bits_with(center: Center) -> object:
    return MODELS["bits"](center)


test_refusals = refuses(
    (lambda: bits_with(Center(torch.zeros(3))), r"the center of x has shape \(3,\), but a row has 4 columns"),
    (lambda: bits_with(Center(torch.full((4,), 127.0))), "values outside 0 to 1, which 4 bernoulli variables"),
    (lambda: MODELS["numbers"](Center(torch.full((3,), torch.inf))), "the center of x is not finite"),
    (lambda: MODELS["context"](Center(torch.zeros(4))), "the center has no mean of the context"),
    (lambda: MODELS["context"](Center(torch.zeros(4), torch.zeros(5))), "the center of the context has shape"),
    (lambda: Centered(nn.Identity(), torch.zeros(3))(torch.zeros(5, 1)), r"got an input of shape \(5, 1\)"),
    (lambda: Centered(nn.Identity(), torch.zeros(2, 2))(torch.zeros(2)), r"got an input of shape \(2,\)"),
    (lambda: Centered(nn.Identity(), torch.full((1,), -torch.inf)), "is not finite"),
)
