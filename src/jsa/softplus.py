"""The sum of log(1 + exp(l)) over the last dimension: the normaliser of independent bits, and a hot spot."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

WORTHWHILE = 100_000
"""From this many logits on, products are faster; below, the calls that they take cost more than they save."""

HALVINGS = 4
"""2^4 = 16 factors, each between 1/2 and 1, are multiplied before one logarithm is taken: a logarithm costs as much as
ten products, and no product of so many can underflow."""


def softplus_sum(logits: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch"]:
    """The sum of softplus over the last dimension, for many logits in about half the time of summing ``F.softplus``.

    softplus(l) = max(l, 0) - log sigmoid(|l|), and the logarithms are taken of products. The result agrees with the
    sum to the precision of the type; derivatives of any order are those of the sum.

    Example:
        >>> softplus_sum(torch.tensor([0.0, 0.0, 1000.0, -1000.0]))
        tensor(1001.3863)
    """
    if logits.numel() < WORTHWHILE:
        return F.softplus(logits).sum(-1)
    if not (torch.is_grad_enabled() and logits.requires_grad):
        return _SoftplusSum.forward(logits)
    value: Tensor = _SoftplusSum.apply(logits)  # type: ignore[no-untyped-call]
    return value


class _SoftplusSum(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor) -> Tensor:
        factors = logits.abs().sigmoid_()
        for _ in range(HALVINGS):
            if factors.shape[-1] % 2:
                break
            left, right = factors.chunk(2, dim=-1)
            factors = left * right
        return logits.clamp_min(0).sum(-1) - factors.log_().sum(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (logits,) = ctx.saved_tensors
        return gradient.unsqueeze(-1) * logits.sigmoid()
