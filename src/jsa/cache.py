"""The chains: one latent state for each row of the training data, in compact form."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from jsa.errors import CheckpointError, UsageError
from jsa.files import write_text
from jsa.latent import LatentSpace
from jsa.tensors import load_tensors, save_tensors

FORMAT = 1


class ChainCache:
    """The persistent state of one chain a row, keyed by the row's global number.

    A state takes a bit for a Bernoulli variable, a byte for a categorical one and a float32 for a continuous one.
    Beside it stands when the chain last moved, counted in visits of any row; zero says that it was never visited.
    The cache is no part of any ``state_dict``: save it with ``save``.

    Args:
        latent: What a state is made of.
        rows: The number of rows of the training data.
        folder: Where to keep the chains memory-mapped; they are held in memory where this is not given.
        device: Where to hold chains that are in memory.

    Example:
        >>> from jsa import Layer
        >>> space = LatentSpace.of(Layer("bernoulli", 200))
        >>> cache = ChainCache(space, rows=60_000)
        >>> rows = torch.tensor([7, 3])
        >>> cache.write(rows, torch.ones(2, 200), moved=torch.tensor([True, True]))
        >>> state, visited = cache.read(torch.tensor([3, 4]))
        >>> state[0].sum(), visited
        (tensor(200.), tensor([ True, False]))
        >>> cache.bytes_per_row
        33
    """

    def __init__(
        self, latent: LatentSpace, rows: int, folder: Path | None = None, device: torch.device | str = "cpu"
    ) -> None:
        if rows < 1:
            raise UsageError(f"a cache needs at least one row, not {rows}")
        self.latent = latent
        self.rows = rows
        self._states: Tensor
        self._moved_at: Tensor
        self._clock: Tensor
        if folder is None:
            self._states = torch.zeros(rows, latent.packed_bytes, dtype=torch.uint8, device=device)
            self._moved_at = torch.zeros(rows, dtype=torch.int64, device=device)
            self._clock = torch.zeros(1, dtype=torch.int64)
        else:
            if torch.device(device).type != "cpu":
                raise UsageError("memory-mapped chains are on the CPU: leave out the device or the folder")
            self._states, self._moved_at, self._clock = _map(folder, latent, rows)

    @property
    def visits(self) -> int:
        """How many visits of rows were written, repeated ones included."""
        return int(self._clock)

    @property
    def bytes_per_row(self) -> int:
        """The size of a chain: its state and the time of its last move."""
        return self.latent.packed_bytes + self._moved_at.itemsize

    @property
    def visited_rows(self) -> int:
        """How many rows have a chain; this reads the whole cache."""
        return int((self._moved_at > 0).sum())

    def read(
        self, index: Int64[Tensor, " batch"], dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "batch width"], Bool[Tensor, " batch"]]:
        """The states of these rows, and which of the rows have ever been visited."""
        where = self._local(index)
        stored = self._states.index_select(0, where).to(index.device)
        visited = (self._moved_at.index_select(0, where) > 0).to(index.device)
        return self.latent.unpack(stored, dtype), visited

    def write(
        self, index: Int64[Tensor, " batch"], h: Float[Tensor, "batch width"], moved: Bool[Tensor, " batch"]
    ) -> None:
        """Stores where the chains of these rows stand after a step, and which of them moved in it.

        A row that stands twice in the batch (random scan) keeps the state of its last place.
        """
        kept = _last_places(index)
        where = self._local(index.index_select(0, kept))
        states = self.latent.pack(h.index_select(0, kept)).to(self._states.device)
        moved = moved.index_select(0, kept).to(self._moved_at.device)
        before = self._moved_at.index_select(0, where)
        self._clock += index.shape[0]
        self._states.index_copy_(0, where, states)
        self._moved_at.index_copy_(0, where, torch.where(moved | (before == 0), self.visits, before))

    def age(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """For how many passes through the data these chains have stood still.

        A pass is as many visits as there are rows, so that the age means the same under epochs and random scan.
        """
        still = self.visits - self._moved_at.index_select(0, self._local(index))
        return still.to(index.device, torch.float32) / self.rows

    def save(self, path: Path) -> None:
        """Writes the chains to one safetensors file, whole or not at all."""
        save_tensors(path, self._tensors(), _description(self.latent, self.rows))

    def load(self, path: Path) -> None:
        """Reads chains that ``save`` wrote for the same latent space and number of rows."""
        if not path.is_file():
            raise CheckpointError(f"there are no chains at {path}")
        found, notes = load_tensors(path)
        _check(path, notes, self.latent, self.rows)
        for name, tensor in self._tensors().items():
            if name not in found or (found[name].shape, found[name].dtype) != (tensor.shape, tensor.dtype):
                raise _damaged(path, f"{name} is missing or of another shape or type")
        for name, tensor in self._tensors().items():
            tensor.copy_(found[name])

    def _tensors(self) -> dict[str, Tensor]:
        return {"states": self._states, "moved_at": self._moved_at, "clock": self._clock}

    def _local(self, index: Tensor) -> Tensor:
        for row in (int(index.min()), int(index.max())) if index.numel() else ():
            if not 0 <= row < self.rows:
                raise UsageError(
                    f"a batch has row number {row}, but the cache was made for {self.rows} rows: give it the length "
                    "of the training data, and number the rows from 0"
                )
        return index.to(self._states.device)


def _last_places(index: Tensor) -> Tensor:
    """The positions of the batch to store: for a row that occurs twice, the last one."""
    ordered, position = index.sort(stable=True)
    last = torch.ones_like(ordered, dtype=torch.bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return position[last]


def _description(latent: LatentSpace, rows: int) -> dict[str, object]:
    layers = [[layer.kind, layer.variables, layer.classes] for layer in latent.layers]
    return {"format": FORMAT, "rows": rows, "layers": layers}


def _check(path: Path, found: object, latent: LatentSpace, rows: int) -> None:
    for key, expected in _description(latent, rows).items():
        value = found.get(key, "unknown") if isinstance(found, dict) else "unknown"
        if value != expected:
            raise CheckpointError(
                f"the chains at {path} are for {key} {value}, this run has {expected}: "
                "they belong to another model, dataset or version"
            )


def _damaged(path: Path, what: object) -> CheckpointError:
    return CheckpointError(f"{path} is missing or damaged ({what}): delete it and start the chains anew")


def _map(folder: Path, latent: LatentSpace, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """The arrays of a memory-mapped cache; a new one is sparse, so that it costs only what is visited."""
    folder.mkdir(parents=True, exist_ok=True)
    description = folder / "chains.json"
    shapes: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
        "states.bin": (np.uint8, (rows, latent.packed_bytes)),
        "moved_at.bin": (np.int64, (rows,)),
        "clock.bin": (np.int64, (1,)),
    }
    sizes = {name: math.prod(shape) * np.dtype(kind).itemsize for name, (kind, shape) in shapes.items()}
    if description.exists():
        try:
            found = json.loads(description.read_text(encoding="utf-8"))
        except ValueError as error:
            raise _damaged(description, error) from error
        _check(folder, found, latent, rows)
    else:
        for name, size in sizes.items():
            with (folder / name).open("wb") as file:
                file.truncate(size)
        write_text(description, json.dumps(_description(latent, rows)))
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            raise _damaged(path, "its size")
    states, moved_at, clock = (
        torch.from_numpy(np.memmap(folder / name, kind, "r+", shape=shape)) for name, (kind, shape) in shapes.items()
    )
    return states, moved_at, clock
