"""Pictures of a run: samples, reconstructions, curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jsa.data.schema import written_columns
from jsa.evaluation.ancestral_samples import contexts_of, sample_rows
from jsa.evaluation.rows import Rows, Subset
from jsa.io.atomic_files import replacing, write_arrays
from jsa.model import Generative, LatentVariableModel, Posterior
from jsa.runs.folder import RunFolder
from jsa.runs.rows import RunRows
from jsa.torch_contexts import seeded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLES_SHOWN = 100
PAIRS_SHOWN = 50

COLUMNS = 10
MARGIN = 2
SCALE = 3
NARROWEST, LARGEST_CELL = 240, 12
"""Pixels: rows of few columns that are not images get larger cells, to be at least this wide."""


def draw(model: LatentVariableModel, rows: RunRows, folder: RunFolder, seed: int) -> None:
    """Write samples and curves of a run to its folder, and reconstructions of rows that are pictures.

    Of a model that cannot be sampled, and of rows of which nothing is known, there are curves alone.
    """
    schema = rows.schema
    if isinstance(model, Generative) and schema is not None:
        seen = rows.train if rows.valid is None else rows.valid
        samples = sample_rows(model, SAMPLES_SHOWN, seed, contexts_of(seen, SAMPLES_SHOWN))
        if schema.image_shape is None:
            write_arrays(folder.sample_table, written_columns(schema, samples.rows.numpy()))
        else:
            save_grid(folder.samples, samples.means, schema.image_shape, schema.classes)
            originals, copies = reconstructed_rows(model, seen, PAIRS_SHOWN, seed)
            save_pairs(folder.reconstructions, originals, copies, schema.image_shape, schema.classes)
    # The last one: it tells that all are drawn.
    save_curves(folder.curves, folder.read_metrics())


@torch.no_grad()
def reconstructed_rows(model: Any, rows: Rows, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return this many rows, spread evenly, and the means of p(x | h) for a draw h from q(h | x)."""
    batch = rows.batch(Subset.spread(rows, count).numbers)
    with seeded(seed):
        posterior: Posterior = model.posterior(batch)
        h = posterior.sample(())
    if batch.context is None:
        return batch.x, model.observation(h).mean
    mean = model.observation(h, batch.context).mean
    return torch.cat([batch.context, batch.x], -1), torch.cat([batch.context, mean], -1)


def save_grid(
    path: Path, rows: Tensor, image_shape: tuple[int, int] | None, classes: int = 2, scale: int = SCALE
) -> None:
    """Write rows as a picture: a grid of images, or one line of pixels per row that is not an image."""
    values = rows.detach().cpu().float()
    if classes > 2:
        # The expected class, as a shade.
        shades = torch.linspace(0, 1, classes)
        values = values.unflatten(-1, (-1, classes)) @ shades
    values = values.nan_to_num(0.5)  # gray, where a value is missing
    if image_shape is None:
        picture = values.numpy()
        scale = max(scale, min(LARGEST_CELL, NARROWEST // picture.shape[1]))
    else:
        picture = _grid(values.numpy(), image_shape)
    picture = np.kron(picture, np.ones((scale, scale), dtype=picture.dtype))
    from matplotlib import image

    with replacing(path) as temporary:
        image.imsave(temporary, picture, vmin=0, vmax=1, cmap="gray", format="png")


def save_pairs(path: Path, originals: Tensor, copies: Tensor, image_shape: tuple[int, int], classes: int = 2) -> None:
    """Write rows of pictures, each above the row of their reconstructions."""
    # Rows of gray fill the last line, so that the copies always begin a new one.
    missing = -len(originals) % COLUMNS
    both = [torch.cat([rows, rows.new_full((missing, rows.shape[1]), 0.5)]) for rows in (originals, copies)]
    lines = torch.stack([rows.unflatten(0, (-1, COLUMNS)) for rows in both], dim=1)
    save_grid(path, lines.flatten(0, 2), image_shape, classes)


def save_curves(path: Path, metrics: Iterable[Mapping[str, float]]) -> None:
    """Draw validation NLL, training bound and the health of the chains against the epoch."""
    records = list(metrics)
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    has_chains = any("acceptance" in record for record in records)
    figure = Figure(figsize=(11, 4) if has_chains else (6, 4), layout="constrained", dpi=120)
    axes = figure.subplots(1, 2 if has_chains else 1, squeeze=False)[0]
    _draw(
        axes[0],
        records,
        {"objective": ("bound, training rows", -1.0), "valid_nll": ("importance sampling, validation rows", 1.0)},
    )
    axes[0].set(xlabel="epoch", ylabel="negative log-likelihood [nats]")
    if has_chains:
        names = {"acceptance": ("acceptance", 1.0), "frozen_share": ("chains at rest for an epoch", 1.0)}
        _draw(axes[1], records, names)
        axes[1].set(xlabel="epoch", ylabel="share", ylim=(0, 1))
    switch = [record["epoch"] for record in records if record.get("stage") == 2]
    for axis in axes:
        if switch and switch[0] > records[0]["epoch"]:
            axis.axvline(switch[0] - 0.5, color="0.6", linestyle=":", label="stage II begins")
        # Above the curves, which it never hides; the search for a free place among them warns on a busy machine.
        axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize="small", frameon=False)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _draw(axis: object, records: list[Mapping[str, float]], names: Mapping[str, tuple[str, float]]) -> None:
    # Okabe and Ito's colors, which the color-blind can tell apart.
    for (name, (label, sign)), color in zip(names.items(), ("#0072B2", "#D55E00"), strict=False):
        points = [(record["epoch"], sign * record[name]) for record in records if name in record]
        if points:
            marker = "o" if name == "valid_nll" else None
            axis.plot(*zip(*points, strict=True), label=label, color=color, marker=marker, markersize=4)  # type: ignore[attr-defined]


def _save(figure: Figure, path: Path) -> None:
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")


def _grid(rows: NDArray[np.float32], image_shape: tuple[int, int]) -> NDArray[np.float32]:
    height, width = image_shape
    lines = math.ceil(len(rows) / COLUMNS)
    grid = np.full((lines * (height + MARGIN) - MARGIN, COLUMNS * (width + MARGIN) - MARGIN), 0.5, np.float32)
    for place, row in enumerate(rows):
        top, left = (place // COLUMNS) * (height + MARGIN), (place % COLUMNS) * (width + MARGIN)
        grid[top : top + height, left : left + width] = row.reshape(height, width)
    return grid
