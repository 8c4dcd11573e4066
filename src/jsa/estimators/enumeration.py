"""The exact gradient by enumeration, for small latent spaces and as the reference for all other methods."""

from __future__ import annotations

from typing import ClassVar

import torch

from jsa.batch import Batch, Estimate
from jsa.estimators.base import Description, Estimator
from jsa.model import LatentVariableModel
from jsa.model_calls import log_joint_of_all, posterior_of, state_dtype


class Enumeration(Estimator):
    """The sum over all latent states: the gradient of log p(x) and of the inclusive divergence, without noise.

    References:
        Dempster, Laird and Rubin, Maximum likelihood from incomplete data via the EM algorithm, JRSS B 39 (1977).
    """

    description: ClassVar[Description] = Description(
        optimizes="log p(x) for theta, KL(p(h|x) || q(h|x)) for phi",
        unbiased="exact",
        latents="discrete, up to 2^20 states",
        decoder_evaluations="all states",
        reference="Dempster et al., JRSS B 1977",
    )

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Return the loss with the exact log-likelihood and the exact cross-entropy from the posterior to q."""
        posterior = posterior_of(model, batch)
        states = model.latent.enumerate(state_dtype(model, batch), batch.x.device)
        joint = log_joint_of_all(model, batch, states)
        inference = posterior.log_prob(states.unsqueeze(1).expand(-1, len(batch), -1))
        log_likelihood = torch.logsumexp(joint, 0)
        exact_posterior = joint.detach().softmax(0)
        # A state that q excludes has log q of minus infinity. If p excludes it too, it must not count.
        cross_entropy = torch.where(exact_posterior > 0, exact_posterior * inference, 0.0).sum(0)
        loss = -batch.mean(log_likelihood + cross_entropy)
        weights = (joint - inference).detach()
        return Estimate(loss, batch.mean(log_likelihood.detach()), weights, {})
