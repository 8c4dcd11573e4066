"""Proposals that redraw a random block of the variables from q(h | x)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jsa.errors import Range, UsageError
from jsa.kernels.proposal import Proposal, Proposed
from jsa.kernels.target import Target
from jsa.latent import Kind, LatentSpace
from jsa.model_calls import EvaluatedStates
from jsa.posteriors import LayeredPosterior

GAIN = 0.2
"""How far the logarithm of the size moves for a difference of one between acceptance and its goal: a size that is ten
times too large is right after about a hundred moves, and batches of 100 rows shake it by one percent."""

NEVER = 2.0
"""A number above every uniform."""


class Block(Proposal):
    r"""Redraw a random block of the variables of one layer from q, given the layers before it, and keep all others.

    With B the block, the ratio of the acceptance is

    .. math:: \log a = \log p(x, h') - \log p(x, h) - \log q(h'_B | h_{<}) + \log q(h_B | h_{<})

    which for a single layer is the ratio of the full weights. On a trained model, where almost no draw of a whole state
    is accepted, blocks of some variables are.

    The layer of a row is chosen in proportion to its number of variables that are not known. A variable is in the block
    with probability ``size``, and if none is, one of them all is. All this is chosen afresh at each move, without
    looking at the state. It needs a ``LayeredPosterior``: whole-state moves in its place would be another kernel than
    the one that was asked for, so other posteriors are refused.

    Args:
        size: The share of the variables of the layer, above 0 and at most 1.
        acceptance: If given, the size is adapted in stage I until this share of the moves is accepted, starting from
            ``size``; in stage II it stays. It is then saved in the ``state_dict`` of the estimator.
        kinds: The kinds of variables to move; the others are left as they are.

    Example:
        >>> Block(0.05), Block(acceptance=0.25)
        (Block(size=0.05), Block(size=0.05, acceptance=0.25))
    """

    name: ClassVar[str] = "block"
    size: Tensor | float

    def __init__(
        self, size: float = 0.05, acceptance: float | None = None, kinds: Sequence[Kind] = get_args(Kind)
    ) -> None:
        super().__init__()
        if not 0 < size <= 1:
            raise UsageError(
                "a block cannot be empty, or larger than its layer: its size is a share of the variables of the layer, "
                f"above 0 and at most 1, not {size}"
            )
        Range(above=0, below=1).check(acceptance=acceptance)
        if not kinds or not set(kinds) <= set(get_args(Kind)):
            raise UsageError(f"the kinds of a Block are some of {', '.join(get_args(Kind))}, not {kinds!r}")
        self.acceptance = acceptance
        if acceptance is None:
            self.size = float(size)
        else:
            self.register_buffer("size", torch.tensor(float(size)))
        self.kinds = tuple(kinds)

    def extra_repr(self) -> str:
        parts = [f"size={float(self.size):.3g}"]
        parts += [] if self.acceptance is None else [f"acceptance={self.acceptance}"]
        parts += [] if set(self.kinds) == set(get_args(Kind)) else [f"kinds={self.kinds}"]
        return ", ".join(parts)

    def __repr__(self) -> str:
        """Return the call that makes such a proposal."""
        return f"{type(self).__name__}({self.extra_repr()})"

    def choose(self, target: Target) -> Bool[Tensor, "batch variables"]:
        """Choose the variables to redraw."""
        latent, batch = target.model.latent, target.batch
        self.check(latent)
        free = self._free(latent, target)
        if len(latent.layers) > 1:
            free = free & _one_layer(latent, free)
        return block_of(torch.rand(free.shape, device=batch.x.device), free, self.size)

    def propose(
        self,
        target: Target,
        current: EvaluatedStates,
        chosen: Bool[Tensor, "batch variables"],
        uniforms: Float[Tensor, "1 batch variables"],
    ) -> Proposed:
        posterior, latent = self._layers(target), target.model.latent
        new, forward, backward = [], [], []
        for number, layer in enumerate(latent.layers):
            where, noise = latent.slices[number], latent.noise_slices[number]
            old = current.h[..., where]
            if layer.kind not in self.kinds:
                new.append(old)
                continue
            # No layer before that of the block changes, so what is given is the same before and after the move.
            conditional = posterior.conditional(number, current.h[..., : where.start])
            redrawn = chosen[:, noise].repeat_interleave(layer.width // layer.variables, -1)
            new.append(torch.where(redrawn, conditional.from_uniforms(uniforms[..., noise]), old))
            # The variables that stay add the same to both.
            forward.append(conditional.log_prob(new[-1]))
            backward.append(conditional.log_prob(old))
        h = new[0] if len(new) == 1 else torch.cat(new, dim=-1)
        known = forward[0] if len(latent.layers) == 1 else None
        return Proposed(target.evaluate(h, known), torch.stack(forward).sum(0), torch.stack(backward).sum(0))

    @torch.no_grad()
    def adapt(self, acceptance: Float[Tensor, ""], latent: LatentSpace) -> None:
        if isinstance(self.size, Tensor) and self.acceptance is not None:
            # A block has one variable at least, whatever its size.
            self.size.mul_((GAIN * (acceptance - self.acceptance)).exp()).clamp_(1 / latent.variables, 1)

    def _layers(self, target: Target) -> LayeredPosterior:
        if target.posterior.layers is None:
            raise UsageError(
                "Block redraws some variables from the conditionals of q(h | x), which a LayeredPosterior has but "
                f"{target.posterior.name} does not: return a LayeredPosterior, or move whole states with "
                "MetropolisHastings(Independence())"
            )
        return target.posterior.layers

    def _free(self, latent: LatentSpace, target: Target) -> Bool[Tensor, "batch variables"]:
        """Return the variables that may move: of the right kinds, and not known."""
        known, device = target.batch.known, target.batch.x.device
        parts = []
        for layer, where in zip(latent.layers, latent.slices, strict=True):
            if layer.kind not in self.kinds or known is None:
                parts.append(torch.full((len(target.batch), layer.variables), layer.kind in self.kinds, device=device))
            else:
                parts.append(known[:, where].isnan().unflatten(-1, (layer.variables, -1)).all(-1))
        return torch.cat(parts, dim=-1)


def block_of(
    uniforms: Float[Tensor, "batch variables"], free: Bool[Tensor, "batch variables"], size: Tensor | float
) -> Bool[Tensor, "batch variables"]:
    """Return the free variables whose uniforms are below the size, or the one with the lowest if there are none.

    >>> free = torch.tensor([[True, True, True], [True, True, False]])
    >>> block_of(torch.tensor([[0.1, 0.2, 0.9], [0.7, 0.6, 0.1]]), free, 0.3)
    tensor([[ True,  True, False],
            [False,  True, False]])
    """
    uniforms = uniforms.where(free, NEVER)
    return free & (uniforms <= uniforms.amin(-1, keepdim=True).clamp_min(size))


def _one_layer(latent: LatentSpace, free: Bool[Tensor, "batch variables"]) -> Bool[Tensor, "batch variables"]:
    """Return the variables of one layer of each row, chosen in proportion to its free variables."""
    sizes = torch.stack([free[:, where].sum(-1) for where in latent.noise_slices], dim=-1)
    ends = sizes.cumsum(-1)
    # Without any free variable all comparisons hold, which is no layer.
    chosen = (torch.rand(len(free), 1, device=free.device) * ends[:, -1:] >= ends).sum(-1, keepdim=True)
    numbers = [torch.full((layer.variables,), number) for number, layer in enumerate(latent.layers)]
    return torch.cat(numbers).to(free.device) == chosen
