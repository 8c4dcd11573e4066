"""What is held against the exact gradient: one row for each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from helpers.small_models import Gradients
from helpers.targets import elbo_gradients
from jsa import Batch, Estimator, LatentVariableModel

Make = Callable[[LatentVariableModel, Batch], Estimator]
"""An estimator for a model and a batch whose rows are all the rows there are: one where draws are enumerated."""


def of(kind: type[Estimator], **options: object) -> Make:
    """An estimator that is made without knowing of the model."""
    return lambda model, batch: kind(**options)


ALL = ("one-layer", "two-layers", "categorical", "conditional", "torch-posterior")


@dataclass(frozen=True)
class Case:
    """A method that claims to be unbiased.

    Attributes:
        name: The method.
        make: The estimator.
        twins: Known-wrong variants, which the same test must refuse, each on the example named with it.
        examples: The small models that it takes.
        target: The exact gradient of the loss, by autograd through an enumerated objective.
        target_name: What the target is, for the table.
        draws: Where all randomness is so many draws from q, their number: the expectation is then enumerated, row by
            row. An estimator whose rows know of each other is refused with it.
        copies: How often the rows are repeated in a batch.
        repetitions: How many gradients are drawn.
    """

    name: str
    make: Make
    twins: Mapping[str, tuple[str, Make]] = field(default_factory=dict)
    examples: tuple[str, ...] = ALL
    target: Callable[[LatentVariableModel, Batch], Gradients] = elbo_gradients
    target_name: str = "ELBO"
    draws: int | None = None
    copies: int = 2_000
    repetitions: int = 40
