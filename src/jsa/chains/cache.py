"""The cache of chains as estimators see it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from jsa.batch import Batch
from jsa.chains.database import FILE_NAME, DatabaseStorage
from jsa.chains.storage import MemoryStorage, Storage, check_description, description, processes
from jsa.errors import CheckpointError, UsageError, check_at_least, shortened
from jsa.latent import LatentSpace
from jsa.model import Posterior

FORMAT = 2
BELONGS_TO = "belongs_to"
"""The entry of a ``state_dict`` that says whose chains these are: JSON as bytes."""


class ChainCache:
    """One persistent state for each row, keyed by the row's global number.

    A state takes a bit for a Bernoulli variable, a byte for a categorical one and a float32 for a continuous one. With
    it goes the time of the chain's last move, counted in visits of any row by any of the processes that train together;
    zero means that it was never visited.

    ``state_dict`` and ``load_state_dict`` save and load the chains. An estimator calls them, so that its own
    ``state_dict`` holds the chains that are in memory, and tells which ones belong to it if they are on disk.

    Args:
        latent: What a state is made of.
        rows: The number of rows of the training data.
        folder: Where to keep the chains on disk; without it they are kept in memory.
        device: Where to keep chains that are in memory; with the module that owns them where not given.

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
        self, latent: LatentSpace, rows: int, folder: Path | str | None = None, device: torch.device | str | None = None
    ) -> None:
        check_at_least(1, rows=rows)
        self.latent = latent
        self.rows = rows
        self._stays = device is not None
        self._storage: Storage
        if folder is None:
            self._storage = MemoryStorage(rows, latent.packed_bytes, device or "cpu")
        else:
            if torch.device(device or "cpu").type != "cpu":
                raise UsageError("chains on disk are read on the CPU: leave out the device or the folder")
            self._storage = DatabaseStorage(Path(folder) / FILE_NAME, latent, rows)
        self._checked = False

    @property
    def visits(self) -> int:
        """The number of visits so far, by all processes that train together; repeated rows count again."""
        return self._storage.visits

    @property
    def passes(self) -> float:
        """The number of passes through the data so far: as many visits as there are rows, whatever the order."""
        return self.visits / self.rows

    @property
    def bytes_per_row(self) -> int:
        """The size of a chain: its state, the time of its last move and, on disk, its checksum."""
        return self._storage.bytes_per_row

    @property
    def visited_rows(self) -> int:
        """The number of rows that have a chain; this reads the whole cache."""
        return sum(len(rows) for rows, _ in self._storage.visited())

    def read(
        self, index: Int64[Tensor, " batch"], dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "batch width"], Bool[Tensor, " batch"]]:
        """Return the states of these rows, and which of the rows were ever visited."""
        states, times = self._storage.read(index.cpu())
        return self.latent.unpack(states, dtype), times > 0

    @torch.no_grad()
    def initial_states(self, batch: Batch, posterior: Posterior) -> Float[Tensor, "batch width"]:
        """Return where the chains of a batch stand; a row that was never visited starts from a draw of q."""
        index = batch.row_numbers.cpu()
        cached, visited = (part.to(batch.x.device) for part in self.read(index, batch.state_dtype))
        # What became known since the last visit.
        cached = batch.completed(cached)
        if self._storage.has_all(index):
            return cached
        return torch.where(visited.unsqueeze(-1), cached, posterior.sample((1,))[0])

    def write(
        self, index: Int64[Tensor, " batch"], h: Float[Tensor, "batch width"], moved: Bool[Tensor, " batch"]
    ) -> None:
        """Store where the chains of these rows stand after a step, and which of them moved in it.

        A row that occurs twice in the batch (random scan) keeps the last of its states.
        """
        self._check(h)
        index = index.cpu()
        _, together = processes()
        visits = self.visits + together * index.shape[0]
        # Most batches repeat no row, and a set finds that out in less time than sorting takes.
        if len(set(index.tolist())) < index.shape[0]:
            kept = _last_places(index)
            index = index.index_select(0, kept)
            h, moved = (part.index_select(0, kept.to(part.device)) for part in (h, moved))
        _, times = self._storage.read(index)
        now = torch.where(moved.to(times.device) | (times == 0), visits, times)
        self._storage.write(index, self.latent.pack(h), now)
        self._storage.visits = visits

    def forget(self, index: Int64[Tensor, " batch"]) -> None:
        """Drop the chains of these rows: at their next visit they start anew from q."""
        self._storage.forget(index.unique().cpu())

    def to(self, device: torch.device) -> None:
        """Move chains in memory to a device, unless they were given one of their own."""
        if not self._stays and device.type != "meta":
            self._storage.to(device)

    def adopt(self, other: ChainCache) -> None:
        """Take over the chains of another cache into this new one, for data that has grown or chains that move.

        Rows keep their numbers; those appended after the old ones have no chain yet.

        Example:
            >>> from jsa import Layer
            >>> space = LatentSpace.of(Layer("bernoulli", 200))
            >>> before, grown = ChainCache(space, rows=100), ChainCache(space, rows=150)
            >>> before.write(torch.arange(100), torch.ones(100, 200), moved=torch.ones(100, dtype=torch.bool))
            >>> grown.adopt(before)
            >>> grown.visited_rows, grown.rows
            (100, 150)
        """
        if self.visits or other.latent != self.latent or other.rows > self.rows:
            raise UsageError(
                "chains are adopted by a new cache for the same latent space, with as many rows or more: make one for "
                f"{', '.join(map(str, other.latent.layers))} with {other.rows} rows or more"
            )
        for rows, times in other._storage.visited():
            states, _ = other._storage.read(rows)
            self._storage.write(rows, states, times)
        self._storage.visits = other.visits

    def __reduce__(self) -> str | tuple[object, ...]:
        """Refuse to copy chains on disk: two copies would write to the same file and mix up their chains."""
        if isinstance(self._storage, DatabaseStorage):
            raise UsageError("chains on disk cannot be copied or pickled: copy the model alone, or adopt them")
        return super().__reduce__()

    def age(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return for how many passes through the data these chains have stood still.

        A pass is as many visits as there are rows, so that the age means the same under epochs and random scan.
        """
        return self._passes(self._storage.read(index.cpu())[1])

    def ages(self) -> Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, " some"]]]:
        """Yield the rows that have a chain and their ages, some at a time; this reads the whole cache."""
        for rows, times in self._storage.visited():
            yield rows, self._passes(times)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the chains in memory, or what tells which chains on disk these are, and whose.

        The tensors are not copied: write them to a file before the next step.
        """
        content = json.dumps(self._belongs_to).encode()
        return {BELONGS_TO: torch.frombuffer(bytearray(content), dtype=torch.uint8), **self._storage.state_dict()}

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Go back to where the chains stood when ``state_dict`` returned these tensors.

        Chains of another latent space, of other rows or of another process are refused, and chains on disk that have
        gone too far since then.
        """
        self._check_owner(saved.get(BELONGS_TO))
        self._storage.load_state_dict({name: tensor for name, tensor in saved.items() if name != BELONGS_TO})

    def commit(self) -> None:
        """Make chains on disk permanent as they are now: in a loop of your own that saves no ``state_dict``."""
        self._storage.commit()

    def _check(self, h: Tensor) -> None:
        """Refuse what is not a state and would be packed into another: by its width always, by its values once."""
        if h.shape[-1] != self.latent.width or not (self._checked or self.latent.contains(h)):
            raise UsageError(
                f"chains of {', '.join(map(str, self.latent.layers))} cannot hold these states of width {h.shape[-1]}: "
                f"bits are 0 or 1, classes are one-hot, and the width is {self.latent.width}"
            )
        self._checked = True

    @property
    def _belongs_to(self) -> dict[str, object]:
        rank, together = processes()
        return {**description(self.latent, self.rows, FORMAT), "process": f"{rank} of {together}"}

    def _check_owner(self, said: Tensor | None) -> None:
        """Refuse saved chains that are not those of this cache."""
        try:
            found = None if said is None else json.loads(said.cpu().numpy().tobytes())
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or "process" not in found:
            raise CheckpointError("the saved chains do not say whose they are: use another copy")
        expected = self._belongs_to
        check_description("in this state", found, {**expected, "process": found["process"]})
        if found["process"] != expected["process"]:
            raise CheckpointError(
                f"the chains in this state are those of process {shortened(found['process'])}, this is process "
                f"{expected['process']}: save and load the state of each process by itself, or load the weights alone "
                "with learner.model.load_state_dict"
            )

    def _passes(self, times: Tensor) -> Tensor:
        return (self.visits - times).to(torch.float32) / self.rows


def _last_places(index: Tensor) -> Tensor:
    """Return the positions of the batch to store: for a row that occurs twice, the last one."""
    ordered, position = index.sort(stable=True)
    last = torch.ones_like(ordered, dtype=torch.bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return position[last]
