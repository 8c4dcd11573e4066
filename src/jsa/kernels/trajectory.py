"""The moves that a kernel made with the chains of a batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from jsa import importance
from jsa.batch import Batch
from jsa.kernels.target import Start, together
from jsa.latent import LatentSpace
from jsa.model_calls import EvaluatedStates


@dataclass(frozen=True)
class Trajectory:
    """Moves of the chains of a batch.

    Attributes:
        evaluated: The candidates, evaluated under the current parameters: the initial states, then the proposals.
        path: The number of the candidate at which each chain is after each move.
        fresh: The numbers of the proposals that are draws of whole states from q(h | x), whatever the chain's state.
        name: The kernel that made the moves, for diagnostics.
        parts: The moves by kernel, if several kernels made them.
    """

    evaluated: EvaluatedStates
    path: Int64[Tensor, "moves batch"]
    fresh: tuple[int, ...] = ()
    name: str = ""
    parts: tuple[Trajectory, ...] = field(default=(), repr=False)

    @property
    def candidates(self) -> Float[Tensor, "candidates batch width"]:
        """The initial states, then the proposals in order."""
        return self.evaluated.h

    @property
    def log_weights(self) -> Float[Tensor, "candidates batch"]:
        """The log-weights of the candidates."""
        return self.evaluated.log_weights

    @property
    def multiplicities(self) -> Int64[Tensor, "candidates batch"]:
        """The number of visits to each candidate."""
        return importance.multiplicities(self.path, self.candidates.shape[0])

    @cached_property
    def acceptances(self) -> Int64[Tensor, " batch"]:
        """The number of accepted moves of each chain."""
        return importance.acceptances(self.path)

    @property
    def acceptance(self) -> Float[Tensor, ""]:
        """The share of accepted moves."""
        return self.acceptances.to(self.log_weights.dtype).mean() / len(self.path)

    @property
    def independent(self) -> bool:
        """Whether all proposals are independent draws of q(h | x)."""
        return len(self.fresh) == len(self.candidates) - 1

    @cached_property
    def last(self) -> Float[Tensor, "batch width"]:
        """The final state of each chain: all layers of a state move together."""
        rows = torch.arange(self.path.shape[1], device=self.path.device)
        return self.candidates[self.path[-1], rows]

    @property
    def chains(self) -> EvaluatedStates:
        """The final state of each chain as evaluated here: where another kernel goes on."""
        at, states = self.path[-1:], self.evaluated
        numbers = (part.gather(0, at) for part in (states.log_joint, states.log_inference, states.log_weights))
        return EvaluatedStates(states.posterior, self.last.unsqueeze(0), *numbers)

    def changed(self, latent: LatentSpace) -> Float[Tensor, " batch"]:
        """Return the number of variables in which the final state of each chain differs from its initial one."""
        first = self.candidates[0]
        # Writing the comparison into a floating-point tensor takes a tenth of the time of counting truth values.
        differs = torch.ne(self.last, first, out=first.new_empty(0))
        if all(layer.kind != "categorical" for layer in latent.layers):
            return differs.sum(-1)
        # Of a one-hot vector, two numbers change.
        sizes = [0.5 if layer.kind == "categorical" else 1.0 for layer in latent.layers]
        return sum(
            (size * differs[:, where].sum(-1) for size, where in zip(sizes, latent.slices, strict=True)),
            start=torch.zeros_like(differs[:, 0]),
        )

    def moved(self, latent: LatentSpace) -> Bool[Tensor, " batch"]:
        """Return which chains moved: by accepting a draw of q, or else to a state that differs.

        A block is often redrawn as it was, which is accepted and moves nothing.
        """
        return self.acceptances > 0 if self.independent else self.changed(latent) > 0

    def by_kernel(self) -> Mapping[str, tuple[Trajectory, ...]]:
        """Return the moves of each kernel, by its name."""
        found: dict[str, tuple[Trajectory, ...]] = {}
        for part in self.parts or (self,):
            found[part.name] = (*found.get(part.name, ()), part)
        return found

    def named(self, name: str) -> Trajectory:
        """Return the same moves as those of one kernel of this name."""
        return replace(self, name=name, parts=())

    def checked(self, batch: Batch) -> Self:
        """Return the trajectory, or refuse one with a log-weight that is NaN or plus infinity."""
        self.evaluated.check(batch)
        return self


def one_after_another(moves: Iterable[Callable[[Start], Trajectory]], chains: Start) -> Trajectory:
    """Make several moves, each from where the one before it ended, and return them as one trajectory."""
    made: list[Trajectory] = []
    for move in moves:
        made.append(move(chains))
        chains = made[-1].chains
    first, *later = made
    if not later:
        return first
    path, fresh, candidates = [first.path], [*first.fresh], [first.evaluated]
    before = len(first.candidates) - 1
    for one in later:
        # The first candidate of the later moves is the last state of the earlier ones.
        path.append(torch.where(one.path == 0, path[-1][-1], one.path + before))
        fresh += (number + before for number in one.fresh)
        states = one.evaluated
        parts = (states.h, states.log_joint, states.log_inference, states.log_weights)
        candidates.append(EvaluatedStates(states.posterior, *(part[1:] for part in parts)))
        before += len(one.candidates) - 1
    apart = tuple(itertools.chain.from_iterable(one.parts or (one,) for one in made))
    return Trajectory(together(*candidates), torch.cat(path), tuple(fresh), parts=apart)
