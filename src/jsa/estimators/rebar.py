"""REBAR: the score-function gradient with the relaxed objective as a control variate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jsa.batch import Batch, Estimate
from jsa.distributions import factorized
from jsa.estimators.base import Description, Estimator, at_least, space_of
from jsa.latent import LatentSpace
from jsa.model import LatentVariableModel
from jsa.model_calls import log_joint, refuse_non_finite
from jsa.posteriors import LayeredPosterior
from jsa.relaxation import (
    Discrete,
    conditionally_perturbed,
    discrete,
    hard,
    perturbed,
    positive,
    refuse_continuous,
    relaxable_posterior,
    relaxed,
    relaxed_descendants,
    uniforms_for,
)


@dataclass(frozen=True)
class HardDraw:
    """States from q for some rows, with the noise that drew them.

    Attributes:
        model: The model to which q belongs.
        batch: The rows x.
        posterior: q(h | x).
        noise: The uniforms that drew the states, one for each entry of the state vector.
        second_noise: As many uniforms, for the noise that is redrawn given the states.
        h: The states.
        distributions: The distribution of each layer given the states before it, differentiable in phi.
        log_inference: The log-probability of each layer's state, without gradient.
    """

    model: LatentVariableModel
    batch: Batch
    posterior: LayeredPosterior
    noise: Float[Tensor, "samples batch width"]
    second_noise: Float[Tensor, "samples batch width"]
    h: Float[Tensor, "samples batch width"]
    distributions: list[Discrete]
    log_inference: list[Float[Tensor, "samples batch"]]

    def ancestors(self, number: int) -> Float[Tensor, "samples batch ancestors"]:
        """Return the states of the layers before this one."""
        return self.h[..., : self.posterior.latent.slices[number].start]


class Rebar(Estimator):
    r"""The score-function gradient minus a relaxed control variate, whose mean is added back by reparameterization.

    For each layer i with logits l, perturbed logits z, the state b = hard(z), and z' redrawn given b,

    .. math:: \left(f(b) - \eta f_i(\sigma(z'/\tau))\right) \nabla_l \log q(b_i | b_{<i})
              + \eta \nabla_l \left[f_i(\sigma(z/\tau)) - f_i(\sigma(z'/\tau))\right]

    where f = log p(x, h) - log q(h | x), and f_i(y) is f at the states before the layer, y in the layer, and relaxed
    descendants of these, drawn with noise common to both terms. Relaxing all layers at once would be biased: the logits
    of a deeper layer jump with the state of this one, and a pathwise derivative misses the jump. Theta gets
    grad log p(x, b) alone.

    The scale eta and the temperature tau of each layer are parameters, as logarithms; they descend the squared norm of
    this gradient, and so its variance, in the same ``backward``. The gradient is computed here, and phi receives it
    through the logits: the control variate reaches theta and phi in no other way.

    Args:
        latent: The latent space of the model, ``model.latent``.
        particles: The number n of draws per row.
        temperature: The temperature at the start.
        scale: The scale eta at the start.

    References:
        Tucker, Mnih, Maddison, Lawson and Sohl-Dickstein, REBAR: low-variance, unbiased gradient estimates for discrete
        latent variable models, NeurIPS 2017.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="yes",
        latents="Bernoulli, categorical",
        decoder_evaluations="n (1 + 2 L) for L layers",
        reference="Tucker et al., NeurIPS 2017",
    )
    name: ClassVar[str] = "REBAR"

    def __init__(self, latent: LatentSpace, particles: int = 1, temperature: float = 0.5, scale: float = 1.0) -> None:
        super().__init__()
        refuse_continuous(space_of(latent, self.name), self.name)
        self.particles = at_least(particles, 1, self.name)
        layers = len(latent.layers)
        start = math.log(positive(temperature, f"the temperature of {self.name}"))
        self.log_temperature = nn.Parameter(torch.full((layers,), start))
        self.log_scale = nn.Parameter(torch.full((layers,), math.log(positive(scale, f"the scale of {self.name}"))))

    def forward(self, model: LatentVariableModel, batch: Batch) -> Estimate:
        """Draw states, compute the logit gradient, and pass it to phi and its variance to the control variate."""
        draw = _hard_draw(model, batch, relaxable_posterior(model, batch, self.name), self.particles)
        joint = log_joint(model, batch, draw.h)
        inference = torch.stack(draw.log_inference).sum(0)
        signal = joint.detach() - inference
        refuse_non_finite(batch, joint.detach(), inference, signal)
        learned = [parameter for parameter in self.parameters() if parameter.requires_grad and torch.is_grad_enabled()]
        gain = batch.mean(joint)
        squared_norm = torch.zeros_like(gain)
        unweighted = squared_norm.detach()
        for number, distribution in enumerate(draw.distributions):
            gradient = self._logit_gradient(draw, number, signal, differentiable=bool(learned))
            # Only this reaches phi. For theta and phi, the graph that computed the gradient ends here.
            gain = gain + batch.mean((gradient.detach() * distribution.logits).sum(-1))
            squares = gradient.square().sum(-1)
            squared_norm = squared_norm + batch.mean(squares)
            unweighted = unweighted + squares.detach().mean()
        loss = -gain + _descending(squared_norm, learned) if learned else -gain
        diagnostics = {
            "scale": self.log_scale.detach().exp().mean(),
            "temperature": self.log_temperature.detach().exp().mean(),
            "logit_gradient_norm": unweighted.sqrt(),
        }
        return Estimate(loss, batch.mean(signal), signal, diagnostics)

    @torch.enable_grad()
    def _logit_gradient(
        self, draw: HardDraw, number: int, signal: Float[Tensor, "samples batch"], *, differentiable: bool
    ) -> Float[Tensor, "samples batch layer"]:
        """Return the gradient in a layer's logits, differentiable in the control variate's parameters if asked for."""
        where = draw.posterior.latent.slices[number]
        state = draw.h[..., where]
        logits = draw.distributions[number].logits.detach().expand_as(state).clone().requires_grad_()
        distribution = discrete(factorized(draw.distributions[number].layer, logits))
        z = perturbed(distribution, draw.noise[..., where])
        again = self._perturbed_again(distribution, state, draw.second_noise[..., where])
        control = self._control(draw, number, torch.stack([z, again]))
        (pathwise,) = torch.autograd.grad((control[0] - control[1]).sum(), logits, create_graph=differentiable)
        score = state - distribution.mean.detach()
        return (signal - control[1]).unsqueeze(-1) * score + pathwise

    def _perturbed_again(self, distribution: Discrete, state: Tensor, uniforms: Tensor) -> Tensor:
        """Redraw the perturbed logits given the state, for the control variate in the score-function term."""
        return conditionally_perturbed(distribution, state, uniforms)

    def _control(
        self, draw: HardDraw, number: int, z: Float[Tensor, "pair samples batch layer"]
    ) -> Float[Tensor, "pair samples batch"]:
        """Return eta f_i(sigma(z / tau)) as a function of z alone.

        The logits in log q of the layer itself are constants here. Their derivatives have the same expectation in both
        terms, which are subtracted from each other, so they would only add noise.
        """
        posterior = draw.posterior
        temperature = self.log_temperature[number].exp()
        own = draw.distributions[number]
        value = posterior.completed(number, relaxed(own.layer, z, temperature))
        state = torch.cat([draw.ancestors(number).expand(*z.shape[:-1], -1), value], dim=-1)
        inference = torch.stack([*draw.log_inference[:number], torch.zeros_like(z[0, ..., 0])]).sum(0)
        inference = inference + own.log_prob(value)
        if number + 1 < len(posterior.latent.layers):
            # Common noise correlates the two terms.
            fresh = uniforms_for(posterior, self.particles)
            for descendant in relaxed_descendants(posterior, state, number + 1, fresh, temperature):
                inference = inference + descendant.distribution.log_prob(descendant.value)
                state = torch.cat([state, descendant.value], dim=-1)
        return self.log_scale[number].exp() * (log_joint(draw.model, draw.batch, state) - inference)


def _hard_draw(model: LatentVariableModel, batch: Batch, posterior: LayeredPosterior, samples: int) -> HardDraw:
    noise = uniforms_for(posterior, samples)
    state = noise[..., :0]
    distributions, log_inference = [], []
    for number, where in enumerate(posterior.latent.slices):
        distribution = discrete(posterior.conditional(number, state))
        value = hard(distribution.layer, perturbed(distribution, noise[..., where]))
        state = torch.cat([state, value], dim=-1)
        distributions.append(distribution)
        log_inference.append(distribution.log_prob(value).detach())
    second_noise = uniforms_for(posterior, samples)
    return HardDraw(model, batch, posterior, noise, second_noise, state, distributions, log_inference)


def _descending(quantity: Tensor, parameters: Sequence[nn.Parameter]) -> Float[Tensor, ""]:
    """Return a term that has the gradient of the quantity in these parameters, and none in any other."""
    derivatives = torch.autograd.grad(quantity, parameters, allow_unused=True, materialize_grads=True)
    terms = [(derivative * parameter).sum() for derivative, parameter in zip(derivatives, parameters, strict=True)]
    return torch.stack(terms).sum()
