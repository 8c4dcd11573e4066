"""What is held against the exact gradient: one row for each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from helpers.small_models import Gradients
from jsa import Batch, Estimator, LatentVariableModel

Make = Callable[[LatentVariableModel, Batch], Estimator]
"""An estimator for a model and a batch whose rows are all the rows there are: one where draws are enumerated."""

ALL = ("one-layer", "two-layers", "categorical", "conditional", "torch-posterior")


@dataclass(frozen=True)
class Case:
    """A method that claims to be unbiased.

    Attributes:
        name: The method.
        make: The estimator.
        target: The exact gradient of the loss, by autograd through an enumerated objective.
        target_name: What the target is, for the table.
        twins: Known-wrong variants, which the same test must refuse, each on the example named with it.
        examples: The small models that it takes.
        draws: Where all randomness is so many draws from q, their number: the expectation is then enumerated, row by
            row. An estimator whose rows know of each other is refused with it.
        copies: How often the rows are repeated in a batch.
        repetitions: How many gradients are drawn.
    """

    name: str
    make: Make
    target: Callable[[LatentVariableModel, Batch], Gradients]
    target_name: str
    twins: Mapping[str, tuple[str, Make]] = field(default_factory=dict)
    examples: tuple[str, ...] = ALL
    draws: int | None = None
    copies: int = 2_000
    repetitions: int = 40
