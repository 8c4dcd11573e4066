"""Markov kernels whose invariant distribution is the posterior p(h | x), one a file."""

from jsa.samplers.conditional_importance import conditional_importance
from jsa.samplers.independence import metropolis_independence
from jsa.samplers.trajectory import Trajectory

__all__ = ["Trajectory", "conditional_importance", "metropolis_independence"]
