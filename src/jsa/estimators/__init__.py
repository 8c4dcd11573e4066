"""The methods, one per file; ``registry`` maps the names of the command line to them."""

from jsa.estimators.arm import ARM
from jsa.estimators.arms import ARMS
from jsa.estimators.arsm import ARSM
from jsa.estimators.base import Description, Estimator, Stage
from jsa.estimators.concrete import Concrete
from jsa.estimators.disarm import DisARM
from jsa.estimators.enumeration import Enumeration
from jsa.estimators.gumbel_softmax import GumbelSoftmax
from jsa.estimators.hybrid import Hybrid
from jsa.estimators.joint_stochastic_approximation import JSA
from jsa.estimators.leave_one_out import LeaveOneOut
from jsa.estimators.markovian_score_climbing import MarkovianScoreClimbing
from jsa.estimators.muprop import MuProp
from jsa.estimators.nvil import NVIL
from jsa.estimators.persistent import PersistentEstimator
from jsa.estimators.rao_blackwell import RaoBlackwellJSA
from jsa.estimators.rebar import Rebar
from jsa.estimators.reinforce import Reinforce
from jsa.estimators.relax import Relax
from jsa.estimators.reweighted_wake_sleep import ReweightedWakeSleep
from jsa.estimators.straight_through import StraightThrough
from jsa.estimators.vimco import VIMCO

__all__ = [
    "ARM",
    "ARMS",
    "ARSM",
    "JSA",
    "NVIL",
    "VIMCO",
    "Concrete",
    "Description",
    "DisARM",
    "Enumeration",
    "Estimator",
    "GumbelSoftmax",
    "Hybrid",
    "LeaveOneOut",
    "MarkovianScoreClimbing",
    "MuProp",
    "PersistentEstimator",
    "RaoBlackwellJSA",
    "Rebar",
    "Reinforce",
    "Relax",
    "ReweightedWakeSleep",
    "Stage",
    "StraightThrough",
]
