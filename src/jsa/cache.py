"""The chains: one latent state for each row of the training data, in compact form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from jsa.errors import CheckpointError, UsageError
from jsa.files import replacing, write_text
from jsa.latent import LatentSpace

FORMAT = 1


class ChainCache:
    """The persistent state of one chain a row, keyed by the row's global number.

    A state takes a bit for a Bernoulli variable, a byte for a categorical one and a float32 for a continuous one.
    Beside it stands the number of the step at which the chain last moved; zero says that it was never visited.
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
        29
    """

    def __init__(
        self, latent: LatentSpace, rows: int, folder: Path | None = None, device: torch.device | str = "cpu"
    ) -> None:
        if rows < 1:
            raise UsageError(f"a cache needs at least one row, not {rows}")
        self.latent = latent
        self.rows = rows
        self.step = 0
        self._states: Tensor
        self._moved_at: Tensor
        if folder is None:
            self._states = torch.zeros(rows, latent.packed_bytes, dtype=torch.uint8, device=device)
            self._moved_at = torch.zeros(rows, dtype=torch.int32, device=device)
        else:
            if torch.device(device).type != "cpu":
                raise UsageError("memory-mapped chains are on the CPU: leave out the device or the folder")
            self._states, self._moved_at = _map(folder, latent, rows)

    @property
    def bytes_per_row(self) -> int:
        """The size of a chain: its state and the step of its last move."""
        return self.latent.packed_bytes + 4

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
        self.step += 1
        kept = _last_places(index)
        where = self._local(index.index_select(0, kept))
        states = self.latent.pack(h.index_select(0, kept)).to(self._states.device)
        moved = moved.index_select(0, kept).to(self._moved_at.device)
        before = self._moved_at.index_select(0, where)
        self._states.index_copy_(0, where, states)
        stamped = torch.where(moved | (before == 0), self.step, before).to(torch.int32)
        self._moved_at.index_copy_(0, where, stamped)

    def age(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """For how many passes through the data these chains have stood still.

        A pass is as many visits as there are rows, so that the age means the same under epochs and random scan.
        """
        still = self.step - self._moved_at.index_select(0, self._local(index))
        return still.to(index.device, torch.float32) * (index.shape[0] / self.rows)

    def save(self, path: Path) -> None:
        """Writes the chains to one safetensors file, whole or not at all."""
        metadata = _description(self.latent, self.rows) | {"step": str(self.step)}
        tensors = {"states": self._states.contiguous(), "moved_at": self._moved_at.contiguous()}
        with replacing(path) as temporary:
            save_file(tensors, temporary, metadata=metadata)

    def load(self, path: Path) -> None:
        """Reads chains that ``save`` wrote for the same latent space and number of rows."""
        if not path.is_file():
            raise CheckpointError(f"there are no chains at {path}")
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                _check(path, metadata, self.latent, self.rows)
                states, moved_at = file.get_tensor("states"), file.get_tensor("moved_at")
        except SafetensorError as error:
            raise CheckpointError(f"{path} is damaged ({error}): delete it and start the chains anew") from error
        if states.shape != self._states.shape or moved_at.shape != self._moved_at.shape:
            raise CheckpointError(f"{path} is damaged (wrong shapes): delete it and start the chains anew")
        self._states.copy_(states)
        self._moved_at.copy_(moved_at)
        self.step = int(metadata.get("step", "0"))

    def _local(self, index: Tensor) -> Tensor:
        if index.numel() and (int(index.max()) >= self.rows or int(index.min()) < 0):
            raise UsageError(
                f"a batch has row number {int(index.max())}, but the cache was made for {self.rows} rows: "
                "give it the length of the training data, and number the rows from 0"
            )
        return index.to(self._states.device)


def _last_places(index: Tensor) -> Tensor:
    """The positions of the batch to store: for a row that occurs twice, the last one."""
    ordered, position = index.sort(stable=True)
    last = torch.ones_like(ordered, dtype=torch.bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return position[last]


def _description(latent: LatentSpace, rows: int) -> dict[str, str]:
    layers = [[layer.kind, layer.variables, layer.classes] for layer in latent.layers]
    return {"format": str(FORMAT), "rows": str(rows), "layers": json.dumps(layers)}


def _check(path: Path, found: dict[str, str], latent: LatentSpace, rows: int) -> None:
    for key, expected in _description(latent, rows).items():
        if found.get(key) != expected:
            raise CheckpointError(
                f"the chains at {path} are for {key} {found.get(key, 'unknown')}, this run has {expected}: "
                "they belong to another model, dataset or version"
            )


def _map(folder: Path, latent: LatentSpace, rows: int) -> tuple[Tensor, Tensor]:
    """The two arrays of a memory-mapped cache; a new one is sparse, so that it costs only what is visited."""
    folder.mkdir(parents=True, exist_ok=True)
    description = folder / "chains.json"
    sizes = {folder / "states.bin": rows * latent.packed_bytes, folder / "moved_at.bin": rows * 4}
    if description.exists():
        _check(folder, json.loads(description.read_text(encoding="utf-8")), latent, rows)
    else:
        for path, size in sizes.items():
            with path.open("wb") as file:
                file.truncate(size)
        write_text(description, json.dumps(_description(latent, rows)))
    for path, size in sizes.items():
        if not path.is_file() or path.stat().st_size != size:
            raise CheckpointError(f"{path} is missing or damaged: delete {folder} and start the chains anew")
    states_path, moved_path = sizes
    states = np.memmap(states_path, np.uint8, "r+", shape=(rows, latent.packed_bytes))
    moved_at = np.memmap(moved_path, np.int32, "r+", shape=(rows,))
    return torch.from_numpy(states), torch.from_numpy(moved_at)
