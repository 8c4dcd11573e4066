"""The methods do not mind a model whose networks are compiled."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: the shape checks of the tests cannot be traced.
PROGRAM = """
import copy, torch
from jsa import JSA, Batch, BeliefNetwork, LatentSpace, Layer
from jsa.estimators import VIMCO

latent = LatentSpace.of(Layer("bernoulli", 3), Layer("bernoulli", 2))
plain = BeliefNetwork(Layer("bernoulli", 4), latent, hidden=(5,)).double()
compiled = copy.deepcopy(plain)
for conditional in [*compiled.inference, *compiled.generative]:
    # Traced and differentiated ahead of time, without a compiler of another language.
    conditional.network.compile(backend="aot_eager")
batch = Batch(torch.ones(3, 4, dtype=torch.float64), torch.arange(3))
for make in (lambda: JSA(latent, 3, stage=2), lambda: VIMCO()):
    for model in (plain, compiled):
        torch.manual_seed(0)
        model.zero_grad()
        make()(model, batch).loss.backward()
    for one, other in zip(plain.parameters(), compiled.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or torch.allclose(one.grad, other.grad)
frames = torch._dynamo.utils.counters["frames"]["ok"]
assert frames > 0, "nothing was compiled"
"""


def test_compiled_networks_give_the_same_gradient() -> None:
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
