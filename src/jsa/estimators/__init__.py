"""The methods, one a file. ``ESTIMATORS`` maps the names of the command line to the classes."""

from jsa.estimators.arm import ARM
from jsa.estimators.arms import ARMS
from jsa.estimators.arsm import ARSM
from jsa.estimators.base import Description, Estimator
from jsa.estimators.disarm import DisARM
from jsa.estimators.enumeration import Enumeration
from jsa.estimators.hybrid import Hybrid
from jsa.estimators.joint_stochastic_approximation import JSA
from jsa.estimators.leave_one_out import LeaveOneOut
from jsa.estimators.markov_score_climbing import MarkovScoreClimbing
from jsa.estimators.nvil import NVIL
from jsa.estimators.persistent import PersistentEstimator, Stage
from jsa.estimators.rao_blackwell import RaoBlackwellJSA
from jsa.estimators.reinforce import Reinforce
from jsa.estimators.reweighted_wake_sleep import ReweightedWakeSleep
from jsa.estimators.vimco import VIMCO

ESTIMATORS: dict[str, type[Estimator]] = {
    "jsa": JSA,
    "jsa-rao-blackwell": RaoBlackwellJSA,
    "hybrid": Hybrid,
    "msc": MarkovScoreClimbing,
    "rws": ReweightedWakeSleep,
    "reinforce": Reinforce,
    "rloo": LeaveOneOut,
    "nvil": NVIL,
    "vimco": VIMCO,
    "arm": ARM,
    "disarm": DisARM,
    "arms": ARMS,
    "arsm": ARSM,
    "enumeration": Enumeration,
}

__all__ = [
    "ARM",
    "ARMS",
    "ARSM",
    "ESTIMATORS",
    "JSA",
    "NVIL",
    "VIMCO",
    "Description",
    "DisARM",
    "Enumeration",
    "Estimator",
    "Hybrid",
    "LeaveOneOut",
    "MarkovScoreClimbing",
    "PersistentEstimator",
    "RaoBlackwellJSA",
    "Reinforce",
    "ReweightedWakeSleep",
    "Stage",
]
