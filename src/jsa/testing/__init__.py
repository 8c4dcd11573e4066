"""Checks for methods of your own: what every method promises, and its gradient against the exact one."""

from jsa.testing.gradients import GradientComparison, check_gradient, elbo, inclusive
from jsa.testing.promises import check_estimator

__all__ = ["GradientComparison", "check_estimator", "check_gradient", "elbo", "inclusive"]
