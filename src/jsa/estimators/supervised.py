"""The loss by which an inference model learns from known latent variables."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch
from jsa.model import LatentVariableModel
from jsa.model_calls import posterior_of, refuse_contradictions


def supervised_loss(
    model: LatentVariableModel, batch: Batch, h: Float[Tensor, "*samples batch width"] | None = None
) -> Float[Tensor, ""]:
    """Return minus the batch mean of log q(known | x), to be added to the loss of an estimator with any weight.

    Estimators do not draw known variables, so they do not teach q to infer them; this loss does. With chain methods and
    a weight of 1, the sum is the loss of the inclusive divergence from p(h | x, known) to the whole q(h | x).

    A known variable with unknown ancestors in q is scored given those ancestors.

    Args:
        model: The model.
        batch: The rows; those without known variables contribute nothing.
        h: States that agree with what is known, for the ancestors, such as the states of the chains after the
            estimator's step. If not given, one draw of q per row.

    Example:
        >>> from jsa import BeliefNetwork, LatentSpace, Layer
        >>> model = BeliefNetwork(Layer("bernoulli", 6), LatentSpace.of(Layer("bernoulli", 2)))
        >>> known = torch.tensor([[1.0, torch.nan], [torch.nan, torch.nan]])
        >>> batch = Batch(torch.ones(2, 6), torch.arange(2), known=known)
        >>> first_bit = model.posterior(batch.with_nothing_known()).first.mean[0, 0]
        >>> torch.allclose(supervised_loss(model, batch), -first_bit.log() / 2)
        True
    """
    if batch.known is None:
        return torch.zeros((), dtype=batch.state_dtype, device=batch.x.device)
    posterior = posterior_of(model, batch)
    if h is None:
        h = posterior.sample((1,))
    refuse_contradictions(model, batch, h)
    return -batch.mean(posterior.known_log_prob(h))
