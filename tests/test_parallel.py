"""Processes that share the rows learn as one would that has them all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

from helpers.sizes import sizes
from helpers.small_models import bits, one_layer
from jsa import JSA, Batch, Enumeration, Estimator, Learner, Stage
from jsa.errors import CheckpointError

ROWS, STEPS = 12, 6


def learned(estimator: Estimator, share: torch.Tensor, process: int | None = None) -> torch.Tensor:
    """The parameters of the model after some steps with these rows; nothing is assigned on the way."""
    torch.manual_seed(process or 0)
    learner = Learner(one_layer().model, estimator)
    parallel = learner if process is None else DistributedDataParallel(learner)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    data = bits(rows=ROWS, width=4)
    for step in range(STEPS):
        if estimator.chains is not None:
            # On every process, whatever its share: the passes of all of them count.
            assert estimator.stage == (Stage.FRESH if step < STEPS // 2 else Stage.PERSISTENT)
        estimate = parallel(Batch(data.x[share], share))
        optimizer.zero_grad()
        estimate.loss.backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in learner.model.parameters()])


def refusal(estimator: Estimator, state: dict[str, torch.Tensor], folder: Path) -> str | None:
    """What a process says to the state that the first one saved."""
    if distributed.get_rank() == 0:
        torch.save(state, folder / "state.pt")
    distributed.barrier()
    try:
        estimator.load_state_dict(torch.load(folder / "state.pt"))
    except CheckpointError as error:
        return str(error)
    return None


def work(process: int, folder: Path, processes: int) -> None:
    torch.set_num_threads(1)
    if sys.platform == "linux":
        # They talk by the loopback device, whatever the name of the machine leads to.
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=process, world_size=processes)
    share = torch.arange(process, ROWS, processes)
    chains = JSA(one_layer().model.latent, rows=ROWS, switch_after=STEPS // 2)
    found = {
        "exact": learned(Enumeration(), share, process),
        "chains": learned(chains, share, process),
        "visited": chains.chains.read(torch.arange(ROWS))[1],
        "passes": chains.chains.passes,
        "refused": refusal(chains, chains.state_dict(), folder),
    }
    torch.save(found, folder / f"{process}.pt")
    distributed.destroy_process_group()


@pytest.mark.parametrize("processes", sizes(2, 4))
def test_processes_that_share_the_rows(tmp_path: Path, processes: int) -> None:
    multiprocessing.spawn(work, (tmp_path, processes), nprocs=processes)  # type: ignore[attr-defined, no-untyped-call]
    found = [torch.load(tmp_path / f"{process}.pt") for process in range(processes)]
    together = learned(Enumeration(), torch.arange(ROWS))
    alone = learned(Enumeration(), torch.arange(0, ROWS, processes))
    torch.testing.assert_close(found[0]["exact"], together, rtol=0, atol=1e-12)
    assert (alone - together).abs().max() > 1e-3
    for name in ("exact", "chains"):
        assert all(torch.equal(found[0][name], other[name]) for other in found)
    # Each keeps the chains of its own rows, and takes no others.
    for process in range(processes):
        assert found[process]["passes"] == STEPS
        sentence = f"are those of process 0 of {processes}, this is process {process} of {processes}"
        assert (sentence in found[process]["refused"]) if process else found[process]["refused"] is None
        assert found[process]["visited"].nonzero().flatten().tolist() == list(range(process, ROWS, processes))
