"""Latent spaces: layers of random variables of one kind, and their compact form.

A latent state h is one flat vector whatever its structure: the layers are concatenated in the order in which the
inference model samples them, and a categorical variable is one-hot. Samplers and the cache see only vectors.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from jsa.errors import CheckpointError, UsageError
from jsa.io.arguments import storable

Kind = Literal["bernoulli", "categorical", "gaussian"]

ENUMERATION_LIMIT = 2**20


@storable
@dataclass(frozen=True)
class Layer:
    """Variables of one kind that are independent given their parents.

    Attributes:
        kind: ``bernoulli``, ``categorical`` or ``gaussian``.
        variables: The number of variables of the layer.
        classes: The number of classes of each categorical variable; always 2 for the other kinds.
    """

    kind: Kind
    variables: int
    classes: int = 2

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise UsageError(f"a layer is one of {', '.join(get_args(Kind))}, not '{self.kind}'")
        if self.variables < 1:
            raise UsageError(f"a layer needs at least 1 variable, not {self.variables}")
        if self.kind == "categorical" and not 2 <= self.classes <= 256:
            raise UsageError(f"a categorical variable has 2 to 256 classes, not {self.classes}")
        if self.kind != "categorical" and self.classes != 2:
            raise UsageError(f"only categorical layers have classes: leave them out for a {self.kind} layer")

    def __str__(self) -> str:
        classes = f" of {self.classes} classes" if self.kind == "categorical" else ""
        return f"{self.variables} {self.kind} variable{'s' * (self.variables > 1)}{classes}"

    @property
    def width(self) -> int:
        """The length of the layer's part of a state vector."""
        return self.variables * self.classes if self.kind == "categorical" else self.variables

    @property
    def parameters(self) -> int:
        """The number of parameters of the layer's distribution: logits, or means and log scales."""
        return 2 * self.variables if self.kind == "gaussian" else self.width

    @property
    def packed_bytes(self) -> int:
        """The size of the layer's compact form in bytes: a bit, a byte or a float32 per variable."""
        return {
            "bernoulli": (self.variables + 7) // 8,
            "categorical": self.variables,
            "gaussian": 4 * self.variables,
        }[self.kind]

    @property
    def states(self) -> float:
        """The number of states, infinite for a continuous layer."""
        # Two to the power of 1,024 is beyond the largest float.
        countable = self.kind != "gaussian" and self.variables * math.log2(self.classes) < 1024
        return float(self.classes) ** self.variables if countable else float("inf")

    def pack(self, h: Float[Tensor, "*batch width"]) -> UInt8[Tensor, "*batch bytes"]:
        """Return the compact form of states of this layer."""
        match self.kind:
            case "bernoulli":
                bits = torch.nn.functional.pad(h, (0, -self.variables % 8)).to(torch.uint8).unflatten(-1, (-1, 8))
                return (bits << _places(h.device)).sum(-1, dtype=torch.uint8)
            case "categorical":
                return h.unflatten(-1, (self.variables, self.classes)).argmax(-1).to(torch.uint8)
            case "gaussian":
                return h.to(torch.float32).contiguous().view(torch.uint8)

    def unpack(self, stored: UInt8[Tensor, "*batch bytes"], dtype: torch.dtype) -> Float[Tensor, "*batch width"]:
        """Return the states from their compact form."""
        match self.kind:
            case "bernoulli":
                bits = (stored.unsqueeze(-1) >> _places(stored.device)) & 1
                return bits.flatten(-2)[..., : self.variables].to(dtype)
            case "categorical":
                try:
                    one_hot = torch.nn.functional.one_hot(stored.long(), self.classes)
                except RuntimeError as error:
                    raise CheckpointError(
                        f"a stored state has class {int(stored.max())}, but this layer has {self.classes} classes: the "
                        "chains are damaged or belong to another model, so start new ones"
                    ) from error
                return one_hot.flatten(-2).to(dtype)
            case "gaussian":
                # A copy, because a float32 must be aligned and a part of a record may begin at any byte.
                return stored.clone(memory_format=torch.contiguous_format).view(torch.float32).to(dtype)

    def contains(self, h: Float[Tensor, "*batch width"]) -> bool:
        """Return whether these are states of this layer: bits, one-hot classes, or finite numbers.

        >>> Layer("categorical", 1, classes=3).contains(torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))
        False
        """
        if self.kind == "gaussian":
            return bool(h.isfinite().all())
        bits = bool(((h == 0) | (h == 1)).all())
        one_hot = self.kind != "categorical" or bool((h.unflatten(-1, (self.variables, -1)).sum(-1) == 1).all())
        return bits and one_hot

    def refuse_wrong_known(self, known: Float[Tensor, "*batch width"]) -> None:
        """Refuse known values that are not states of a discrete variable; NaN marks an unknown value.

        >>> Layer("categorical", 1, classes=3).refuse_wrong_known(torch.tensor([torch.nan, 1.0, 0.0]))
        Traceback (most recent call last):
        jsa.errors.UsageError: a known categorical variable must be one-hot, an unknown one NaN in all its classes
        """
        by_variable = known.unflatten(-1, (self.variables, -1))
        said = by_variable[~by_variable.isnan().all(-1)]
        if len(said) == 0:
            return
        match self.kind:
            case "bernoulli" if not Layer("bernoulli", 1).contains(said):
                raise UsageError("a known bit must be 0 or 1, an unknown one NaN")
            case "categorical" if not Layer("categorical", 1, self.classes).contains(said):
                raise UsageError("a known categorical variable must be one-hot, an unknown one NaN in all its classes")
            case "gaussian":
                raise UsageError(
                    "a Gaussian variable cannot be known, because it has no probability: make it part of x"
                )

    def enumerate(self) -> Iterator[tuple[float, ...]]:
        """Yield every state of a discrete layer."""
        if self.kind == "categorical":
            unit = torch.eye(self.classes).tolist()
            for choice in itertools.product(unit, repeat=self.variables):
                yield tuple(itertools.chain.from_iterable(choice))
        else:
            yield from itertools.product((0.0, 1.0), repeat=self.variables)


@storable
@dataclass(frozen=True)
class LatentSpace:
    """The layers of a latent state, in the order in which the inference model samples them.

    Example:
        >>> space = LatentSpace.of(Layer("bernoulli", 200), Layer("categorical", 20, classes=10))
        >>> space.width, space.variables, space.packed_bytes
        (400, 220, 45)
        >>> LatentSpace.of(Layer("bernoulli", 2)).enumerate()
        tensor([[0., 0.],
                [0., 1.],
                [1., 0.],
                [1., 1.]])
    """

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, *layers: Layer) -> LatentSpace:
        """Make the space of these layers."""
        return cls(tuple(layers))

    def __post_init__(self) -> None:
        if not self.layers:
            raise UsageError("a latent space needs at least one layer")

    def __str__(self) -> str:
        return " + ".join(map(str, self.layers))

    @cached_property
    def width(self) -> int:
        """The length of a state vector."""
        return sum(layer.width for layer in self.layers)

    @cached_property
    def variables(self) -> int:
        """The number of random variables, and of the uniforms that draw a state."""
        return sum(layer.variables for layer in self.layers)

    @cached_property
    def packed_bytes(self) -> int:
        """The size of a state in the cache, in bytes."""
        return sum(layer.packed_bytes for layer in self.layers)

    @cached_property
    def states(self) -> float:
        """The number of states, infinite if a layer is continuous."""
        product = 1.0
        for layer in self.layers:
            product *= layer.states
        return product

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The part of a state vector that belongs to each layer."""
        return _consecutive(layer.width for layer in self.layers)

    @cached_property
    def noise_slices(self) -> tuple[slice, ...]:
        """The uniforms that draw each layer."""
        return _consecutive(layer.variables for layer in self.layers)

    @cached_property
    def _packed_slices(self) -> tuple[slice, ...]:
        return _consecutive(layer.packed_bytes for layer in self.layers)

    def contains(self, h: Float[Tensor, "*batch width"]) -> bool:
        """Return whether these are states of this space."""
        return h.shape[-1] == self.width and all(
            layer.contains(h[..., where]) for layer, where in zip(self.layers, self.slices, strict=True)
        )

    def refuse_wrong_known(self, known: Float[Tensor, "*batch width"]) -> None:
        """Refuse known values that are not part of a state of this space; NaN marks an unknown value."""
        if known.shape[-1] != self.width:
            raise UsageError(
                f"known states have the width of a state, {self.width}, with NaN for what is not known; not "
                f"{known.shape[-1]}"
            )
        for layer, where in zip(self.layers, self.slices, strict=True):
            layer.refuse_wrong_known(known[..., where])

    def pack(self, h: Float[Tensor, "*batch width"]) -> UInt8[Tensor, "*batch bytes"]:
        """Return the compact form that the cache stores."""
        parts = [layer.pack(h[..., where]) for layer, where in zip(self.layers, self.slices, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def unpack(
        self, stored: UInt8[Tensor, "*batch bytes"], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "*batch width"]:
        """Return the states from their compact form."""
        pairs = zip(self.layers, self._packed_slices, strict=True)
        parts = [layer.unpack(stored[..., where], dtype) for layer, where in pairs]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def enumerate(
        self, dtype: torch.dtype = torch.float32, device: torch.device | None = None
    ) -> Float[Tensor, "states width"]:
        """Return every state of a small discrete space, one per row."""
        if self.states > ENUMERATION_LIMIT:
            continuous = any(layer.kind == "gaussian" for layer in self.layers)
            count = "infinitely many" if continuous else f"{self.states:.3g}"
            raise UsageError(
                f"this latent space has {count} states, too many to enumerate (the limit is {ENUMERATION_LIMIT}): use "
                "fewer latents, or estimate likelihoods by importance sampling and gradients by jsa, rloo or vimco"
            )
        rows = itertools.product(*(tuple(layer.enumerate()) for layer in self.layers))
        flat = [tuple(itertools.chain.from_iterable(row)) for row in rows]
        return torch.tensor(flat, dtype=dtype, device=device)


def _consecutive(lengths: Iterable[int]) -> tuple[slice, ...]:
    bounds = [0, *itertools.accumulate(lengths)]
    return tuple(slice(start, stop) for start, stop in itertools.pairwise(bounds))


def _places(device: torch.device) -> Tensor:
    """Return the positions of the eight bits of a byte, lowest first."""
    return torch.arange(8, dtype=torch.uint8, device=device)
