"""What torch.compile does with the library, in a process of its own: the shape checks of the tests cannot be traced.

The backends count graphs and run them as they are, without a compiler of another language.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch._dynamo.utils import counters

from jsa import (
    JSA,
    Batch,
    BeliefNetwork,
    Bernoulli,
    Categorical,
    Factorized,
    LatentSpace,
    Layer,
    LayeredPosterior,
    Learner,
    check_model,
    distributions,
)
from jsa.distributions import Gaussian
from jsa.errors import UsageError
from jsa.estimators import NVIL, VIMCO

LATENT = LatentSpace.of(Layer("bernoulli", 3), Layer("bernoulli", 2))
BATCH = Batch(torch.eye(4, dtype=torch.float64), torch.arange(4))
graphs: list[torch.fx.GraphModule] = []


def counting(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
    """Count a graph and run it as it is."""
    graphs.append(graph)
    forward: Callable[..., Any] = graph.forward
    return forward


class CompiledMethods(BeliefNetwork):
    """A network whose methods are compiled, as docs/how-to/optimize.md has it."""

    @torch.compile(backend=counting)
    def log_joint(self, batch: Batch, h: Tensor) -> Tensor:
        return super().log_joint(batch, h)

    @torch.compile(backend=counting)
    def posterior(self, batch: Batch) -> LayeredPosterior:
        return super().posterior(batch)


def network(kind: type[BeliefNetwork] = BeliefNetwork) -> BeliefNetwork:
    """A small network, the same of each kind."""
    torch.manual_seed(1)
    return kind(Layer("bernoulli", 4), LATENT, hidden=(5,)).double()


def compiled_networks() -> BeliefNetwork:
    """A network whose parts were assigned anew, compiled."""
    model = network()
    for conditional in [*model.inference, *model.generative]:
        assert isinstance(conditional.network, nn.Module)
        conditional.network = torch.compile(conditional.network, backend=counting)
    return model


def same_gradient(compiled: BeliefNetwork) -> None:
    """Several steps compile something, break no graph, and have the gradient of uncompiled ones."""
    plain = network()
    for make in (lambda: JSA(LATENT, 4, stage=2), VIMCO, lambda: NVIL(LATENT, inputs=4).double()):
        learners = []
        for model in (plain, compiled):
            torch.manual_seed(0)
            learners.append(Learner(model, make()))
        for step in range(3):
            for learner in learners:
                torch.manual_seed(step)
                learner.zero_grad()
                learner(BATCH).loss.backward()
            for one, other in zip(plain.parameters(), compiled.parameters(), strict=True):
                assert (one.grad is None) == (other.grad is None)
                if one.grad is not None and other.grad is not None:
                    assert torch.allclose(one.grad, other.grad, atol=1e-12)
    assert graphs, "nothing was compiled"
    assert not counters["graph_break"], counters["graph_break"]


def methods() -> None:
    """Both methods are compiled, a copy is a model of its own, and values are still checked."""
    compiled = network(CompiledMethods)
    same_gradient(compiled)
    # posterior in one graph; log_joint in one for each number of states and with and without gradient.
    traced = len(graphs)
    assert 2 <= traced <= 8, traced
    twin = copy.deepcopy(compiled)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
        assert torch.allclose(twin.log_joint(BATCH, torch.ones(1, 4, 5).double()), BATCH.x.new_tensor(-9).exp2().log())
    check_model(compiled, BATCH)
    pictures = Batch(200 * BATCH.x, BATCH.index)
    compiled.log_joint(pictures, torch.ones(1, 4, 5).double())
    refused(lambda: check_model(compiled, pictures), "cannot have the value 200")


def networks() -> None:
    """A part that is compiled and assigned is compiled; its method ``compile`` does nothing where torch defines it."""
    part = nn.Sequential(nn.Linear(3, 3))
    part.compile(backend=counting)
    part(torch.ones(2, 3))
    assert not graphs
    same_gradient(compiled_networks())


def refused(call: Callable[[], object], sentence: str) -> None:
    """The call is refused with this sentence."""
    with pytest.raises(UsageError, match=sentence):
        call()


def wholes() -> None:
    """Of a whole model torch compiles nothing, and of a whole learner many pieces: both are refused."""
    model = network()
    whole: Any = torch.compile(model, backend=counting)
    # What would happen: estimators call these, and torch compiles forward.
    whole.log_joint(BATCH, torch.ones(1, 4, 5).double())
    whole.posterior(BATCH)
    assert not graphs
    remedy = "write @torch.compile above log_joint and posterior"
    unused = f"compiled as a whole runs uncompiled.*: {remedy}"
    refused(lambda: JSA(LATENT, 4)(whole, BATCH), unused)
    refused(lambda: Learner(whole, VIMCO())(BATCH), unused)
    refused(lambda: check_model(whole, BATCH), unused)
    in_place = network()
    in_place.compile(backend=counting)
    refused(lambda: VIMCO()(in_place, BATCH), unused)
    pieces = (
        "breaks a Learner or a training step into many pieces.*: write @torch.compile above log_joint and posterior"
    )
    for estimator in (JSA(LATENT, 4), JSA(LATENT, 4, stage=2), VIMCO()):
        learner = Learner(model, estimator)
        refused(lambda learner=learner: torch.compile(learner, backend=counting)(BATCH), pieces)  # type: ignore[misc]
        learner(BATCH).loss.backward()

    @torch.compile(backend=counting)
    def step() -> None:
        VIMCO()(model, BATCH).loss.backward()

    refused(step, pieces)


class Looks(Bernoulli):
    """Known to be wrong: it looks at a variable of the context, which cannot be traced."""

    def log_prob(self, h: Tensor) -> Tensor:
        assert not distributions._VALIDATING.get()
        return super().log_prob(h)


def log_prob() -> None:
    """The log_prob of each distribution is one graph, in every form, with the values and gradient of the plain one."""
    bits = torch.bernoulli(torch.full((2, 5, 6), 0.5))
    classes = nn.functional.one_hot(torch.randint(3, (2, 5, 2)), 3).flatten(-2).float()
    missing = torch.rand(5, 6) < 0.3
    gaps = missing[:, ::3].repeat_interleave(3, -1)
    known, known_classes = (h[0].masked_fill(gaps, torch.nan) for h in (bits, classes))
    rows = torch.tensor([4, 0, 0, 1, 2])
    cases: dict[str, tuple[Callable[[Tensor], Factorized], Tensor]] = {
        "bits": (Bernoulli, bits),
        "one vector of bits": (lambda logits: Bernoulli(logits[0]), bits),
        "bits in half precision": (lambda logits: Bernoulli(logits.bfloat16()), bits),
        "saturated bits": (lambda logits: Bernoulli(logits, saturated=True), bits),
        "known bits": (lambda logits: Bernoulli(logits).clamped(known), bits),
        "missing bits": (lambda logits: Bernoulli(logits).leaving_out(missing), bits.masked_fill(missing, 0)),
        "taken bits": (lambda logits: Bernoulli(logits).take(rows), bits),
        "classes": (lambda logits: Categorical(logits, 3), classes),
        "known classes": (lambda logits: Categorical(logits, 3).clamped(known_classes), classes),
        "missing classes": (lambda logits: Categorical(logits, 3).leaving_out(gaps), classes.masked_fill(gaps, 0)),
        "numbers": (lambda logits: Gaussian(logits, logits / 3), bits),
        "missing numbers": (lambda logits: Gaussian(logits, logits / 3).leaving_out(missing), bits),
    }
    logits = torch.randn(5, 6, requires_grad=True)
    # Sums of many logits are computed in another way.
    for worthwhile in (distributions.WORTHWHILE, 1):
        distributions.WORTHWHILE = worthwhile
        for name, (make, h) in cases.items():
            torch._dynamo.reset()
            graphs.clear()

            def function(logits: Tensor, h: Tensor, make: Callable[[Tensor], Factorized] = make) -> Tensor:
                return make(logits).log_prob(h)

            found, expected = torch.compile(function, backend=counting, fullgraph=True)(logits, h), function(logits, h)
            assert len(graphs) == 1, name
            assert torch.allclose(found, expected, atol=1e-6), name
            slope, wanted = (torch.autograd.grad(value.sum(), logits)[0] for value in (found, expected))
            assert torch.allclose(slope, wanted, atol=1e-6), name
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda logits: Looks(logits).log_prob(bits), backend=counting, fullgraph=True)(logits)


def run() -> None:
    """Run all of this in a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-m", "helpers.compiled"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert finished.returncode == 0, finished.stderr


if __name__ == "__main__":
    torch.set_num_threads(1)
    for program in (methods, networks, wholes, log_prob):
        torch._dynamo.reset()
        counters.clear()
        graphs.clear()
        torch.manual_seed(0)
        program()
