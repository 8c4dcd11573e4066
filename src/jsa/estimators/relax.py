"""RELAX: REBAR with a learned function added to the control variate."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jsa.estimators.base import Description, inputs_of
from jsa.estimators.rebar import HardDraw, Rebar
from jsa.latent import LatentSpace


class Relax(Rebar):
    r"""REBAR with a neural network added to the control variate.

    .. math:: c_i(z) = \eta f_i(\sigma(z/\tau)) + N_i(x, b_{<i}, z)

    replaces the relaxed objective in the gradient of :class:`~jsa.estimators.rebar.Rebar`. The networks are trained, as
    the scale and the temperature are, to reduce the variance of the gradient. Their output is zero at the start, where
    the method is REBAR.

    Args:
        latent: The latent space of the model, ``model.latent``.
        inputs: The width of an observation together with its context.
        particles: The number n of draws per row.
        temperature: The temperature at the start.
        scale: The scale eta at the start.
        hidden: The width of the hidden layer of the networks.

    References:
        Grathwohl, Choi, Wu, Roeder and Duvenaud, Backpropagation through the void: optimizing control variates for
        black-box gradient estimation, ICLR 2018.
    """

    description: ClassVar[Description] = Description(
        optimizes="ELBO",
        unbiased="yes",
        latents="Bernoulli, categorical",
        decoder_evaluations="n (1 + 2 L) for L layers",
        reference="Grathwohl et al., ICLR 2018",
    )
    name: ClassVar[str] = "RELAX"

    def __init__(
        self,
        latent: LatentSpace,
        inputs: int,
        particles: int = 1,
        temperature: float = 0.5,
        scale: float = 1.0,
        hidden: int = 100,
    ) -> None:
        super().__init__(latent, particles, temperature, scale)
        self._inputs = inputs
        self.networks = nn.ModuleList(_network(inputs + where.stop, hidden) for where in latent.slices)

    def _control(
        self, draw: HardDraw, number: int, z: Float[Tensor, "pair samples batch layer"]
    ) -> Float[Tensor, "pair samples batch"]:
        """Return the scaled relaxed objective plus the network's output."""
        ancestors = draw.ancestors(number)
        inputs = inputs_of(draw.batch, self._inputs, self.name)
        given = torch.cat([inputs.expand(*ancestors.shape[:-1], -1), ancestors], dim=-1)
        # There is nothing to learn from the noise of known variables.
        seen = draw.posterior.completed(number, z)
        value: Tensor = self.networks[number](torch.cat([given.expand(*z.shape[:-1], -1), seen], dim=-1))
        return super()._control(draw, number, z) + value.squeeze(-1)


def _network(inputs: int, hidden: int) -> nn.Sequential:
    """Build a network with zero output. It is smooth, because its slope is differentiated again."""
    last = nn.Linear(hidden, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), last)
