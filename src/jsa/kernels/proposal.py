"""The interface of proposals that depend on the current state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from jsa.errors import UsageError
from jsa.kernels.target import Target
from jsa.latent import Kind, LatentSpace
from jsa.model_calls import EvaluatedStates


@dataclass(frozen=True)
class Proposed:
    """Proposed states with the densities of the proposal, up to a factor that both have in common.

    Attributes:
        states: The proposed states.
        log_forward: The log-density of proposing them from the current states.
        log_backward: The log-density of proposing the current states from them.
    """

    states: EvaluatedStates
    log_forward: Float[Tensor, "1 batch"]
    log_backward: Float[Tensor, "1 batch"]


class Proposal(nn.Module, ABC):
    """A way to propose a state that depends on the current one.

    What is chosen besides, such as which variables to change, is chosen first, by ``choose``, which does not see the
    states: a choice that depends on them would need its own densities in the acceptance.
    """

    name: ClassVar[str]
    """The name in diagnostics."""
    kinds: tuple[Kind, ...]
    """The kinds of latent variables that it moves; it leaves all others as they are."""

    @abstractmethod
    def choose(self, target: Target) -> Any:
        """Choose, for each row, what does not depend on the states."""

    @abstractmethod
    def propose(
        self, target: Target, current: EvaluatedStates, chosen: Any, uniforms: Float[Tensor, "1 batch variables"]
    ) -> Proposed:
        """Return the states that these uniforms determine, one uniform for each variable, and evaluate them."""

    def adapt(self, acceptance: Float[Tensor, ""], latent: LatentSpace) -> None:
        """Tune the proposal after a move with this mean probability of acceptance; by default there is nothing."""

    def check(self, latent: LatentSpace) -> None:
        """Refuse a latent space without any variable that the proposal moves."""
        if all(layer.kind not in self.kinds for layer in latent.layers):
            raise UsageError(
                f"{type(self).__name__} moves {' and '.join(self.kinds)} variables, but the latent space has none "
                f"({latent}): choose another proposal, or other kinds"
            )
