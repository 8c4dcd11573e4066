"""How far the mean of some vectors is from where it should be, told from their own noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

STANDARD_ERRORS = 2.0
"""How far above zero a squared bias must be, by its own error, to be told."""


def squared_bias(
    means: Sequence[Float[Tensor, " components"]], target: Float[Tensor, " components"], target_error: float = 0.0
) -> float:
    """The squared distance between the mean of groups of draws and a target, less their noise.

    The square of a mean has its noise in it; products of the deviations of two different groups have not. Their mean is
    unbiased, and its standard error comes from leaving out each group in turn. Zero where it is not two standard errors
    above zero: a positive rest of noise would look like a bias.

    Args:
        means: The mean of each group, three or more of them, of about as many draws.
        target: Where the mean should be.
        target_error: The expected squared error of the target itself, where it is an estimate.

    Example:
        >>> squared_bias([torch.tensor([2.9]), torch.tensor([3.0]), torch.tensor([3.1])], target=torch.zeros(1))
        8.99...
        >>> squared_bias([torch.tensor([1.0]), torch.tensor([-1.0]), torch.tensor([0.2])], target=torch.zeros(1))
        0.0
    """
    count = len(means)
    deviations = torch.stack([mean.double() - target.double() for mean in means])
    products = deviations @ deviations.T
    own, total = products.diagonal(), products.sum()
    estimate = float(total - own.sum()) / (count * (count - 1))
    # The same without each group: neither its products with others nor its own.
    without = (total - 2 * products.sum(0) + own - (own.sum() - own)) / ((count - 1) * (count - 2))
    variance = (count - 1) / count * float((without - without.mean()).square().sum())
    # The squared error of one estimated number has the largest spread that a sum of such can have: twice its square.
    error = math.sqrt(variance + 2 * target_error**2)
    found = estimate - target_error
    return found if found > STANDARD_ERRORS * error else 0.0
