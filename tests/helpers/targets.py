"""The objectives of the methods by enumeration, and their gradients by autograd: what estimators are held against."""

from __future__ import annotations

import torch
from torch import Tensor

from helpers.small_models import Enumerated, Gradients, enumerated, gradients
from jsa import Batch, LatentVariableModel


def elbo(model: LatentVariableModel, batch: Batch) -> Tensor:
    """The mean over rows of E_q[log p(x, h) - log q(h | x)], differentiable in all parameters."""
    exact = enumerated(model, batch)
    return (exact.log_inference.exp() * (exact.log_joint - exact.log_inference)).sum(0).mean()


def tuples(exact: Enumerated, particles: int) -> tuple[Tensor, Tensor]:
    """The numbers of the states in all n-tuples, and the probability that q draws each tuple at each row."""
    numbers = torch.cartesian_prod(*[torch.arange(len(exact.states))] * particles).reshape(-1, particles)
    return numbers, exact.log_inference[numbers].sum(1).exp()


def multi_sample_bound(model: LatentVariableModel, batch: Batch, particles: int) -> Tensor:
    """The mean over rows of E[log 1/n sum_k w_k] over all n-tuples of states."""
    exact = enumerated(model, batch)
    numbers, probability = tuples(exact, particles)
    weights = (exact.log_joint - exact.log_inference)[numbers]
    bound = weights.logsumexp(1) - torch.tensor(float(particles)).log()
    return (probability * bound).sum(0).mean()


def elbo_gradients(model: LatentVariableModel, batch: Batch) -> Gradients:
    """The gradient of minus the ELBO."""
    return gradients(model, -elbo(model, batch))


def bound_gradients(model: LatentVariableModel, batch: Batch, particles: int) -> Gradients:
    """The gradient of minus the multi-sample bound."""
    return gradients(model, -multi_sample_bound(model, batch, particles))


def marginal_and_bound_gradients(model: LatentVariableModel, batch: Batch, particles: int) -> Gradients:
    """For wake-sleep methods: the bound's gradient for the model, the weighted score's expectation for q."""
    exact = enumerated(model, batch)
    numbers, probability = tuples(exact, particles)
    normalized = exact.log_weights[numbers].softmax(1)
    score = (normalized * (exact.log_joint + exact.log_inference)[numbers]).sum(1)
    return gradients(model, -(probability.detach() * score).sum(0).mean())
