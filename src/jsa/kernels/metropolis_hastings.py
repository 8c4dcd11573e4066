"""Metropolis-Hastings moves with any proposal."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from jsa import importance
from jsa.errors import UsageError
from jsa.kernels.base import Kernel
from jsa.kernels.independence import Independence
from jsa.kernels.proposal import Proposal, Proposed
from jsa.kernels.target import Start, Target, together
from jsa.kernels.trajectory import Trajectory, one_after_another
from jsa.model_calls import EvaluatedStates


class MetropolisHastings(Kernel):
    r"""Propose a state h', and accept it with probability :math:`\min(1, a)`.

    .. math:: a = \frac{\pi(h') \, g(h | h')}{\pi(h) \, g(h' | h)}

    where g is the density of the proposal. It is reversible for the target.

    Args:
        proposal: ``Independence()``, ``Block(...)``, or a ``Proposal`` of your own.

    Example:
        >>> from jsa import Batch, BeliefNetwork, LatentSpace, Layer
        >>> from jsa.kernels import Block, Target
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 40)))
        >>> kernel = MetropolisHastings(Block(size=0.1))
        >>> target = Target(model, Batch(torch.eye(6)))
        >>> with torch.no_grad():
        ...     moved = kernel.move(target, times=3)
        >>> moved.last.shape, moved.path.shape, target.evaluations
        (torch.Size([6, 40]), torch.Size([3, 6]), 4)

    References:
        Hastings, Monte Carlo sampling methods using Markov chains and their applications, Biometrika 57 (1970).
    """

    proposals = 1

    def __init__(self, proposal: Independence | Proposal) -> None:
        super().__init__()
        if not isinstance(proposal, Independence | Proposal):
            raise UsageError(
                f"MetropolisHastings needs a proposal, not {type(proposal).__name__}: give Independence(), Block() or "
                "an object of your own subclass of Proposal"
            )
        self.proposal = proposal
        self.independent = isinstance(proposal, Independence)

    def move(self, target: Target, chains: Start = None, times: int = 1, *, adapt: bool = False) -> Trajectory:
        if isinstance(self.proposal, Independence):
            evaluated = target.candidates(chains, times)
            uniforms = _uniforms((times, len(target.batch)), evaluated.log_weights)
            path = importance.independence_path(target.log_weights(evaluated), uniforms)
            return Trajectory(evaluated, path, tuple(range(1, times + 1)), self.proposal.name)
        return one_after_another([partial(_move, self.proposal, target, adapt)] * times, chains)


def log_ratio(target: Target, current: EvaluatedStates, proposed: Proposed) -> Float[Tensor, "1 batch"]:
    """Return log a, the logarithm of the ratio whose minimum with 1 is the probability of acceptance."""
    reached = target.log_density(proposed.states) - proposed.log_forward.detach()
    return reached - (target.log_density(current) - proposed.log_backward.detach())


def _move(proposal: Proposal, target: Target, adapt: bool, chains: Start) -> Trajectory:
    latent, current = target.model.latent, target.candidates(chains)
    uniforms = _uniforms((1, len(target.batch), latent.variables), current.h)
    proposed = proposal.propose(target, current, proposal.choose(target), uniforms)
    ratio = log_ratio(target, current, proposed)
    # A ratio that is NaN, of two states without any weight, is no acceptance.
    path = (_uniforms(ratio.shape, ratio).log() < ratio).long()
    if adapt:
        proposal.adapt(ratio.clamp(max=0).exp().nan_to_num(0).mean(), latent)
    return Trajectory(together(current, proposed.states), path, name=proposal.name)


def _uniforms(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.rand(shape, dtype=like.dtype, device=like.device)
