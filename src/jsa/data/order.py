"""The order in which rows are visited.

The seed and the epoch determine the order of an epoch, so a resumed run continues exactly as the interrupted one would
have. Rows are only numbers here, and gathering them is one indexed copy, so no worker processes are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import torch
from jaxtyping import Int64
from torch import Tensor

from jsa.data.streams import stream_digest
from jsa.errors import check_at_least, unknown_name

Scan = Literal["shuffle", "random"]


def epoch_order(
    rows: int, batch_size: int, seed: int, epoch: int, scan: Scan = "shuffle"
) -> Iterator[Int64[Tensor, " batch"]]:
    """Yield the row numbers of the batches of one epoch.

    Args:
        rows: The number of rows of the dataset.
        batch_size: The rows of a batch; the last batch may be smaller.
        seed: The seed of the run.
        epoch: The number of the epoch.
        scan: `shuffle` visits every row once; `random` is the random scan of the theory, which draws as many rows
            uniformly with replacement.

    Example:
        >>> [len(index) for index in epoch_order(rows=10, batch_size=4, seed=1, epoch=0)]
        [4, 4, 2]
    """
    check_at_least(1, rows=rows, batch_size=batch_size)
    if scan not in get_args(Scan):
        raise unknown_name("scan", scan, get_args(Scan))
    generator = torch.Generator()
    generator.manual_seed(int.from_bytes(stream_digest("visits", seed, epoch)[:8], "little") >> 1)
    if scan == "shuffle":
        order = torch.randperm(rows, generator=generator)
    else:
        order = torch.randint(rows, (rows,), generator=generator)
    return iter(torch.split(order, batch_size))


def batches_in_epoch(rows: int, batch_size: int) -> int:
    """Return the number of batches per epoch, which is the same for both scans.

    >>> batches_in_epoch(rows=10, batch_size=4)
    3
    """
    check_at_least(1, rows=rows, batch_size=batch_size)
    return -(-rows // batch_size)
