"""Pictures of a run: samples, reconstructions, curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from jsa.data.schema import written_columns
from jsa.evaluation.ancestral_samples import contexts_of, sample
from jsa.evaluation.reconstructions import reconstruct
from jsa.evaluation.rows import Subset
from jsa.io.atomic_files import replacing, write_arrays, write_bytes
from jsa.io.pictures import as_images
from jsa.model import Generative, LatentVariableModel
from jsa.runs.folder import RunFolder
from jsa.runs.rows import RunRows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLES_SHOWN = 100
PAIRS_SHOWN = 50


def draw(model: LatentVariableModel, rows: RunRows, folder: RunFolder, seed: int) -> None:
    """Write samples and curves of a run to its folder, and reconstructions of rows that are pictures.

    Of a model that cannot be sampled, and of rows that are neither pictures nor a table, there are curves alone.
    """
    schema, seen = rows.schema, rows.train if rows.valid is None else rows.valid
    shape = None if schema is None else schema.image_shape
    pictures = shape is not None or as_images(seen.batch(torch.arange(1)).x.float().numpy()) is not None
    if isinstance(model, Generative) and (pictures or schema is not None):
        samples = sample(model, SAMPLES_SHOWN, seed, contexts_of(seen, SAMPLES_SHOWN), image_shape=shape)
        if pictures:
            write_bytes(folder.samples, samples.png())
            pairs = reconstruct(model, Subset.spread(seen, PAIRS_SHOWN), seed, image_shape=shape)
            write_bytes(folder.reconstructions, pairs.png())
        elif schema is not None and samples.layer is not None:
            write_arrays(folder.sample_table, written_columns(schema, samples.rows.numpy()))
    # The last one: where nothing else is known, it tells that all are drawn.
    save_curves(folder.curves, folder.read_metrics())


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
