"""The base of the antithetic estimators: coupled draws of each layer, and a loss with a given logit gradient."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch, Estimate
from jsa.distributions import Bernoulli, Categorical, Factorized
from jsa.errors import UsageError
from jsa.estimators.base import Estimator
from jsa.latent import Kind, Layer
from jsa.model import LatentVariableModel
from jsa.model_calls import log_joint, posterior_of, refuse_non_finite
from jsa.posteriors import LayeredPosterior


@dataclass(frozen=True)
class Coupling:
    """The coupled draws of one layer, all given the same ancestors.

    Attributes:
        logits: The logits of the layer, differentiable in phi; without the groups for the first layer.
        noise: The noise of each branch. That of branch 0 also draws this layer for the branches of earlier layers.
        states: The draws. Branch 0 continues to the next layer.
        log_inference: log q of the draws given their ancestors, without gradient.
    """

    logits: Float[Tensor, "*groups batch width"]
    noise: Float[Tensor, "branches groups batch *noise"]
    states: Float[Tensor, "branches groups batch width"]
    log_inference: Float[Tensor, "branches groups batch"]


class Antithetic(Estimator):
    r"""The gradient of the ELBO in the logits of each layer, from draws that are coupled through their noise.

    For each layer i, m branches share the ancestors, take coupled draws of layer i, and end in states each of which is
    distributed as q(h | x). From their signals f = log p(x, h) - log q(h | x) the method computes one number per
    logit, :math:`g_i`, without a graph. The loss is minus

    .. math:: \sum_i g_i \cdot l_i + \text{mean over the states of } \log p(x, h)

    so one backward pass gives the gradient of phi through the logits and that of theta at the hard states.

    **Layers.** The estimators are linear in f, so each branch only needs its own draw of the layers after i from q
    given that branch. Reusing the states of another branch would be biased; reusing its noise is not. So branch 0 of
    layer i continues as branch 0 of layer i + 1, and the other branches of layer i draw their descendants from the same
    noise. Branches that agree in layer i then agree in all later layers, and L layers cost 1 + L (m - 1) states
    where separate draws would cost L m.

    A subclass defines the coupled noise, the draw from it, and the logit gradient.
    """

    kind: ClassVar[Kind]
    """The kind of variables that the method is defined for."""

    alternatives: ClassVar[str]
    """The methods to use for other kinds."""

    theta_from_all_states: ClassVar[bool] = True
    """Whether theta learns from all states, or from branch 0 alone; the others are then evaluated without a graph."""

    groups: int = 1
    """The number of independent repetitions of all branches."""

    @abstractmethod
    def noise(self, layer: Layer, batch: int, like: Tensor) -> Float[Tensor, "branches groups batch *noise"]:
        """Draw coupled noise for the branches of a layer; each has the marginal distribution that ``draw`` needs."""

    @abstractmethod
    def draw(
        self, distribution: Factorized, noise: Float[Tensor, "*noise"]
    ) -> Float[Tensor, "*branches groups batch width"]:
        """Return the draws that the noise determines, for all branches or for one."""

    @abstractmethod
    def logit_gradient(
        self, coupling: Coupling, signals: Float[Tensor, "branches groups batch"]
    ) -> Float[Tensor, "groups batch width"]:
        """Estimate the gradient of E_q[f] with respect to the logits of a layer from the signals of its branches."""

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Couple each layer in turn, evaluate all states together, and attach the logit gradients."""
        posterior = self._layered_posterior(model, batch)
        path, couplings = self._couple(posterior, len(batch))
        with torch.no_grad():
            ends = [self.complete(posterior, path, couplings, layer) for layer in range(len(couplings))]
            path_inference = torch.stack([coupling.log_inference[:1] for coupling in couplings]).sum(0)
            h = torch.cat([path.unsqueeze(0), *(states for states, _ in ends)])
            inference = torch.cat([path_inference, *(log_inference for _, log_inference in ends)]).flatten(0, 1)
        joint, gain = self._evaluate(model, batch, h)
        log_weights = joint - inference
        refuse_non_finite(batch, joint, inference, log_weights)
        path_signal, *others = log_weights.unflatten(0, h.shape[:2]).split(
            [1, *(len(coupling.states) - 1 for coupling in couplings)]
        )
        for coupling, signals in zip(couplings, others, strict=True):
            with torch.no_grad():
                gradient = self.logit_gradient(coupling, torch.cat([path_signal, signals]))
            gain = gain + batch.mean((gradient * coupling.logits).sum(-1))
        return Estimate(-gain, batch.mean(log_weights), log_weights, {})

    def complete(
        self, posterior: LayeredPosterior, path: Tensor, couplings: list[Coupling], layer: int
    ) -> tuple[Float[Tensor, "others groups batch width"], Float[Tensor, "others groups batch"]]:
        """Return the final states of the branches of a layer, except branch 0, and their log q."""
        coupling = couplings[layer]
        ancestors = path[..., : posterior.latent.slices[layer].start].expand(len(coupling.states) - 1, -1, -1, -1)
        states = torch.cat([ancestors, coupling.states[1:]], dim=-1)
        inference = coupling.log_inference[1:]
        for above in couplings[:layer]:
            inference = inference + above.log_inference[0]
        for deeper in range(layer + 1, len(couplings)):
            distribution = posterior.conditional(deeper, states)
            drawn = self.draw(distribution, couplings[deeper].noise[0])
            inference = inference + distribution.log_prob(drawn)
            states = torch.cat([states, drawn], dim=-1)
        return states, inference

    def _couple(
        self, posterior: LayeredPosterior, batch: int
    ) -> tuple[Float[Tensor, "groups batch width"], list[Coupling]]:
        """Return the final state of branch 0, and the branches of each layer given branch 0 of the layers before it."""
        path = posterior.first.like.new_empty(self.groups, batch, 0)
        couplings = []
        for number, layer in enumerate(posterior.latent.layers):
            distribution = posterior.conditional(number, path)
            assert isinstance(distribution, Bernoulli | Categorical)
            noise = self.noise(layer, batch, path)
            states = self.draw(distribution, noise)
            with torch.no_grad():
                log_inference = distribution.log_prob(states)
            couplings.append(Coupling(distribution.logits, noise, states, log_inference))
            path = torch.cat([path, states[0]], dim=-1)
        return path, couplings

    def _evaluate(self, model: LatentVariableModel, batch: Batch, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p(x, h) of all states without gradient, and its mean over those that teach theta."""
        if self.theta_from_all_states:
            joint = log_joint(model, batch, h.flatten(0, 1))
            return joint.detach(), batch.mean(joint)
        path = log_joint(model, batch, h[0])
        with torch.no_grad():
            others = log_joint(model, batch, h[1:].flatten(0, 1))
        return torch.cat([path.detach(), others]), batch.mean(path)

    def _layered_posterior(self, model: LatentVariableModel, batch: Batch) -> LayeredPosterior:
        """Return the posterior of the batch, or refuse one whose noise cannot be coupled."""
        name = type(self).__name__
        for layer in model.latent.layers:
            if layer.kind != self.kind:
                raise UsageError(f"{name} is for {self.kind} latents, not {layer.kind} ones: use {self.alternatives}")
        return posterior_of(model, batch).layered(name)


class AntitheticBits(Antithetic):
    """Bits, each drawn from its own uniform."""

    kind: ClassVar[Kind] = "bernoulli"
    alternatives: ClassVar[str] = "arsm for categorical latents, or vimco, rloo or jsa"

    def draw(self, distribution: Factorized, noise: Tensor) -> Tensor:
        return distribution.from_uniforms(noise)


class AntitheticPairs(AntitheticBits):
    """Two branches per layer: the uniforms 1 - u draw b1 = [u > sigma(-l)], and u draws b2 = [u < sigma(l)].

    Args:
        particles: The number of states per row for a single layer. It is even: half as many independent pairs are
            drawn.
    """

    def __init__(self, particles: int = 2) -> None:
        super().__init__()
        if particles < 2 or particles % 2:
            raise UsageError(
                f"{type(self).__name__} draws pairs: it needs an even number of particles, at least 2, not {particles}"
            )
        self.particles = particles
        self.groups = particles // 2

    def noise(self, layer: Layer, batch: int, like: Tensor) -> Tensor:
        """Draw 1 - u and u, both of them uniform."""
        uniforms = open_uniforms((self.groups, batch, layer.variables), like)
        return torch.stack([1 - uniforms, uniforms])


def open_uniforms(size: tuple[int, ...], like: Tensor) -> Tensor:
    """Draw uniforms u such that neither u nor 1 - u is 0 or 1: events of probability zero must not happen."""
    return inside(torch.rand(size, dtype=like.dtype, device=like.device))


def inside(uniforms: Tensor) -> Tensor:
    """Move uniforms off 0 and 1 by the smallest step between random numbers of their precision."""
    step = torch.finfo(uniforms.dtype).eps / 2
    return uniforms.clamp(step, 1 - step)
