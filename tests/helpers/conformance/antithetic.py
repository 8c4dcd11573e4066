"""The methods that couple the noise of their draws."""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.conformance.cases import Case
from helpers.targets import elbo_gradients
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

CASES = [
    Case(
        "ARM",
        lambda model, batch: ARM(),
        elbo_gradients,
        "ELBO",
        {
            "the descendants of the other branch": ("two-layers", lambda model, batch: SharedARM()),
            "all layers in one coupling": ("two-layers", lambda model, batch: FlatARM()),
            "one branch": ("one-layer", lambda model, batch: OneBranchARM()),
        },
        examples=BITS,
        copies=4_000,
    ),
    Case("ARM, two pairs", lambda model, batch: ARM(particles=4), elbo_gradients, "ELBO", examples=BITS, copies=1_500),
    Case(
        "DisARM",
        lambda model, batch: DisARM(),
        elbo_gradients,
        "ELBO",
        {
            "without sigma(|l|)": ("one-layer", lambda model, batch: WithoutTheProbability()),
            "all layers in one coupling": ("two-layers", lambda model, batch: FlatDisARM()),
        },
        examples=BITS,
    ),
    Case("DisARM, two pairs", lambda model, batch: DisARM(particles=4), elbo_gradients, "ELBO", examples=BITS),
    Case(
        "ARMS",
        lambda model, batch: ARMS(particles=3),
        elbo_gradients,
        "ELBO",
        {
            "without 1 / (1 - rho)": ("one-layer", lambda model, batch: WithoutTheCorrelation(particles=3)),
            "the descendants of the other branch": ("two-layers", lambda model, batch: SharedARMS(particles=3)),
        },
        examples=BITS,
    ),
    *(
        Case(
            f"ARMS, n = {n}",
            lambda model, batch, n=n: ARMS(particles=n),
            elbo_gradients,
            "ELBO",
            examples=BITS,
            copies=4_000 // n,
        )
        for n in (2, 4, 8)
    ),
    Case(
        "ARSM",
        lambda model, batch: ARSM(),
        elbo_gradients,
        "ELBO",
        {
            "the noise of the class itself": ("categorical", lambda model, batch: WrongNoise()),
            "the mean over the swaps": ("categorical", lambda model, batch: MeanOfSwaps()),
        },
        examples=("categorical",),
        copies=5_000,
    ),
]
