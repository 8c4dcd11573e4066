from .batch import Batch as Batch
from .batch import Estimate as Estimate
from .chains import ChainCache as ChainCache
from .data.numbered import numbered as numbered
from .distributions import Bernoulli as Bernoulli
from .distributions import Categorical as Categorical
from .distributions import Factorized as Factorized
from .distributions import Gaussian as Gaussian
from .errors import JsaError as JsaError
from .estimators import JSA as JSA
from .estimators import Enumeration as Enumeration
from .estimators import Estimator as Estimator
from .estimators import PersistentEstimator as PersistentEstimator
from .estimators import Stage as Stage
from .estimators.supervised import supervised_loss as supervised_loss
from .evaluation.annealing import annealed_likelihood as annealed_likelihood
from .evaluation.imputation import impute as impute
from .evaluation.likelihood import exact_likelihood as exact_likelihood
from .evaluation.likelihood import likelihood as likelihood
from .evaluation.likelihood import multi_sample_bounds as multi_sample_bounds
from .evaluation.likelihood import row_likelihoods as row_likelihoods
from .evaluation.model_check import check_model as check_model
from .evaluation.rows import TensorRows as TensorRows
from .latent import LatentSpace as LatentSpace
from .latent import Layer as Layer
from .learner import Learner as Learner
from .model import LatentVariableModel as LatentVariableModel
from .model import Posterior as Posterior
from .models.belief_network import BeliefNetwork as BeliefNetwork
from .models.presets import Style as Style
from .models.structured_prediction import StructuredPrediction as StructuredPrediction
from .posteriors import LayeredPosterior as LayeredPosterior
from .posteriors import TorchPosterior as TorchPosterior

__all__: list[str]
__version__: str
