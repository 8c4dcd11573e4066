"""Discrete variables as functions of uniforms, and their continuous relaxations.

A bit with logit l is h = [z > 0] for z = l + log u - log(1 - u); a categorical variable with normalized
log-probabilities l is the argmax of z_k = l_k - log(-log u_k). The relaxed variable is sigmoid(z / tau) or
softmax(z / tau), and tends to h as the temperature tau tends to 0. All functions are pure; noise is given as uniforms,
one for each entry of the layer's vector: one per bit, one per class.

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
"""The methods to use where a relaxation is not possible."""


@runtime_checkable
class LatentConditionals(Protocol):
    """A model that gives the factors of its prior, for methods that relax the prior or average it exactly."""

    def latent_conditionals(self, batch: Batch, h: Float[Tensor, "*samples batch width"]) -> list[Factorized]:
        """Return the factor of each layer under p given the others: that of layer i does not depend on layer i."""
        ...


def discrete(distribution: Factorized) -> Discrete:
    """Return the distribution, or refuse a continuous one."""
    if not isinstance(distribution, Bernoulli | Categorical):
        raise UsageError(f"a {distribution.layer.kind} layer has no discrete states to relax: {ALTERNATIVES}")
    return distribution


def refuse_continuous(latent: LatentSpace, method: str) -> None:
    """Refuse a latent space with a continuous layer."""
    for layer in latent.layers:
        if layer.kind == "gaussian":
            raise UsageError(
                f"{method} is for Bernoulli and categorical layers, and this model has a {layer.kind} one: "
                f"{ALTERNATIVES}"
            )


def relaxable_posterior(model: LatentVariableModel, batch: Batch, method: str) -> LayeredPosterior:
    """Return the posterior of a batch, or refuse a model or posterior that cannot be relaxed."""
    refuse_continuous(model.latent, method)
    if not model.relaxable:
        raise UsageError(
            f"{method} evaluates log_joint between the discrete states, but {type(model).__name__}.relaxable is False: "
            f"{ALTERNATIVES}"
        )
    return posterior_of(model, batch).layered(method)


def positive(number: float, what: str) -> float:
    """Return the number, or refuse one that is not positive and finite.

    >>> positive(0.5, "the temperature of REBAR")
    0.5
    """
    if not 0 < number < math.inf:
        raise UsageError(f"{what} must be a positive number, not {number}")
    return number


def uniforms_for(posterior: LayeredPosterior, samples: int) -> Float[Tensor, "samples batch width"]:
    """Draw uniforms for this many relaxed states per row from torch's global generator."""
    like = posterior.first.like
    size = (samples, *posterior.first.batch_shape, posterior.latent.width)
    return torch.rand(size, dtype=like.dtype, device=like.device)


def perturbed(distribution: Discrete, uniforms: Float[Tensor, "*samples width"]) -> Float[Tensor, "*samples width"]:
    """Return the perturbed logits z that these uniforms determine, differentiable in the logits.

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
    """Return the discrete state of perturbed logits, 0 and 1 or one-hot, without gradient."""
    z = z.detach()
    if layer.kind == "bernoulli":
        return (z > 0).to(z.dtype)
    largest = _by_variable(layer, z).argmax(-1)
    return F.one_hot(largest, layer.classes).to(z.dtype).flatten(-2)


def log_space(layer: Layer, z: Float[Tensor, "*samples width"], temperature: Temperature) -> Tensor:
    """Return the relaxed state as its logit or logarithm, in which its density does not overflow."""
    if layer.kind == "bernoulli":
        return z / temperature
    return (_by_variable(layer, z) / temperature).log_softmax(-1).flatten(-2)


def relaxed(layer: Layer, z: Float[Tensor, "*samples width"], temperature: Temperature) -> Tensor:
    """Return the relaxed state of perturbed logits: sigmoid(z / tau), or softmax(z / tau) for each variable.

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
    """Return perturbed logits given that their discrete state is h, differentiable in the logits.

    If h is drawn from the distribution, they are distributed as those of ``perturbed``. For a bit of probability s and
    a uniform v,

        z = l + logit(1 - s + s v) where h = 1, and l + logit((1 - s) v) where h = 0,

    computed such that nothing cancels and the sign is always that of h. For a chosen class k and probabilities p,

        z_k = -log(-log v_k), and z_i = -log(-log v_i / p_i - log v_k) for the others.
    """
    if isinstance(distribution, Bernoulli):
        noise, logits = _logistic(uniforms), distribution.logits
        return torch.where(h > 0.5, F.softplus(noise + F.softplus(logits)), -F.softplus(F.softplus(-logits) - noise))
    layer = distribution.layer
    gumbel = _by_variable(layer, _gumbel(uniforms))
    chosen = _by_variable(layer, h) > 0.5
    # The maximum of all perturbed logits has the standard Gumbel distribution, because the probabilities sum to one.
    maximum = gumbel.masked_fill(~chosen, 0).sum(-1, keepdim=True)
    # -log v_i / p_i is exp(-(log p_i + G_i)), so this is the logarithm of a sum of two exponentials.
    below = -torch.logaddexp(-(_log_probabilities(distribution) + gumbel), -maximum)
    return torch.where(chosen, maximum, below).flatten(-2)


def relaxed_log_density(
    distribution: Discrete, point: Float[Tensor, "*samples width"], temperature: Temperature
) -> Float[Tensor, "*samples"]:
    r"""Return the log-density of the relaxed variables, summed over them, with respect to their logits or log-ratios.

    A bit of logit l at s = logit(y), and a variable of n classes with log-probabilities l at s = log(y):

    .. math:: \log\tau + l - \tau s - 2 \log(1 + e^{l - \tau s}), \qquad
              \log (n-1)! + (n-1) \log\tau + \sum_k (l_k - \tau s_k) - n \log \sum_k e^{l_k - \tau s_k}

    The second is the density of the log-ratios s_k - s_n; for two classes, this is a logit. A ratio of two densities
    is the same in all spaces, so bounds need no Jacobian.

    Args:
        distribution: The discrete distribution that is relaxed.
        point: A point from ``log_space``.
        temperature: The temperature of this density, which need not be the one at which the point was drawn.
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
    """Return the entropy of the discrete variables, summed over them.

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
        value: The layer's part of the state vector.
    """

    distribution: Discrete
    z: Float[Tensor, "*samples width"]
    value: Float[Tensor, "*samples width"]


ValueOf = Callable[[Layer, Tensor, Temperature], Tensor]
"""From a layer's perturbed logits to its part of the state vector: ``relaxed``, or ``straight_through``."""


def straight_through(layer: Layer, z: Float[Tensor, "*samples width"], temperature: Temperature) -> Tensor:
    """Return the hard state with the gradient of the relaxed one."""
    soft = relaxed(layer, z, temperature)
    # A zero with a gradient is added, because hard - soft + soft would round and the value must be exactly a state.
    return hard(layer, z) + (soft - soft.detach())


def relaxed_draw(
    posterior: LayeredPosterior,
    uniforms: Float[Tensor, "*samples width"],
    temperature: Temperature,
    value_of: ValueOf = relaxed,
) -> list[RelaxedLayer]:
    """Return the layers of a draw, each from its distribution given the (relaxed) layers before it."""
    return relaxed_descendants(posterior, uniforms[..., :0], 0, uniforms, temperature, value_of)


def relaxed_descendants(
    posterior: LayeredPosterior,
    ancestors: Float[Tensor, "*samples above"],
    first: int,
    uniforms: Float[Tensor, "*noise width"],
    temperature: Temperature,
    value_of: ValueOf = relaxed,
) -> list[RelaxedLayer]:
    """Return the layers from ``first`` on, given the part of the state vector before them."""
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
    """Move uniforms away from 0, which generators return, and from 1, to which float32 may round."""
    return uniforms.clamp(RAREST, 1 - 2 * RAREST)


def _logistic(uniforms: Tensor) -> Tensor:
    return _guarded(uniforms).logit()


def _gumbel(uniforms: Tensor) -> Tensor:
    return -(-_guarded(uniforms).log()).log()
