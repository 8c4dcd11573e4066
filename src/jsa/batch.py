"""Batches of data and the estimates made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64, Num
from torch import Tensor
from torch.utils.data import default_collate

from jsa.errors import UsageError

HALVES = (torch.float16, torch.bfloat16)
"""Half precisions: enough for the products of a network, not for draws and for sums of log-probabilities."""


def completed(
    h: Float[Tensor, "*samples batch width"], known: Float[Tensor, "batch said"] | None
) -> Float[Tensor, "*samples batch width"]:
    """Put known values into states, or into one layer of them; NaN marks an unknown value."""
    return h if known is None else torch.where(known.isnan(), h, known.to(h.dtype))


class RowNumber(int):
    """The number of a row, as ``numbered`` gives it."""


def weighted(
    values: Float[Tensor, "*samples batch"], weight: Float[Tensor, " batch"] | None
) -> Float[Tensor, "*samples batch"]:
    """Multiply values by the weights of their rows.

    A negative weight, which ``check_weights`` finds on the CPU only, makes the values of its row NaN.

    >>> weighted(torch.tensor([[2.0, 3.0], [4.0, 5.0]]), torch.tensor([1.5, 0.0]))
    tensor([[3., 0.],
            [6., 0.]])
    """
    return values if weight is None else values * weight.where(weight >= 0, torch.nan).to(values.dtype)


def check_weights(weight: Tensor, rows: int, numbers: Int64[Tensor, " batch"] | None = None) -> None:
    """Refuse weights that are not one number per row, or are negative or not finite.

    The values are looked at on the CPU only: elsewhere the program would have to wait for the device.

    Args:
        weight: The weights.
        rows: The number of rows.
        numbers: The numbers of the rows, for the sentence; by default their positions.
    """
    if not weight.is_floating_point() or weight.shape != (rows,):
        raise UsageError(
            f"{rows} rows need one weight per row, as a floating-point tensor of one dimension, not "
            f"{weight.dtype} of shape {tuple(weight.shape)}"
        )
    if weight.device.type == "cpu" and bool((wrong := ~((weight >= 0) & (weight < torch.inf))).any()):
        first = int(wrong.nonzero()[0])
        raise UsageError(
            f"row {first if numbers is None else int(numbers[first])} has weight {float(weight[first])}: give a finite "
            "number that is not negative, and 0 to leave the row out"
        )


@dataclass(frozen=True)
class Batch:
    """Some rows of a dataset, each with its row number.

    Attributes:
        x: The observations. The models of this library take floating-point vectors, in which categorical variables are
            one-hot, side by side. Your own model may take others, such as images with several channels, or integers for
            an embedding. NaN marks a missing value; a model must support it, as those of this library do if they are
            made with ``missing=True``.
        index: The global row number of each row, under which its chain is stored, whatever the order of visits. Only
            training steps of methods with chains need it.
        context: The context of conditional models p(x, h | context), also of any shape.
        known: The known part of each row's latent state, such as a label; NaN marks an unknown value. Known values are
            not drawn: the model learns p(x, known). See docs/how-to/known-latents.md.
        weight: How much each row counts in the loss, 0 or more; None if all count alike. The weights should have mean 1
            over the training rows. See docs/how-to/weighted-rows.md.
        gaps: Whether values of x may be missing. If None, models that support missing values look at x, for which the
            program waits for its device.

    Example:
        >>> import torch
        >>> batch = Batch(x=torch.eye(3), index=torch.arange(3))
        >>> batch.take(torch.tensor([2, 2])).index
        tensor([2, 2])
    """

    x: Num[Tensor, "batch *observed"]
    index: Int64[Tensor, " batch"] | None = None
    context: Num[Tensor, "batch *context"] | None = None
    known: Float[Tensor, "batch width"] | None = None
    weight: Float[Tensor, " batch"] | None = None
    gaps: bool | None = None

    def __post_init__(self) -> None:
        for name in ("x", "index", "context", "known", "weight"):
            part = getattr(self, name)
            if part is not None and not isinstance(part, Tensor):
                raise UsageError(f"{name} of a batch must be a tensor, not {type(part).__name__}: use torch.as_tensor")
        if self.index is not None and (self.index.dtype != torch.int64 or self.index.shape != self.x.shape[:1]):
            raise UsageError(
                f"a batch of {len(self)} rows needs one row number per row, as an int64 tensor of one dimension, not "
                f"{self.index.dtype} of shape {tuple(self.index.shape)}"
            )
        for name, beside in (("a context", self.context), ("known states", self.known)):
            if beside is not None and len(beside) != len(self):
                raise UsageError(f"a batch of {len(self)} rows has {name} of {len(beside)} rows: give one per row")
        if self.known is not None and not self.known.is_floating_point():
            raise UsageError(
                f"known states must be floating point, with NaN for unknown values, not {self.known.dtype}"
            )
        if self.weight is not None:
            check_weights(self.weight, len(self), self.index)

    def __len__(self) -> int:
        return self.x.shape[0]

    @classmethod
    def collate(cls, items: Sequence[Sequence[object]]) -> Batch:
        """Make a batch of numbered items: x is their first part and the row number their last.

        What lies between, such as a label, is left out. It is the ``collate_fn`` of a DataLoader over
        ``jsa.numbered(dataset)``.
        """
        # A label may be a whole number, too: only a number that ``numbered`` gave is a row's.
        if not all(isinstance(item, (tuple, list)) and isinstance(item[-1], RowNumber) for item in items):
            raise UsageError("these items do not end with a row number: load jsa.numbered(dataset)")
        return cls(default_collate([item[0] for item in items]), torch.tensor([item[-1] for item in items]))

    @property
    def row_numbers(self) -> Int64[Tensor, " batch"]:
        """The global row numbers; a batch without them is refused."""
        if self.index is None:
            raise UsageError(
                "this batch has no row numbers, which tell each row's chain: pass Batch(x, row_numbers), or load the "
                "data through jsa.numbered(dataset) and Batch.collate"
            )
        return self.index

    def row(self, position: int) -> int:
        """Return the number of the row at a position of the batch, or the position if the rows have no numbers."""
        return position if self.index is None else int(self.index[position])

    @property
    def state_dtype(self) -> torch.dtype:
        """The precision of states that are not drawn: that of x, but at least single."""
        return torch.promote_types(self.x.dtype, torch.float32) if self.x.is_floating_point() else torch.float32

    @property
    def inputs(self) -> Float[Tensor, "batch inputs"]:
        """The observation and context of each row as one vector, with 0 for missing values: the input of a baseline."""
        seen = [
            part.flatten(1) if part.ndim > 1 else part.unsqueeze(1)
            for part in (self.x, self.context)
            if part is not None
        ]
        inputs = (seen[0] if len(seen) == 1 else torch.cat(seen, dim=-1)).to(self.state_dtype)
        return inputs.nan_to_num(0.0, torch.inf, -torch.inf)

    def to(self, device: torch.device | str | None) -> Batch:
        """Move the rows to a device; their numbers stay on the CPU, where chains are looked up without waiting."""
        parts = (self.context, self.known, self.weight)
        context, known, weight = (None if part is None else part.to(device) for part in parts)
        return Batch(self.x.to(device), self.index, context, known, weight, self.gaps)

    def pin_memory(self) -> Batch:
        """Return the rows in memory from which a GPU copies faster; a DataLoader with ``pin_memory`` calls this."""
        parts = {name: getattr(self, name) for name in ("x", "context", "known", "weight")}
        return replace(self, **{name: part.pin_memory() for name, part in parts.items() if part is not None})

    def take(self, rows: Int64[Tensor, " taken"]) -> Batch:
        """Return the rows at these positions of the batch; repeated positions give repeated rows."""
        index = None if self.index is None else self.index.index_select(0, rows.to(self.index.device))
        rows = rows.to(self.x.device)
        parts = (self.context, self.known, self.weight)
        context, known, weight = (None if part is None else part.index_select(0, rows) for part in parts)
        x = self.x.index_select(0, rows)
        return TakenBatch(x, index, context, known, weight, self.gaps, source=self, rows=rows)

    def mean(self, values: Float[Tensor, "*samples batch"]) -> Float[Tensor, ""]:
        """Return the sum of weight times value over samples and rows, divided by their number: the form of every loss.

        Example:
            >>> batch = Batch(torch.eye(2), torch.arange(2), weight=torch.tensor([1.5, 0.5]))
            >>> batch.mean(torch.tensor([2.0, 4.0]))
            tensor(2.5000)
        """
        return weighted(values, self.weight).mean()

    def with_nothing_known(self) -> Batch:
        """Return the same rows without their known latent variables."""
        return self if self.known is None else replace(self, known=None)

    def agrees(self, h: Float[Tensor, "*samples batch width"]) -> Bool[Tensor, "*samples batch"]:
        """Return which states, relaxed or not, agree with the known values of their row.

        Example:
            >>> import torch
            >>> batch = Batch(torch.zeros(2, 5), torch.arange(2), known=torch.tensor([[torch.nan, 1.0], [0.0, 0.0]]))
            >>> batch.agrees(torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
            tensor([ True, False])
        """
        if self.known is None:
            return torch.ones(h.shape[:-1], dtype=torch.bool, device=h.device)
        # A comparison with NaN is false.
        return ~((h.detach() - self.known).abs() > 0.5).any(-1)

    def completed(self, h: Float[Tensor, "*samples batch width"]) -> Float[Tensor, "*samples batch width"]:
        """Put the known values of the rows into states."""
        return completed(h, self.known)

    def for_each_row(self, function: Callable[[Batch], Tensor]) -> Float[Tensor, "batch *result"]:
        """Apply a function of single rows, such as a network of the context, once per row however often it is taken.

        Example:
            >>> import torch
            >>> batch = Batch(x=torch.eye(3), index=torch.arange(3))
            >>> batch.take(torch.tensor([2, 2])).for_each_row(lambda rows: rows.x.sum(-1) + len(rows))
            tensor([4., 4.])
        """
        return function(self)


@dataclass(frozen=True, kw_only=True)
class TakenBatch(Batch):
    """Rows taken from another batch, possibly more than once.

    Attributes:
        source: The other batch.
        rows: The positions of the rows in it.
    """

    source: Batch
    rows: Int64[Tensor, " batch"]

    def __post_init__(self) -> None:
        """Skip the checks: the source was checked, and rows are taken at every step."""

    def with_nothing_known(self) -> Batch:
        return self if self.known is None else replace(self, known=None, source=self.source.with_nothing_known())

    def for_each_row(self, function: Callable[[Batch], Tensor]) -> Tensor:
        return self.source.for_each_row(function).index_select(0, self.rows)


@dataclass(frozen=True)
class Estimate:
    """The result of an estimator for a batch.

    Attributes:
        loss: A surrogate to minimize. Only its gradient is meaningful.
        objective: The batch mean of the bound on log p(x) from these draws, by the weights of the rows if they have
            any, for monitoring, without gradient.
        log_weights: log p(x, h) - log q(h | x) of the states drawn, without gradient.
        diagnostics: Scalars about this step, such as the acceptance rate of the chains. All rows count alike in them.
    """

    loss: Float[Tensor, ""]
    objective: Float[Tensor, ""]
    log_weights: Float[Tensor, "samples batch"]
    diagnostics: Mapping[str, Float[Tensor, ""]]
