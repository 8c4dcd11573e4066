"""Find numbers that are not finite at the step at which they appear, and name them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jsa.batch import Batch, Estimate
from jsa.errors import NumericalError
from jsa.io.weights import weights_of


class NonFiniteWeightsError(NumericalError):
    """Parameters that an earlier step made infinite or NaN: skipping a batch does not mend them."""


def refuse_non_finite_step(estimate: Estimate, batch: Batch, parameters: Mapping[str, nn.Parameter]) -> None:
    """Refuse a step whose loss, log-weights or gradients are not finite, before the optimizer sees them.

    The sound case is one number to look at, so that a step waits for its device once.
    """
    named = {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}
    # The sum of squares, which an optimizer such as Adam takes too; twice as fast as torch's total norm.
    squares = [torch.dot(flat, flat) for flat in (gradient.flatten() for gradient in named.values())]
    size = torch.stack([torch.zeros_like(estimate.loss), *squares]).sum()
    # Minus infinity is allowed for some states of a row, not for all of them.
    highest = estimate.log_weights.amax(0).sum().to(size)
    if bool(torch.stack([estimate.loss.detach().to(size), highest, size]).isfinite().all()):
        return
    _refuse_impossible_rows(estimate, batch)
    _refuse_loss(estimate, batch)
    _refuse_log_weights(estimate, batch)
    _refuse_gradients(named)


def refuse_non_finite_weights(learner: nn.Module) -> None:
    """Refuse parameters and buffers that are not finite, by name."""
    for name, tensor in weights_of(learner):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise NonFiniteWeightsError(f"the weights {name} are not finite, because the step before was too long")


def _refuse_impossible_rows(estimate: Estimate, batch: Batch) -> None:
    # A row without a possible state has no gradient, whatever a method makes of it.
    impossible = (estimate.log_weights.amax(0) == -torch.inf).nonzero()
    if len(impossible):
        row = batch.row(int(impossible[0]))
        raise NumericalError(f"the model gives probability zero to row {row} with every state that was drawn")


def _refuse_loss(estimate: Estimate, batch: Batch) -> None:
    if bool(estimate.loss.isfinite()):
        return
    _refuse_log_weights(estimate, batch)
    drawn = (estimate.log_weights == -torch.inf).any(0).nonzero()
    if len(drawn):
        row = batch.row(int(drawn[0]))
        raise NumericalError(
            f"the loss is {float(estimate.loss.detach())}, for states of probability zero were drawn at row {row}"
        )
    raise NumericalError(f"the loss is {float(estimate.loss.detach())} (the objective is {float(estimate.objective)})")


def _refuse_log_weights(estimate: Estimate, batch: Batch) -> None:
    """Minus infinity is a state of probability zero; anything else that is not finite is an error."""
    wrong = ~(estimate.log_weights < torch.inf)
    if bool(wrong.any()):
        position = tuple(wrong.nonzero()[0].tolist())
        row = batch.row(position[-1])
        raise NumericalError(f"a log-weight is {float(estimate.log_weights[position])} at row {row}")


def _refuse_gradients(named: dict[str, Tensor]) -> None:
    for name, gradient in named.items():
        if not bool(gradient.isfinite().all()):
            raise NumericalError(f"the gradient of {name} is not finite")
    for name, gradient in named.items():
        if not bool(gradient.square().sum().isfinite()):
            largest = float(gradient.abs().amax())
            raise NumericalError(f"the gradient of {name} is up to {largest:.1e}, whose square is not finite")
    raise NumericalError("the gradient is so large that its square is not finite")
