"""Small models with rows of which something is known."""

from __future__ import annotations

from dataclasses import replace

import torch

from helpers.small_models import EXAMPLES, Example

X = torch.nan

KNOWN = {
    "one-layer": [[X, X, X], [1, X, 0], [X, 0, X]],
    "two-layers": [[X, X, X, X], [X, X, X, 1], [X, 0, 1, X]],
    "categorical": [[X, X, X, 0, 1, 0], [X, X, X, X, X, X], [0, 0, 1, X, X, X]],
    "conditional": [[0, X, X], [X, X, 1], [X, X, X]],
    "layers-that-know-the-row": [[X, 1, X, X], [X, X, 0, X], [X, X, X, X]],
}


def with_known(name: str) -> Example:
    """A small model with rows of which something is known, of each row something else."""
    example = EXAMPLES[name]()
    known = torch.tensor(KNOWN[name], dtype=torch.float64)
    return Example(example.model, replace(example.batch, known=known))
