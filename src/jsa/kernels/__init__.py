"""Markov kernels with the posterior p(h | x) as invariant distribution, and their proposals, one per file."""

from jsa.kernels.base import Kernel
from jsa.kernels.block import Block
from jsa.kernels.conditional_importance import ConditionalImportance
from jsa.kernels.cycle import Cycle
from jsa.kernels.independence import Independence
from jsa.kernels.metropolis_hastings import MetropolisHastings
from jsa.kernels.mixture import Mixture
from jsa.kernels.proposal import Proposal, Proposed
from jsa.kernels.repeat import Repeat
from jsa.kernels.target import Target
from jsa.kernels.trajectory import Trajectory

__all__ = [
    "Block",
    "ConditionalImportance",
    "Cycle",
    "Independence",
    "Kernel",
    "MetropolisHastings",
    "Mixture",
    "Proposal",
    "Proposed",
    "Repeat",
    "Target",
    "Trajectory",
]
