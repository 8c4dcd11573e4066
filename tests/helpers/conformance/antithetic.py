"""The methods that couple the noise of their draws."""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.conformance.cases import Case, of
from jsa.estimators.antithetic import Antithetic, Coupling
from jsa.estimators.arm import ARM
from jsa.estimators.arms import ARMS
from jsa.estimators.arsm import ARSM
from jsa.estimators.disarm import DisARM
from jsa.posteriors import LayeredPosterior


class OthersDescendants(Antithetic):
    """The branches of a layer keep the states of branch 0 in the layers after it, which were drawn given branch 0."""

    def complete(
        self, posterior: LayeredPosterior, path: Tensor, couplings: list[Coupling], layer: int
    ) -> tuple[Tensor, Tensor]:
        where = posterior.latent.slices[layer]
        states = path.repeat(len(couplings[layer].states) - 1, 1, 1, 1)
        states[..., where] = couplings[layer].states[1:]
        return states, posterior.log_prob(states)


class Flat(Antithetic):
    """All layers in one coupling: each branch draws its own ancestors, and each layer gets the same difference."""

    def complete(
        self, posterior: LayeredPosterior, path: Tensor, couplings: list[Coupling], layer: int
    ) -> tuple[Tensor, Tensor]:
        states = path.new_empty(len(couplings[0].states) - 1, *path.shape[:-1], 0)
        for number, coupling in enumerate(couplings):
            distribution = posterior.conditional(number, states)
            states = torch.cat([states, self.draw(distribution, coupling.noise[1:])], dim=-1)
        return states, posterior.log_prob(states)


class SharedARM(OthersDescendants, ARM):
    pass


class FlatARM(Flat, ARM):
    pass


class OneBranchARM(ARM):
    """The merge forgotten: the first branch stands for the difference of the two."""

    def logit_gradient(self, coupling: Coupling, signals: Tensor) -> Tensor:
        return signals[0].unsqueeze(-1) * (coupling.noise[1] - 0.5)


class FlatDisARM(Flat, DisARM):
    pass


class WithoutTheProbability(DisARM):
    """The factor sigma(|l|) left out."""

    def logit_gradient(self, coupling: Coupling, signals: Tensor) -> Tensor:
        first, second = signals.unsqueeze(-1)
        b1, b2 = coupling.states
        return 0.5 * (first - second) * (b1 - b2)


class WithoutTheCorrelation(ARMS):
    """The draws taken as independent."""

    def logit_gradient(self, coupling: Coupling, signals: Tensor) -> Tensor:
        deviations = (signals - signals.mean(0)).unsqueeze(-1)
        return (deviations * coupling.states).sum(0) / (self.particles - 1)


class SharedARMS(OthersDescendants, ARMS):
    pass


class SharedARSM(OthersDescendants, ARSM):
    pass


class WrongNoise(ARSM):
    """The noise of the class itself in place of that of the class it is swapped with."""

    def logit_gradient(self, coupling: Coupling, signals: Tensor) -> Tensor:
        simplex = coupling.noise[0]
        by_pair = signals_by_pair(signals, simplex.shape[-1])
        total = (by_pair - by_pair.mean(0)).sum(1)
        return torch.einsum("cgb,gbvc->gbvc", total, 1 / simplex.shape[-1] - simplex).flatten(-2)


class MeanOfSwaps(ARSM):
    """The mean over the classes to swap with where there should be the sum."""

    def logit_gradient(self, coupling: Coupling, signals: Tensor) -> Tensor:
        return super().logit_gradient(coupling, signals) / coupling.noise.shape[-1]


def signals_by_pair(signals: Tensor, classes: int) -> Tensor:
    """The signal of each swap, written out: branch 0 on the diagonal, then (0, 1), (0, 2), ..., (1, 2), ..."""
    pairs = signals.new_empty(classes, classes, *signals.shape[1:])
    branch = 1
    for first in range(classes):
        pairs[first, first] = signals[0]
        for second in range(first + 1, classes):
            pairs[first, second] = pairs[second, first] = signals[branch]
            branch += 1
    return pairs


BITS = ("one-layer", "two-layers", "conditional")
OTHERS_DESCENDANTS = "the descendants of the other branch"
LAYERS = "two categorical layers"

ARM_TWINS = {
    OTHERS_DESCENDANTS: ("two-layers", of(SharedARM)),
    "all layers in one coupling": ("two-layers", of(FlatARM)),
    "one branch": ("one-layer", of(OneBranchARM)),
}
DISARM_TWINS = {
    "without sigma(|l|)": ("one-layer", of(WithoutTheProbability)),
    "all layers in one coupling": ("two-layers", of(FlatDisARM)),
}
ARMS_TWINS = {
    "without 1 / (1 - rho)": ("one-layer", of(WithoutTheCorrelation, particles=3)),
    OTHERS_DESCENDANTS: ("two-layers", of(SharedARMS, particles=3)),
}
ARSM_TWINS = {
    "the noise of the class itself": ("categorical", of(WrongNoise)),
    "the mean over the swaps": ("categorical", of(MeanOfSwaps)),
}

CASES = [
    Case("ARM", of(ARM), ARM_TWINS, BITS, copies=4_000),
    Case("ARM, two pairs", of(ARM, particles=4), {}, BITS, copies=1_500),
    Case("DisARM", of(DisARM), DISARM_TWINS, BITS),
    Case("DisARM, two pairs", of(DisARM, particles=4), {}, BITS),
    Case("ARMS", of(ARMS, particles=3), ARMS_TWINS, BITS),
    *(Case(f"ARMS, n = {n}", of(ARMS, particles=n), {}, BITS, copies=4_000 // n) for n in (2, 4, 8)),
    Case("ARSM", of(ARSM), ARSM_TWINS, ("categorical",), copies=5_000),
    Case("ARSM, layers", of(ARSM), {OTHERS_DESCENDANTS: (LAYERS, of(SharedARSM))}, (LAYERS,), copies=4_000),
]
