"""Markov kernels whose invariant distribution is the posterior p(h | x), one a file."""

from jsa.samplers.independence import Trajectory, metropolis_independence

__all__ = ["Trajectory", "metropolis_independence"]
