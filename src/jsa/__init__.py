"""Joint stochastic approximation: maximum-likelihood learning of models with discrete latent variables.

The names below are loaded when they are first used, so that the command line can answer ``--help`` without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jsa.batch import Batch, Estimate
    from jsa.chains import ChainCache
    from jsa.distributions import Bernoulli, Categorical, Factorized, Gaussian
    from jsa.errors import JsaError
    from jsa.estimators import JSA, Enumeration, Estimator, PersistentEstimator, Stage
    from jsa.estimators.supervised import supervised_loss
    from jsa.evaluation.annealing import annealed_likelihood
    from jsa.evaluation.imputation import impute
    from jsa.evaluation.likelihood import exact_likelihood, likelihood, multi_sample_bounds, row_likelihoods
    from jsa.evaluation.model_check import check_model
    from jsa.evaluation.rows import TensorRows
    from jsa.latent import LatentSpace, Layer
    from jsa.learner import Learner
    from jsa.model import LatentVariableModel, Posterior
    from jsa.models.belief_network import BeliefNetwork
    from jsa.models.presets import Style
    from jsa.models.structured_prediction import StructuredPrediction
    from jsa.posteriors import LayeredPosterior, TorchPosterior

_HOMES = {
    "Batch": "jsa.batch",
    "BeliefNetwork": "jsa.models.belief_network",
    "Bernoulli": "jsa.distributions",
    "Categorical": "jsa.distributions",
    "ChainCache": "jsa.chains",
    "Enumeration": "jsa.estimators",
    "Estimate": "jsa.batch",
    "Estimator": "jsa.estimators",
    "Factorized": "jsa.distributions",
    "Gaussian": "jsa.distributions",
    "JSA": "jsa.estimators",
    "JsaError": "jsa.errors",
    "LatentSpace": "jsa.latent",
    "LatentVariableModel": "jsa.model",
    "Layer": "jsa.latent",
    "LayeredPosterior": "jsa.posteriors",
    "Learner": "jsa.learner",
    "PersistentEstimator": "jsa.estimators",
    "Posterior": "jsa.model",
    "Stage": "jsa.estimators",
    "StructuredPrediction": "jsa.models.structured_prediction",
    "Style": "jsa.models.presets",
    "TensorRows": "jsa.evaluation.rows",
    "TorchPosterior": "jsa.posteriors",
    "annealed_likelihood": "jsa.evaluation.annealing",
    "check_model": "jsa.evaluation.model_check",
    "exact_likelihood": "jsa.evaluation.likelihood",
    "impute": "jsa.evaluation.imputation",
    "likelihood": "jsa.evaluation.likelihood",
    "multi_sample_bounds": "jsa.evaluation.likelihood",
    "row_likelihoods": "jsa.evaluation.likelihood",
    "supervised_loss": "jsa.estimators.supervised",
}

__version__ = "0.1.0"
__all__ = [
    "JSA",
    "Batch",
    "BeliefNetwork",
    "Bernoulli",
    "Categorical",
    "ChainCache",
    "Enumeration",
    "Estimate",
    "Estimator",
    "Factorized",
    "Gaussian",
    "JsaError",
    "LatentSpace",
    "LatentVariableModel",
    "Layer",
    "LayeredPosterior",
    "Learner",
    "PersistentEstimator",
    "Posterior",
    "Stage",
    "StructuredPrediction",
    "Style",
    "TensorRows",
    "TorchPosterior",
    "annealed_likelihood",
    "check_model",
    "exact_likelihood",
    "impute",
    "likelihood",
    "multi_sample_bounds",
    "row_likelihoods",
    "supervised_loss",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'jsa' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
