"""Updates of drawn states that are reversible for a distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from jsa.evaluation.exchangeable_pairs import ExchangeablePairs
from jsa.latent import LatentSpace, Layer


def updated_by_variable(
    log_probability: Callable[[Tensor], Tensor],
    space: LatentSpace,
    h: Float[Tensor, "chains width"],
    steps: int,
    free: Bool[Tensor, "chains width"],
    pilot: Float[Tensor, "pilots rows width"],
) -> ExchangeablePairs:
    """Update variables of each state one after the other in random order.

    An update proposes another value, each with the same probability (for a Gaussian variable one nearby), and accepts
    it with probability sigmoid(log p(new) - log p(old)). A bit is thereby redrawn from its conditional. Updates are
    reversible, and an order is as probable as its reverse: so the first and the last states are exchangeable if the
    first ones have the distribution p.

    Args:
        log_probability: log p of states, up to a constant for each chain.
        space: The variables of a state.
        h: The states, one for each chain.
        steps: How many variables of each state are updated.
        free: The columns of variables that may change.
        pilot: Other draws, which show the scale of Gaussian variables; chain i belongs to row i modulo rows.
    """
    # Scales must not depend on the states that are updated.
    center, scale = (part.repeat(len(h) // pilot.shape[1], 1) for part in _spread(space, pilot))
    first_columns = torch.cat([columns[:, 0] for _, columns in _variables(space, h.device)])
    # Variables that may not change come last and are never reached.
    places = torch.rand(len(h), space.variables, device=h.device).where(free[:, first_columns], torch.inf)
    places, order = places.topk(steps, largest=False)
    order = order.where(places.isfinite(), -1)
    chains = torch.arange(len(h), device=h.device)
    gains = torch.zeros(len(h), space.variables, dtype=torch.float64, device=h.device)
    state, value = h, log_probability(h)
    first = value
    for variable in order.unbind(-1):
        proposal = _proposal(space, state, variable, scale)
        proposed = log_probability(proposal)
        rise = _rise(value, proposed)
        accepted = torch.rand(len(h), device=h.device) < rise.sigmoid()
        gains[chains, variable] += (rise / 2).tanh().where(accepted, 0)
        state, value = proposal.where(accepted.unsqueeze(-1), state), proposed.where(accepted, value)
    old, new = ((states.double() - center) / scale for states in (h, state))
    return ExchangeablePairs(old, new, _rise(first, value), gains)


def redrawn_from_all(
    states: Float[Tensor, "states width"],
    log_probabilities: Float64[Tensor, "states rows"],
    numbers: Int64[Tensor, "draws rows"],
) -> ExchangeablePairs:
    """Draw a new state independently of the old one, by the probabilities of all states.

    Args:
        states: All states.
        log_probabilities: Their log-probabilities at each row.
        numbers: The numbers of the states drawn.
    """
    new = torch.multinomial(log_probabilities.exp().T, len(numbers), replacement=True).T
    rise = log_probabilities.gather(0, new) - log_probabilities.gather(0, numbers)
    of_rows = len(states) * torch.arange(numbers.shape[1], device=states.device)
    before, after = numbers.flatten(), new.flatten()
    pairs = (numbers + of_rows).flatten(), (new + of_rows).flatten()
    every = states.double()
    return ExchangeablePairs(every[before], every[after], rise.flatten(), numbers=pairs)


def _variables(space: LatentSpace, device: torch.device) -> Iterator[tuple[Layer, Int64[Tensor, "variables each"]]]:
    """Yield the columns of each variable, layer by layer."""
    for layer, where in zip(space.layers, space.slices, strict=True):
        yield layer, torch.arange(where.start, where.stop, device=device).view(layer.variables, -1)


def _spread(
    space: LatentSpace, pilot: Float[Tensor, "pilots rows width"]
) -> tuple[Float64[Tensor, "rows width"], Float64[Tensor, "rows width"]]:
    """Return the mean and the standard deviation of Gaussian variables, and 0 and 1 for others."""
    mean, deviation = pilot.double().mean(0), pilot.double().std(0)
    kinds = [torch.full((layer.width,), layer.kind == "gaussian") for layer in space.layers]
    gaussian = torch.cat(kinds).to(pilot.device)
    return mean.where(gaussian, 0), deviation.where(gaussian & (deviation > 0), 1)


def _proposal(
    space: LatentSpace,
    state: Float[Tensor, "chains width"],
    variable: Int64[Tensor, " chains"],
    scale: Float64[Tensor, "chains width"],
) -> Float[Tensor, "chains width"]:
    """Return states in which one variable of each chain, if its number is not negative, has another value."""
    proposal, before = state.clone(), 0
    for layer, columns in _variables(space, state.device):
        chains = ((variable >= before) & (variable < before + layer.variables)).nonzero()
        where = chains, columns[variable[chains.squeeze(-1)] - before]
        proposal[where] = _other_values(layer, state[where], scale[where].to(state.dtype))
        before += layer.variables
    return proposal


def _other_values(
    layer: Layer, values: Float[Tensor, "chains each"], scale: Float[Tensor, "chains each"]
) -> Float[Tensor, "chains each"]:
    """Return values that are proposed as often from the given ones as the given ones from them."""
    match layer.kind:
        case "bernoulli":
            return 1 - values
        case "categorical":
            shift = torch.randint(1, layer.classes, (len(values), 1), device=values.device)
            return values.gather(1, (torch.arange(layer.classes, device=values.device) + shift) % layer.classes)
        case "gaussian":
            # Variables that depend on each other vary less than each by itself: small steps are tried, too.
            return values + 2 * torch.rand_like(values) * scale * torch.randn_like(values)


def _rise(old: Float[Tensor, " chains"], new: Float[Tensor, " chains"]) -> Float64[Tensor, " chains"]:
    """Return by how much log-probabilities rise; 0 for what may be rounding of sums of many terms."""
    rounding = 8 * torch.finfo(old.dtype).eps * torch.maximum(old.abs(), new.abs())
    rise = new.double() - old.double()
    return rise.where(rise.abs() > rounding, 0)
