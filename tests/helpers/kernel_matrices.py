"""The exact transition matrices of kernels, by integration over all that they draw.

What a Metropolis-Hastings move does depends on the block, on one uniform for each variable, and on the acceptance. The
blocks can be counted. A uniform matters only by the value that it gives its variable, so that one in the middle of
each piece stands for the whole piece. And the probability of acceptance is known. So the program itself is integrated,
whatever it does with what it draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from helpers.small_models import Example, state_numbers
from jsa import LatentSpace, Layer
from jsa.kernels import Block, Target
from jsa.kernels.metropolis_hastings import log_ratio
from jsa.model_calls import posterior_of
from jsa.testing.gradients import repeated


def states_of(example: Example, row: int) -> Tensor:
    """The states that agree with what is known of a row."""
    states = example.model.latent.enumerate(torch.float64)
    if example.batch.known is None:
        return states
    known = example.batch.known[row]
    return states[((states == known) | known.isnan()).all(-1)]


def posterior_of_row(example: Example, row: int) -> Tensor:
    """The exact posterior of a row over those states."""
    states = states_of(example, row).unsqueeze(1)
    with torch.no_grad():
        return example.model.log_joint(example.batch.take(torch.tensor([row])), states).squeeze(1).softmax(0)


def free_variables(example: Example, row: int, block: Block) -> Tensor:
    """Which variables a block may redraw: of its kinds, and not known."""
    latent, known = example.model.latent, example.batch.known
    parts = []
    for layer, where in zip(latent.layers, latent.slices, strict=True):
        free = torch.full((layer.variables,), layer.kind in block.kinds)
        if known is not None:
            free &= known[row, where].isnan().unflatten(-1, (layer.variables, -1)).all(-1)
        parts.append(free)
    return torch.cat(parts)


def every_block(latent: LatentSpace, free: Tensor, size: float) -> Iterator[tuple[float, int, Tensor]]:
    """All blocks with their probabilities and layers, by the definition of the class."""
    for number, where in enumerate(latent.noise_slices):
        variables = [one for one in range(where.start, where.stop) if free[one]]
        count = len(variables)
        for chosen in range(1, count + 1):
            probability = size**chosen * (1 - size) ** (count - chosen)
            if chosen == 1:
                # If none is drawn, one of them all is.
                probability += (1 - size) ** count / count
            for block in itertools.combinations(variables, chosen):
                mask = torch.zeros(latent.variables, dtype=torch.bool)
                mask[list(block)] = True
                yield count / int(free.sum()) * probability, number, mask


def every_value(layer: Layer, means: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Uniforms that draw each vector of a layer with these means, and the probabilities of such draws."""
    by_variable = means.unflatten(-1, (layer.variables, -1))
    if layer.kind == "bernoulli":
        # The lower piece of the uniforms draws a one.
        by_variable = torch.cat([by_variable, 1 - by_variable], dim=-1)
    ends = by_variable.cumsum(-1)
    middles = ends - by_variable / 2
    for values in itertools.product(range(by_variable.shape[-1]), repeat=layer.variables):
        index = torch.tensor(values).expand(len(means), -1).unsqueeze(-1)
        yield middles.gather(-1, index).squeeze(-1), by_variable.gather(-1, index).squeeze(-1).prod(-1)


@torch.no_grad()
def block_matrices(example: Example, row: int, block: Block, beta: float = 1.0) -> tuple[Tensor, Tensor]:
    """The probabilities of the moves that are accepted from each state to each, and of rejection in each state."""
    latent, states = example.model.latent, states_of(example, row)
    alike = repeated(example.batch.take(torch.tensor([row])), len(states))
    posterior = posterior_of(example.model, alike)
    layers = posterior.layered("a test")
    target = Target(example.model, alike, posterior, beta)
    current = target.candidates(states)
    places = {number: place for place, number in enumerate(state_numbers(example.model, states).tolist())}
    accepted = torch.zeros(len(states), len(states), dtype=torch.float64)
    rejected = torch.zeros(len(states), dtype=torch.float64)
    start = torch.arange(len(states))
    free = free_variables(example, row, block)
    for chance, number, mask in every_block(latent, free, float(block.size)):
        where, noise = latent.slices[number], latent.noise_slices[number]
        conditional = layers.conditional(number, current.h[..., : where.start])
        means = conditional.mean.expand(1, len(states), -1)[0]
        for middles, probability in every_value(latent.layers[number], means):
            uniforms = torch.full((1, len(states), latent.variables), 0.5, dtype=torch.float64)
            uniforms[..., noise] = middles
            proposed = block.propose(target, current, mask.expand(len(states), -1), uniforms)
            acceptance = log_ratio(target, current, proposed)[0].clamp(max=0).exp()
            end = torch.tensor([places[one] for one in state_numbers(example.model, proposed.states.h[0]).tolist()])
            accepted.index_put_((start, end), chance * probability * acceptance, accumulate=True)
            rejected += chance * probability * (1 - acceptance)
    return accepted, rejected


def block_matrix(example: Example, row: int, block: Block, beta: float = 1.0) -> Tensor:
    """The transition matrix of one move."""
    accepted, rejected = block_matrices(example, row, block, beta)
    return accepted + torch.diag(rejected)
