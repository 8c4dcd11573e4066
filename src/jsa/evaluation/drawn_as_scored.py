"""Whether a model draws states and observations as often as its log-probabilities say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from jsa.batch import Batch
from jsa.distributions import Factorized
from jsa.errors import NumericalError, UsageError
from jsa.evaluation.exchangeable_pairs import ExchangeablePairs
from jsa.evaluation.generative import observation, prior_states
from jsa.evaluation.posterior_gradient import can_be_enumerated
from jsa.evaluation.redraws import redrawn_from_all, updated_by_variable
from jsa.latent import LatentSpace, Layer
from jsa.model import Generative, LatentVariableModel
from jsa.model_calls import log_joint, posterior_of, refuse_contradictions, state_dtype, states_at_once

FALSE_ALARM_RATE = 1e-6
"""How often a right model may be refused, by all tests of a call together."""
COMPARISONS = 3
"""Draws from q by log q, and draws of h and of x from the model by log p(x, h)."""
PILOT_DRAWS = 64
FEWEST_STATES, MOST_NUMBERS = 200, 20_000_000
"""Of very wide states fewer are drawn, which bounds the memory."""

DRAW_ALIKE = (
    "draw and score with the same logits, ancestors and order of variables (none shifted, none given its own value), "
    "and score only what is drawn (no padding)"
)
SAME_MODEL = (
    "log_joint must have every factor that sample_latent and observation draw from, the prior included, once and with "
    "the same parameters"
)


@torch.no_grad()
def check_draws(model: LatentVariableModel, batch: Batch, draws: int) -> None:
    """Refuse a model whose draws do not have the distribution that it scores."""
    if can_be_enumerated(model):
        _check_all_probabilities(model, batch, draws)
    else:
        _check_updates(model, batch, draws)
    if isinstance(model, Generative):
        _check_joint(model, batch, draws)


def _check_all_probabilities(model: LatentVariableModel, batch: Batch, draws: int) -> None:
    """Refuse a q(h | x) that does not sum to one over all states, or that is not the distribution of its draws."""
    posterior = posterior_of(model, batch)
    name = f"{posterior.name}.log_prob"
    states = model.latent.enumerate(state_dtype(model, batch), batch.x.device)
    everywhere = states.unsqueeze(1).expand(-1, len(batch), -1)
    # What contradicts the known is not asked for: its log q may be anything.
    log_probabilities = posterior.log_prob(everywhere).double().where(batch.agrees(everywhere), -torch.inf)
    for row, total in enumerate(log_probabilities.exp().sum(0).tolist()):
        if not math.isclose(total, 1, abs_tol=1e-3):
            raise UsageError(
                f"{name} is not that of a distribution: q(h | x) of row {batch.row(row)} sums to {total:.6g} over all "
                "states"
            )
    h = posterior.sample((draws,)).to(states.dtype)
    refuse_contradictions(model, batch, h)
    numbers = _numbers(states, h)
    _refuse_impossible(name, batch, log_probabilities.gather(0, numbers))
    pairs = redrawn_from_all(states, log_probabilities, numbers)
    _refuse_difference(pairs, f"{posterior.name}.sample", name, Names.of(model.latent), DRAW_ALIKE)


def _check_updates(model: LatentVariableModel, batch: Batch, draws: int) -> None:
    """Refuse a q(h | x) whose draws change when their variables are redrawn by ``log_prob``."""
    posterior = posterior_of(model, batch)
    name = f"{posterior.name}.log_prob"
    chains, steps = _work(draws, 40 * draws, model.latent.variables, model.latent.width)
    shape = math.ceil(chains / len(batch)), len(batch)
    pilot, h = posterior.sample((PILOT_DRAWS,)), posterior.sample(shape[:1])
    refuse_contradictions(model, batch, h)
    _refuse_impossible(name, batch, posterior.log_prob(h))
    free = torch.ones_like(h, dtype=torch.bool) if batch.known is None else batch.known.isnan().expand_as(h)

    def log_probability(states: Tensor) -> Tensor:
        value = posterior.log_prob(states.unflatten(0, shape))
        _refuse_not_a_number(name, batch, value)
        return value.flatten()

    pairs = updated_by_variable(log_probability, model.latent, h.flatten(0, 1), steps, free.flatten(0, 1), pilot)
    _refuse_difference(pairs, f"{posterior.name}.sample", name, Names.of(model.latent), DRAW_ALIKE)


def _check_joint(model: LatentVariableModel, batch: Batch, draws: int) -> None:
    """Refuse a log p(x, h) if draws of h and x from the model change when their variables are redrawn by it.

    Draws have the contexts and the gaps of the rows. Nothing is compared if the rows have another form than draws, or
    if p(x | h) is no distribution of jsa, which alone says what its variables are.
    """
    width, name = model.latent.width, f"{type(model).__name__}.log_joint"
    chains, steps = _work(draws, 4 * draws, model.latent.variables, width + batch.x[0].numel())
    h, x, layer = _generated(model, batch, math.ceil(chains / len(batch)))
    if layer is None or not _is_like(batch.x, layer):
        return
    rows = torch.arange(len(h), device=h.device) % len(batch)
    gaps = batch.x.isnan().reshape(len(batch), -1)[rows]
    # What is missing does not count, so that nothing may be learned from it.
    drawn = torch.cat([h, x.masked_fill(gaps, 0)], dim=-1)
    pilot = torch.cat(_generated(model, batch, PILOT_DRAWS)[:2], dim=-1).unflatten(0, (-1, len(batch)))

    def log_probability(states: Tensor) -> Tensor:
        chunks = torch.arange(len(states), device=states.device).split(states_at_once(batch))
        return torch.cat([of_chunk(states[chunk], chunk) for chunk in chunks])

    def of_chunk(states: Tensor, chunk: Tensor) -> Tensor:
        values = states[:, width:].to(batch.x.dtype)
        if batch.x.is_floating_point():
            values = values.masked_fill(gaps[chunk], torch.nan)
        taken = rows[chunk]
        context = None if batch.context is None else batch.context[taken]
        index = None if batch.index is None else batch.index[taken.cpu()]
        some = Batch(values.reshape(-1, *batch.x.shape[1:]), index, context)
        value = log_joint(model, some, states[:, :width].unsqueeze(0))
        _refuse_not_a_number(name, some, value)
        return value[0]

    _refuse_impossible(name, batch, log_probability(drawn).unflatten(0, (-1, len(batch))))
    space = LatentSpace((*model.latent.layers, layer))
    latent = (torch.arange(space.width, device=h.device) < width).expand_as(drawn)
    observed = ~latent
    observed[:, width:] &= ~gaps
    for free, most, sampler in (
        (latent, steps, "sample_latent"),
        (observed, min(layer.variables, math.ceil(2 * draws / len(h))), "observation"),
    ):
        pairs = updated_by_variable(log_probability, space, drawn, most, free, pilot)
        _refuse_difference(pairs, f"{type(model).__name__}.{sampler}", name, Names.of(model.latent, layer), SAME_MODEL)


def _work(draws: int, updates: int, variables: int, width: int) -> tuple[int, int]:
    """Return how many states are drawn, and how many variables of each are updated.

    States of many variables are fewer, but not very few: a statistic is at most the root of their number.
    """
    chains = min(draws, max(draws // 5, updates // variables), max(FEWEST_STATES, MOST_NUMBERS // width))
    return chains, min(variables, math.ceil(updates / chains))


def _numbers(
    states: Float[Tensor, "states width"], h: Float[Tensor, "draws batch width"]
) -> Int64[Tensor, "draws batch"]:
    """Return the number of each drawn state among all states."""
    _, places = torch.unique(torch.cat([states, h.flatten(0, 1)]), dim=0, return_inverse=True)
    # All states are different, so that each has a place of its own.
    return places[: len(states)].argsort()[places[len(states) :]].view(h.shape[:2])


def _generated(
    model: LatentVariableModel, batch: Batch, times: int
) -> tuple[Float[Tensor, "draws width"], Float[Tensor, "draws *observed"], Layer | None]:
    """Draw states and observations this many times for the context of each row; the layer is that of jsa's own."""
    context = None if batch.context is None else batch.context.repeat(times, *[1] * (batch.context.ndim - 1))
    h = prior_states(model, times * len(batch), context)
    observed = observation(model, h, context)
    return h, observed.sample(), observed.layer if isinstance(observed, Factorized) else None


def _is_like(x: Tensor, layer: Layer) -> bool:
    """Return whether observations may be draws of this layer: not if the model scales or encodes them."""
    in_range = layer.kind == "gaussian" or not bool(((x < 0) | (x > 1)).any())
    return x[0].numel() == layer.width and in_range


def _refuse_not_a_number(name: str, batch: Batch, value: Float[Tensor, "draws batch"]) -> None:
    _refuse_where(name, batch, value, ~(value < torch.inf), "at a state of the latent space")


def _refuse_impossible(name: str, batch: Batch, value: Float[Tensor, "draws batch"]) -> None:
    _refuse_where(name, batch, value, ~value.isfinite(), "at a state that was drawn")


def _refuse_where(
    name: str, batch: Batch, value: Float[Tensor, "draws batch"], wrong: Bool[Tensor, "draws batch"], where: str
) -> None:
    if bool(wrong.any()):
        draw, row = wrong.nonzero()[0].tolist()
        raise NumericalError(f"{name} is {float(value[draw, row])} at row {batch.row(row)}, {where}")


def _refuse_difference(pairs: ExchangeablePairs, sampler: str, density: str, names: Names, mend: str) -> None:
    finding = pairs.finding(FALSE_ALARM_RATE / COMPARISONS)
    if finding is None:
        return
    off, more = f"too {'small' if finding.score > 0 else 'large'} on average", ""
    if finding.count > 1:
        more = f", and {finding.count - 1} more like it"
    match finding.family:
        case "value":
            what = f"{names.columns[finding.number]} is {off}{more}"
        case "product":
            one, other = (names.columns[column] for column in divmod(finding.number, pairs.old.shape[-1]))
            what = f"the product of {one} and {other} is {off}{more}"
        case "gain":
            what = f"{names.variables[finding.number]} has other probabilities given the rest{more}"
        case "state":
            what = f"a state is too {'rare' if finding.score > 0 else 'frequent'}{more}"
        case _:
            what = f"the density of what is drawn is {off}" if finding.number < 2 else "all variables together differ"
    raise UsageError(
        f"{sampler} does not draw what {density} says: {what} ({abs(finding.score):.1f} standard deviations in "
        f"{len(pairs.old):,} draws); {mend}"
    )


@dataclass(frozen=True)
class Names:
    """The names of the columns and variables of a state, for error sentences."""

    columns: list[str]
    variables: list[str]

    @classmethod
    def of(cls, latent: LatentSpace, observed: Layer | None = None) -> Names:
        several = len(latent.layers) > 1
        parts = [(layer, f"layer {number} of h" if several else "h") for number, layer in enumerate(latent.layers)]
        parts += [] if observed is None else [(observed, "x")]
        columns, variables = [], []
        for layer, whole in parts:
            for variable in range(layer.variables):
                name = f"{'bit' if layer.kind == 'bernoulli' else 'variable'} {variable} of {whole}"
                variables.append(name)
                columns += (
                    [f"class {one} of {name}" for one in range(layer.classes)]
                    if layer.kind == "categorical"
                    else [name]
                )
        return cls(columns, variables)
