"""The cache of chains as estimators see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from jsa.chains.mapped import MappedStorage
from jsa.chains.storage import MemoryStorage, Storage, check_description, description
from jsa.errors import CheckpointError, UsageError, check_at_least
from jsa.io.tensor_files import load_tensors, save_tensors
from jsa.latent import LatentSpace

FORMAT = 1


class _Standing(NamedTuple):
    """The visits at some moment, and where the chains of some rows stood then."""

    visits: int
    rows: Tensor
    states: Tensor
    times: Tensor


class ChainCache:
    """The persistent state of one chain a row, keyed by the row's global number.

    A state takes a bit for a Bernoulli variable, a byte for a categorical one and a float32 for a continuous one.
    Beside it stands when the chain last moved, counted in visits of any row; zero says that it was never visited.
    The cache is no part of any ``state_dict``. Save it with ``save``; or, beside a state file of your own, put into
    that file what ``checkpoint`` gives, call ``committed`` when the file is in its place, and give the same tensors
    to ``restore`` when a run goes on.

    Memory-mapped chains hold what is written in memory until a checkpoint commits: in a loop of your own, call
    ``flush`` from time to time.

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
        self, latent: LatentSpace, rows: int, folder: Path | str | None = None, device: torch.device | str = "cpu"
    ) -> None:
        check_at_least(1, rows=rows)
        self.latent = latent
        self.rows = rows
        self._storage: Storage
        if folder is None:
            self._storage = MemoryStorage(rows, latent.packed_bytes, device)
        else:
            if torch.device(device).type != "cpu":
                raise UsageError("memory-mapped chains are on the CPU: leave out the device or the folder")
            self._storage = MappedStorage(Path(folder), latent, rows)
        self._before: _Standing | None = None
        self._checked = False

    @property
    def visits(self) -> int:
        """How many visits of rows were written, repeated ones included."""
        return self._storage.visits

    @property
    def bytes_per_row(self) -> int:
        """The size of a chain: its state, the time of its last move and, where memory-mapped, its checksum."""
        return self._storage.bytes_per_row

    @property
    def visited_rows(self) -> int:
        """How many rows have a chain; this reads the whole cache."""
        return sum(len(rows) for rows, _ in self._storage.visited())

    def read(
        self, index: Int64[Tensor, " batch"], dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "batch width"], Bool[Tensor, " batch"]]:
        """The states of these rows, and which of the rows have ever been visited."""
        states, times = self._storage.gather(index)
        return self.latent.unpack(states.to(index.device), dtype), (times > 0).to(index.device)

    def write(
        self, index: Int64[Tensor, " batch"], h: Float[Tensor, "batch width"], moved: Bool[Tensor, " batch"]
    ) -> None:
        """Stores where the chains of these rows stand after a step, and which of them moved in it.

        A row that stands twice in the batch (random scan) keeps the state of its last place.
        """
        self._check(h)
        visits = self.visits + index.shape[0]
        # Most batches repeat no row, and a set finds that out in less time than sorting takes.
        if len(set(index.tolist())) < index.shape[0]:
            kept = _last_places(index)
            index, h, moved = index.index_select(0, kept), h.index_select(0, kept), moved.index_select(0, kept)
        before = self._standing(index)
        times = before.times
        now = torch.where(moved.to(times.device) | (times == 0), visits, times)
        self._storage.scatter(index, self.latent.pack(h), now)
        self._storage.visits = visits
        self._before = before

    def undo(self, visits: int) -> None:
        """Takes the last write back, for a step that is refused after its chains were stored.

        Args:
            visits: What ``visits`` was before the step. Nothing happens where nothing was written since.
        """
        if visits == self.visits:
            return
        if self._before is None or self._before.visits != visits:
            raise UsageError("only the last write can be taken back, before a checkpoint: undo a step at once")
        self._put_back(self._before)

    @contextmanager
    def held(self, index: Int64[Tensor, " batch"]) -> Iterator[None]:
        """Within it the chains of these rows may be moved, to measure something; then they stand where they stood."""
        before = self._standing(index.unique())
        try:
            yield
        finally:
            self._put_back(before)

    def forget(self, index: Int64[Tensor, " batch"]) -> None:
        """Ends the chains of these rows: at their next visit they start anew from q."""
        index = index.unique()
        states, times = self._storage.gather(index)
        self._storage.scatter(index, torch.zeros_like(states), torch.zeros_like(times))
        self._before = None

    def adopt(self, other: ChainCache) -> None:
        """Takes the chains of another cache over into this new one: when the data has grown, or chains move house.

        Rows keep their numbers; those that came behind the old ones have no chain yet.

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
            states, _ = other._storage.gather(rows)
            self._storage.scatter(rows, states, times)
        self._storage.visits = other.visits

    def __reduce__(self) -> str | tuple[object, ...]:
        """Chains in files cannot be copied with an object, for two that write to the same files would mix them up."""
        if isinstance(self._storage, MappedStorage):
            raise UsageError("memory-mapped chains cannot be copied or pickled: copy the model alone, or adopt them")
        return super().__reduce__()

    def age(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """For how many passes through the data these chains have stood still.

        A pass is as many visits as there are rows, so that the age means the same under epochs and random scan.
        """
        return self._passes(self._storage.times(index).to(index.device))

    def ages(self) -> Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, " some"]]]:
        """The rows that have a chain and their ages, some at a time; this reads the whole cache."""
        for rows, times in self._storage.visited():
            yield rows, self._passes(times)

    def checkpoint(self) -> dict[str, Tensor]:
        """What a state file must hold of the chains: all of them, or a few numbers where they are memory-mapped.

        Memory-mapped chains write the rows touched since the last checkpoint to a journal, at a cost in proportion to
        them. The tensors are not copied: write them to the file before the next step.
        """
        self._before = None
        return self._storage.checkpoint()

    def committed(self) -> None:
        """To be called when the state file that holds the last ``checkpoint`` is in its place, before any write."""
        self._storage.committed()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Puts the chains back to where they stood when ``checkpoint`` gave these tensors.

        For memory-mapped chains that is the last checkpoint whose state file was put in its place, whether or not
        ``committed`` was reached or came to its end.
        """
        self._storage.restore(tensors)
        self._before = None

    def flush(self) -> None:
        """A checkpoint of memory-mapped chains that needs no state file; chains in memory have no use for it.

        Do not use it between the checkpoints of a state file: that file would then be older than the chains.
        """
        self.checkpoint()
        self.committed()

    def save(self, path: Path | str) -> None:
        """Writes the chains to one safetensors file, whole or not at all."""
        save_tensors(Path(path), self._storage.tensors(), self._description)

    def load(self, path: Path | str) -> None:
        """Reads chains that ``save`` wrote for the same latent space and number of rows."""
        path = Path(path)
        if not path.is_file():
            raise CheckpointError(f"there are no chains at {path}")
        found, notes = load_tensors(path)
        check_description(path, notes, self._description)
        try:
            self._storage.fill(found)
        except CheckpointError as error:
            raise CheckpointError(f"{path} is damaged ({error}): delete it and start the chains anew") from error
        self._before = None

    def _check(self, h: Tensor) -> None:
        """Refuses what is no state, which would be packed to some other one: by its width, and once by its values."""
        if h.shape[-1] != self.latent.width or not (self._checked or self.latent.contains(h)):
            raise UsageError(
                f"chains of {', '.join(map(str, self.latent.layers))} cannot hold these states of width {h.shape[-1]}: "
                f"bits are 0 or 1, classes are one-hot, and the width is {self.latent.width}"
            )
        self._checked = True

    def _standing(self, index: Tensor) -> _Standing:
        return _Standing(self.visits, index, *self._storage.gather(index))

    def _put_back(self, standing: _Standing) -> None:
        self._storage.scatter(standing.rows, standing.states, standing.times)
        self._storage.visits = standing.visits
        self._before = None

    @property
    def _description(self) -> dict[str, object]:
        return description(self.latent, self.rows, FORMAT)

    def _passes(self, times: Tensor) -> Tensor:
        return (self.visits - times).to(torch.float32) / self.rows


def _last_places(index: Tensor) -> Tensor:
    """The positions of the batch to store: for a row that occurs twice, the last one."""
    ordered, position = index.sort(stable=True)
    last = torch.ones_like(ordered, dtype=torch.bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return position[last]
