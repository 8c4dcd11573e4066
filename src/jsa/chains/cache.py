"""The cache of chains as estimators see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from jsa.batch import Batch
from jsa.chains.mapped import MappedStorage
from jsa.chains.storage import MemoryStorage, Storage, check_description, description
from jsa.errors import CheckpointError, UsageError, check_at_least
from jsa.io.tensor_files import load_tensors, save_tensors
from jsa.latent import LatentSpace
from jsa.model import Posterior

FORMAT = 1
LARGEST_SAVE = 1 << 31
"""How many bytes of chains in files are gathered in memory to save them as one file."""


class _Standing(NamedTuple):
    """The number of visits at some moment, and where the chains of some rows stood then."""

    visits: int
    rows: Tensor
    states: Tensor
    times: Tensor


class ChainCache:
    """One persistent state for each row, keyed by the row's global number.

    A state takes a bit for a Bernoulli variable, a byte for a categorical one and a float32 for a continuous one. With
    it goes the time of the chain's last move, counted in visits of any row; zero means that it was never visited.
    The cache is not part of any module's ``state_dict``. A checkpoint is: put what its own ``state_dict`` returns into
    a state file, write that file, then ``commit`` the same tensors; ``load_state_dict`` takes them when a run resumes.

    Memory-mapped chains hold what is written in memory until it is committed: in a loop of your own without a state
    file, call ``commit()`` from time to time.

    Args:
        latent: What a state is made of.
        rows: The number of rows of the training data.
        folder: Where to keep the chains memory-mapped; without it they are kept in memory.
        device: Where to keep chains that are in memory.

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
        self._checked = False

    @property
    def visits(self) -> int:
        """The number of visits written so far, repeated rows included."""
        return self._storage.visits

    @property
    def bytes_per_row(self) -> int:
        """The size of a chain: its state, the time of its last move and, where memory-mapped, its checksum."""
        return self._storage.bytes_per_row

    @property
    def visited_rows(self) -> int:
        """The number of rows that have a chain; this reads the whole cache."""
        return sum(len(rows) for rows, _ in self._storage.visited())

    def read(
        self, index: Int64[Tensor, " batch"], dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "batch width"], Bool[Tensor, " batch"]]:
        """Return the states of these rows, and which of the rows were ever visited."""
        states, times = self._storage.read(index)
        return self.latent.unpack(states.to(index.device), dtype), (times > 0).to(index.device)

    @torch.no_grad()
    def initial_states(self, batch: Batch, posterior: Posterior) -> Float[Tensor, "batch width"]:
        """Return where the chains of a batch stand; a row that was never visited starts from a draw of q."""
        cached, visited = self.read(batch.index, batch.state_dtype)
        # What became known since the last visit.
        cached = batch.completed(cached)
        if bool(visited.all()):
            return cached
        return torch.where(visited.unsqueeze(-1), cached, posterior.sample((1,))[0])

    def write(
        self, index: Int64[Tensor, " batch"], h: Float[Tensor, "batch width"], moved: Bool[Tensor, " batch"]
    ) -> None:
        """Store where the chains of these rows stand after a step, and which of them moved in it.

        A row that occurs twice in the batch (random scan) keeps the last of its states.
        """
        self._check(h)
        visits = self.visits + index.shape[0]
        # Most batches repeat no row, and a set finds that out in less time than sorting takes.
        if len(set(index.tolist())) < index.shape[0]:
            kept = _last_places(index)
            index, h, moved = index.index_select(0, kept), h.index_select(0, kept), moved.index_select(0, kept)
        _, times = self._storage.read(index)
        now = torch.where(moved.to(times.device) | (times == 0), visits, times)
        self._storage.write(index, self.latent.pack(h), now)
        self._storage.visits = visits

    @contextmanager
    def held(self, index: Int64[Tensor, " batch"]) -> Iterator[None]:
        """Restore the chains of these rows when the block ends: inside it they may move, to measure something."""
        before = self._standing(index.unique())
        try:
            yield
        finally:
            self._put_back(before)

    def forget(self, index: Int64[Tensor, " batch"]) -> None:
        """Drop the chains of these rows: at their next visit they start anew from q."""
        index = index.unique()
        states, times = self._storage.read(index)
        self._storage.write(index, torch.zeros_like(states), torch.zeros_like(times))

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
        """Refuse to copy chains in files: two copies would write to the same files and mix up their chains."""
        if isinstance(self._storage, MappedStorage):
            raise UsageError("memory-mapped chains cannot be copied or pickled: copy the model alone, or adopt them")
        return super().__reduce__()

    def age(self, index: Int64[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return for how many passes through the data these chains have stood still.

        A pass is as many visits as there are rows, so that the age means the same under epochs and random scan.
        """
        return self._passes(self._storage.read(index)[1].to(index.device))

    def ages(self) -> Iterator[tuple[Int64[Tensor, " some"], Float[Tensor, " some"]]]:
        """Yield the rows that have a chain and their ages, some at a time; this reads the whole cache."""
        for rows, times in self._storage.visited():
            yield rows, self._passes(times)

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a state file must hold of the chains: all of them, or two numbers if they are memory-mapped.

        Memory-mapped chains stage the rows written since the last commit in a journal, at a cost in proportion to
        them. The tensors are not copied: write them to the file before the next step.
        """
        return self._storage.state_dict()

    def commit(self, saved: Mapping[str, Tensor] | None = None) -> None:
        """Make memory-mapped chains permanent as they were staged; chains in memory need nothing.

        Committing again does nothing, and what can no longer be committed is refused.

        Args:
            saved: What ``state_dict`` returned, once the state file that holds it is in place. Where there is no state
                file leave it out: the chains are then committed as they are now.
        """
        self._storage.commit(self.state_dict() if saved is None else saved)

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Go back to where the chains stood when ``state_dict`` returned these tensors.

        Memory-mapped chains can go back to the last checkpoint whose state file is in place, whether or not it was
        committed; a commit that a killed process left unfinished is finished.
        """
        self._storage.load_state_dict(saved)

    def save(self, path: Path | str) -> None:
        """Write the chains to one safetensors file, whole or not at all."""
        if isinstance(self._storage, MappedStorage) and self.rows * self.bytes_per_row > LARGEST_SAVE:
            raise UsageError(
                f"these {self.rows} chains are too many to gather in memory for one file: commit them and copy their "
                "folder instead"
            )
        whole = ChainCache(self.latent, self.rows)
        whole.adopt(self)
        save_tensors(Path(path), whole.state_dict(), self._description)

    def load(self, path: Path | str) -> None:
        """Read chains that ``save`` wrote for the same latent space and number of rows."""
        path = Path(path)
        if not path.is_file():
            raise CheckpointError(f"there are no chains at {path}")
        found, notes = load_tensors(path)
        check_description(path, notes, self._description)
        whole = ChainCache(self.latent, self.rows)
        try:
            whole.load_state_dict(found)
        except CheckpointError as error:
            raise CheckpointError(f"{path} is damaged ({error}): delete it and start the chains anew") from error
        everything = torch.arange(self.rows)
        self._put_back(_Standing(whole.visits, everything, *whole._storage.read(everything)))

    def _check(self, h: Tensor) -> None:
        """Refuse what is not a state and would be packed into another: by its width always, by its values once."""
        if h.shape[-1] != self.latent.width or not (self._checked or self.latent.contains(h)):
            raise UsageError(
                f"chains of {', '.join(map(str, self.latent.layers))} cannot hold these states of width {h.shape[-1]}: "
                f"bits are 0 or 1, classes are one-hot, and the width is {self.latent.width}"
            )
        self._checked = True

    def _standing(self, index: Tensor) -> _Standing:
        return _Standing(self.visits, index, *self._storage.read(index))

    def _put_back(self, standing: _Standing) -> None:
        self._storage.write(standing.rows, standing.states, standing.times)
        self._storage.visits = standing.visits

    @property
    def _description(self) -> dict[str, object]:
        return description(self.latent, self.rows, FORMAT)

    def _passes(self, times: Tensor) -> Tensor:
        return (self.visits - times).to(torch.float32) / self.rows


def _last_places(index: Tensor) -> Tensor:
    """Return the positions of the batch to store: for a row that occurs twice, the last one."""
    ordered, position = index.sort(stable=True)
    last = torch.ones_like(ordered, dtype=torch.bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return position[last]
