"""Markov kernels with the posterior p(h | x) as invariant distribution, one per file."""

from jsa.kernels.conditional_importance import conditional_importance
from jsa.kernels.independence import metropolis_independence
from jsa.kernels.trajectory import Trajectory

__all__ = ["Trajectory", "conditional_importance", "metropolis_independence"]
