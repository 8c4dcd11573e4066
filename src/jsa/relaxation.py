"""Discrete variables as functions of uniforms, and their continuous relaxations.

A bit with logit l is h = [z > 0] for z = l + log u - log(1 - u); a categorical variable with normalized
log-probabilities l is the largest of z_k = l_k - log(-log u_k). The relaxed variable is sigmoid(z / tau) or
softmax(z / tau), and tends to h with the temperature tau. All functions are pure; noise is given as uniforms, one for
each number of the layer's vector: one a bit, one a class.

References:
    Maddison, Mnih and Teh, The Concrete distribution, ICLR 2017.
    Jang, Gu and Poole, Categorical reparameterization with Gumbel-Softmax, ICLR 2017.
    Tucker, Mnih, Maddison, Lawson and Sohl-Dickstein, REBAR, NeurIPS 2017, for the conditional noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from jsa.batch import Batch
from jsa.distributions import RAREST, Bernoulli, Categorical, Factorized
from jsa.errors import UsageError
from jsa.latent import LatentSpace, Layer
from jsa.model import LatentVariableModel
from jsa.model_calls import posterior_of
from jsa.posteriors import LayeredPosterior

Temperature = float | Tensor
Discrete = Bernoulli | Categorical

ALTERNATIVES = "use vimco, rloo or jsa"
"""Methods that take what a relaxation cannot."""


@runtime_checkable
class LatentConditionals(Protocol):
    """A model that tells the factors of its prior, which methods need that relax the prior or average it exactly."""

    def latent_conditionals(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> list[Factorized]:
        """The distribution under p of each layer given the others: of layer i, a factor that does not depend on it."""
        ...


def discrete(distribution: Factorized) -> Discrete:
    """The distribution, refused with a sentence where it is continuous."""
    if not isinstance(distribution, Bernoulli | Categorical):
        raise UsageError(f"a {distribution.layer.kind} layer has no discrete states to relax: {ALTERNATIVES}")
    return distribution


def refuse_continuous(latent: LatentSpace, method: str) -> None:
    """Refuses a latent space with a continuous layer."""
    for layer in latent.layers:
        if layer.kind == "gaussian":
            raise UsageError(
                f"{method} is for Bernoulli and categorical layers, and this model has a {layer.kind} one: "
                f"{ALTERNATIVES}"
            )


def relaxable_posterior(model: LatentVariableModel, batch: Batch, method: str) -> LayeredPosterior:
    """The posterior of a batch, refused with a sentence where the model or the posterior cannot be relaxed."""
    refuse_continuous(model.latent, method)
    if not model.relaxable:
        raise UsageError(
            f"{method} evaluates log_joint between the discrete states, and {type(model).__name__} does not say that "
            f"it can ('relaxable' is False): {ALTERNATIVES}"
        )
    return posterior_of(model, batch).layered(method)


def positive(number: float, what: str) -> float:
    """The number, refused where it is not positive and finite.

    >>> positive(0.5, "the temperature of REBAR")
    0.5
    """
    if not 0 < number < math.inf:
        raise UsageError(f"{what} is a positive number, not {number}")
    return number


def uniforms_for(posterior: LayeredPosterior, samples: int) -> Float[Tensor, "samples batch width"]:
    """Fresh uniforms for so many relaxed states a row, from torch's global generator."""
    like = posterior.first.like
    size = (samples, *posterior.first.batch_shape, posterior.latent.width)
    return torch.rand(size, dtype=like.dtype, device=like.device)


def perturbed(distribution: Discrete, uniforms: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples width"]:
    """The perturbed logits z that these uniforms determine, differentiable in the logits.

    Example:
        >>> z = perturbed(Bernoulli(torch.tensor([1.0, -1.0])), torch.tensor([0.5, 0.9]))
        >>> z
        tensor([1.0000, 1.1972])
        >>> hard(Layer("bernoulli", 2), z)
        tensor([1., 1.])
    """
    if isinstance(distribution, Bernoulli):
        return distribution.logits + _logistic(uniforms)
    return _log_probabilities(distribution).flatten(-2) + _gumbel(uniforms)


def hard(layer: Layer, z: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples width"]:
    """The discrete state of perturbed logits, without gradient: 0 and 1, or one-hot."""
    z = z.detach()
    if layer.kind == "bernoulli":
        return (z > 0).to(z.dtype)
    largest = _by_variable(layer, z).argmax(-1)
    return F.one_hot(largest, layer.classes).to(z.dtype).flatten(-2)


def log_space(layer: Layer, z: Float[Tensor, "*samples width"], temperature: Temperature) -> Tensor:
    """The relaxed state in the space in which it has a density without overflow: its logit, or its logarithm."""
    if layer.kind == "bernoulli":
        return z / temperature
    return (_by_variable(layer, z) / temperature).log_softmax(-1).flatten(-2)


def relaxed(layer: Layer, z: Float[Tensor, "*samples width"], temperature: Temperature) -> Tensor:
    """The relaxed state of perturbed logits: sigmoid(z / tau), or softmax(z / tau) for each variable.

    Example:
        >>> relaxed(Layer("categorical", 1, classes=3), torch.tensor([0.0, 0.0, 9.0]), temperature=1.0)
        tensor([1.2338e-04, 1.2338e-04, 9.9975e-01])
    """
    if layer.kind == "bernoulli":
        return (z / temperature).sigmoid()
    return (_by_variable(layer, z) / temperature).softmax(-1).flatten(-2)


def conditionally_perturbed(
    distribution: Discrete, h: Float[Tensor, "*samples width"], uniforms: Float[Tensor, "*samples width"]
) -> Float[Tensor, "*samples width"]:
    """Perturbed logits drawn given that their discrete state is h, differentiable in the logits.

    With h drawn from the distribution, the law is that of ``perturbed``. For a bit of probability s and a uniform v,

        z = l + logit(1 - s + s v) where h = 1, and l + logit((1 - s) v) where h = 0,

    written here so that nothing cancels and the sign is always that of h. For a class k that was chosen with v_k and
    probabilities p,

        z_k = -log(-log v_k), and z_i = -log(-log v_i / p_i - log v_k) for the others.
    """
    if isinstance(distribution, Bernoulli):
        noise, logits = _logistic(uniforms), distribution.logits
        return torch.where(h > 0.5, F.softplus(noise + F.softplus(logits)), -F.softplus(F.softplus(-logits) - noise))
    layer = distribution.layer
    gumbel = _by_variable(layer, _gumbel(uniforms))
    chosen = _by_variable(layer, h) > 0.5
    # The maximum of all perturbed logits is a standard Gumbel number, because the probabilities add up to one.
    maximum = gumbel.masked_fill(~chosen, 0).sum(-1, keepdim=True)
    # -log v_i / p_i is exp(-(log p_i + G_i)): the logarithm of the sum of two exponentials.
    below = -torch.logaddexp(-(_log_probabilities(distribution) + gumbel), -maximum)
    return torch.where(chosen, maximum, below).flatten(-2)


def relaxed_log_density(
    distribution: Discrete, point: Float[Tensor, "*samples width"], temperature: Temperature
) -> Float[Tensor, "*samples"]:
    r"""The log-density of the relaxed variables, summed over them, with respect to their logits or log-ratios.

    A bit of logit l at s = logit(y), and a variable of n classes with log-probabilities l at s = log(y):

    .. math:: \log\tau + l - \tau s - 2 \log(1 + e^{l - \tau s}), \qquad
              \log (n-1)! + (n-1) \log\tau + \sum_k (l_k - \tau s_k) - n \log \sum_k e^{l_k - \tau s_k}

    The second is the density of the log-ratios s_k - s_n, which for two classes are a logit. A ratio of two densities
    is the same in all spaces, so that bounds need no Jacobian.

    Args:
        distribution: The discrete distribution that is relaxed.
        point: What ``log_space`` gives.
        temperature: The temperature of this density, which need not be the one with which the point was drawn.
    """
    logarithm = temperature.log() if isinstance(temperature, Tensor) else math.log(temperature)
    if isinstance(distribution, Bernoulli):
        excess = distribution.logits - temperature * point
        return (logarithm + excess - 2 * F.softplus(excess)).sum(-1)
    classes = distribution.layer.classes
    excess = _log_probabilities(distribution) - temperature * _by_variable(distribution.layer, point)
    constant = math.lgamma(classes) + (classes - 1) * logarithm
    return (constant + excess.sum(-1) - classes * excess.logsumexp(-1)).sum(-1)


def entropy(distribution: Discrete) -> Float[Tensor, "*batch"]:
    """The entropy of the discrete variables, summed over them.

    >>> entropy(Bernoulli(torch.zeros(1))), entropy(Categorical(torch.zeros(3), classes=3))
    (tensor(0.6931), tensor(1.0986))
    """
    if isinstance(distribution, Bernoulli):
        logits = distribution.logits
        return (F.softplus(logits) - logits * logits.sigmoid()).sum(-1)
    logarithms = _log_probabilities(distribution)
    return -(logarithms.exp() * logarithms).sum((-2, -1))


@dataclass(frozen=True)
class RelaxedLayer:
    """A layer of a relaxed draw.

    Attributes:
        distribution: Its discrete distribution given the values of the layers before it.
        z: The perturbed logits.
        value: What stands in the state vector.
    """

    distribution: Discrete
    z: Float[Tensor, "*samples width"]
    value: Float[Tensor, "*samples width"]


ValueOf = Callable[[Layer, Tensor, Temperature], Tensor]
"""From a layer's perturbed logits to its part of the state vector: ``relaxed``, or ``straight_through``."""


def straight_through(layer: Layer, z: Float[Tensor, "*samples width"], temperature: Temperature) -> Tensor:
    """The hard state with the gradient of the relaxed one."""
    soft = relaxed(layer, z, temperature)
    # A zero with a gradient: hard - soft + soft would round, and the value is to be a state exactly.
    return hard(layer, z) + (soft - soft.detach())


def relaxed_draw(
    posterior: LayeredPosterior,
    uniforms: Float[Tensor, "*samples width"],
    temperature: Temperature,
    value_of: ValueOf = relaxed,
) -> list[RelaxedLayer]:
    """The layers of a draw, each from its distribution given the (relaxed) layers before it."""
    return relaxed_descendants(posterior, uniforms[..., :0], 0, uniforms, temperature, value_of)


def relaxed_descendants(
    posterior: LayeredPosterior,
    ancestors: Float[Tensor, "*samples above"],
    first: int,
    uniforms: Float[Tensor, "*noise width"],
    temperature: Temperature,
    value_of: ValueOf = relaxed,
) -> list[RelaxedLayer]:
    """The layers from ``first`` on, given the part of the state vector before them."""
    layers = []
    for number in range(first, len(posterior.latent.layers)):
        distribution = discrete(posterior.conditional(number, ancestors))
        z = perturbed(distribution, uniforms[..., posterior.latent.slices[number]])
        value = posterior.completed(number, value_of(distribution.layer, z, temperature))
        layers.append(RelaxedLayer(distribution, z, value))
        ancestors = torch.cat([ancestors, value], dim=-1)
    return layers


def _by_variable(layer: Layer, vector: Tensor) -> Tensor:
    return vector.unflatten(-1, (layer.variables, layer.classes))


def _log_probabilities(distribution: Categorical) -> Tensor:
    return _by_variable(distribution.layer, distribution.logits).log_softmax(-1)


def _guarded(uniforms: Tensor) -> Tensor:
    """Uniforms away from 0, which random generators give, and from 1, to which float32 may round them."""
    return uniforms.clamp(RAREST, 1 - 2 * RAREST)


def _logistic(uniforms: Tensor) -> Tensor:
    return _guarded(uniforms).logit()


def _gumbel(uniforms: Tensor) -> Tensor:
    return -(-_guarded(uniforms).log()).log()
