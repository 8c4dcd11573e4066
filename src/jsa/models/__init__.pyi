from .belief_network import BeliefNetwork as BeliefNetwork
from .centering import Center as Center
from .centering import Centered as Centered
from .presets import Style as Style
from .structured_prediction import StructuredPrediction as StructuredPrediction

__all__: list[str]
