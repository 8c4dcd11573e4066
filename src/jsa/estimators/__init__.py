"""The methods, one a file. ``ESTIMATORS`` maps the names of the command line to the classes."""

from jsa.estimators.base import Description, Estimator
from jsa.estimators.enumeration import Enumeration
from jsa.estimators.joint_stochastic_approximation import JSA
from jsa.estimators.persistent import PersistentEstimator, Stage

ESTIMATORS: dict[str, type[Estimator]] = {
    "jsa": JSA,
    "enumeration": Enumeration,
}

__all__ = ["ESTIMATORS", "JSA", "Description", "Enumeration", "Estimator", "PersistentEstimator", "Stage"]
