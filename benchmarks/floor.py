"""The floor: the cost of the arithmetic of a step alone.

It is the matrix products, one softplus and one sigmoid pass over the logits, the uniforms and one fused Adam step, all
on tensors that are allocated once. Activations, biases' gradients, gathers, Python and the framework's cost per
operation are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from benchmarks.settings import Model
from jsa.models.networks import Conditional
from jsa.models.structured_prediction import StructuredPrediction

Kernel = Callable[[], object]


@dataclass(frozen=True)
class Work:
    """The number of states that a method passes through the generative model in a step.

    Attributes:
        rows: The batch size.
        evaluated: States that are evaluated without gradient.
        differentiated: States that are evaluated and differentiated.
        through_states: Whether the gradient flows back into the states, as in relaxed methods.
        uniforms: The number of uniforms drawn.
    """

    rows: int
    evaluated: int
    differentiated: int
    through_states: bool
    uniforms: int


@dataclass(frozen=True)
class Pass:
    """The rows that pass through a chain of matrix products."""

    widths: tuple[int, ...]
    evaluated: int
    differentiated: int
    input_gradient: bool
    logits: bool


def passes(model: Model, work: Work) -> list[Pass]:
    """Return the products of a step: each row through the encoder once, each state through what depends on it."""
    states = (work.evaluated, work.differentiated)
    if isinstance(model, StructuredPrediction):
        latent, hidden, *rest = _widths(model.generative)
        latent = model.latent.width
        return [
            Pass(_widths(model.inference), 0, work.rows, False, True),
            Pass(_widths(model.prior), 0, work.rows, False, True),
            # The part of the first product that depends on the context alone is needed once per row.
            Pass((_widths(model.generative)[0] - latent, hidden), 0, work.rows, False, False),
            Pass((latent, hidden), *states, work.through_states, False),
            Pass((hidden, *rest), *states, True, True),
        ]
    encoder, *deeper = model.inference
    return [
        Pass(_widths(encoder), 0, work.rows, False, True),
        *(Pass(_widths(conditional), *states, work.through_states, True) for conditional in deeper),
        *(Pass(_widths(conditional), *states, work.through_states, True) for conditional in model.generative),
    ]


def flops(passes_of_step: Sequence[Pass]) -> float:
    """Return the floating-point operations: two per multiply-add, and two products per backward pass."""
    total = 0
    for part in passes_of_step:
        for number, (inputs, outputs) in enumerate(pairwise(part.widths)):
            products = 3 if number or part.input_gradient else 2
            total += 2 * inputs * outputs * (part.evaluated + products * part.differentiated)
    return total


def evaluation_kernels(part: Pass, rows: int) -> Iterator[Kernel]:
    """Run the forward products of these rows and the softplus pass over their logits."""
    value = torch.rand(rows, part.widths[0])
    for inputs, outputs in pairwise(part.widths):
        value = yield from _product(value, torch.randn(inputs, outputs) / inputs**0.5)
    if part.logits:
        yield _softplus(value)


def step_kernels(model: Model, work: Work) -> Iterator[Kernel]:
    """Run everything that a step requires."""
    for part in passes(model, work):
        if part.evaluated:
            yield from evaluation_kernels(part, part.evaluated)
        if part.differentiated:
            yield from _differentiated(part)
    uniforms = torch.empty(work.uniforms)
    yield lambda: torch.rand(work.uniforms, out=uniforms)
    yield _adam(model)


def _differentiated(part: Pass) -> Iterator[Kernel]:
    values = [torch.rand(part.differentiated, part.widths[0])]
    weights = [torch.randn(inputs, outputs) / inputs**0.5 for inputs, outputs in pairwise(part.widths)]
    for weight in weights:
        values.append((yield from _product(values[-1], weight)))
    if part.logits:
        yield _softplus(values[-1])
        slope = torch.empty_like(values[-1])
        yield lambda: torch.sigmoid(values[-1], out=slope)
    gradient = torch.randn_like(values[-1])
    for number, (value, weight) in reversed(list(enumerate(zip(values[:-1], weights, strict=True)))):
        yield from _product(value.t(), gradient)
        if number or part.input_gradient:
            gradient = yield from _product(gradient, weight.t())


def _product(left: Tensor, right: Tensor) -> Generator[Kernel, None, Tensor]:
    out = torch.empty(left.shape[0], right.shape[1])
    torch.mm(left, right, out=out)
    yield lambda: torch.mm(left, right, out=out)
    return out


def _softplus(logits: Tensor) -> Kernel:
    out = torch.empty_like(logits)
    return lambda: torch._C._nn.softplus(logits, out=out)  # type: ignore[call-arg]


def _adam(model: nn.Module) -> Kernel:
    parameters = [nn.Parameter(parameter.detach().clone()) for parameter in model.parameters()]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return torch.optim.Adam(parameters, lr=1e-6, fused=True).step


def _widths(conditional: nn.Module) -> tuple[int, ...]:
    assert isinstance(conditional, Conditional)
    linears = [layer for layer in conditional.network.layers if isinstance(layer, nn.Linear)]
    return (linears[0].in_features, *(linear.out_features for linear in linears))
