"""How an inference model learns from latent variables that are known."""

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
    """Minus the batch mean of log q(known | x), to be added to the loss of an estimator, with a weight if you like.

    What is known is not drawn, so that no estimator teaches q to find it: this does. With chain methods and a weight of
    1, the sum is then the loss of the inclusive divergence from p(h | x, known) to the whole q(h | x).

    A known variable whose ancestors in q are not known has its probability given those ancestors.

    Args:
        model: The model.
        batch: The rows; those of which nothing is known add nothing.
        h: States that agree with what is known, for the ancestors: where the chains stand after the estimator's step,
            for instance. One draw of q a row where they are not given.

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
    return -posterior.known_log_prob(h).mean()
