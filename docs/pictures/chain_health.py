"""Draw docs/pictures/chain-health.svg from two short trainings: python docs/pictures/chain_health.py (a minute).

Both are the same but for the learning rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from jsa import JSA, Batch, BeliefNetwork, LatentSpace, Layer, Learner, likelihood
from jsa.chains import frozen_chains
from jsa.data import load
from jsa.evaluation.rows import Subset

ROWS, VALID_ROWS, PASSES, SWITCH, SHOWN = 2000, 500, 60, 20, 36
BLUE, ORANGE = "#2f86c6", "#d97b16"
WIDTH, LEFT = 240, (44, 344)


@dataclass(frozen=True)
class Training:
    """What was seen of a training, pass by pass.

    Attributes:
        moved: Whether the chains of some rows are at another state than a pass before.
        frozen: The share of chains that have not moved for twenty passes.
        nll: The validation NLL.
    """

    moved: list[list[bool]]
    frozen: list[float]
    nll: list[float]


def train(learning_rate: float) -> Training:
    """Train on some rows of MNIST and look at the chains after each pass."""
    torch.manual_seed(0)
    splits = load("mnist-static")
    images, valid = (
        Subset.spread(part, rows).batch(torch.arange(rows)).x
        for part, rows in ((splits.train, ROWS), (splits.valid, VALID_ROWS))
    )
    model = BeliefNetwork(Layer("bernoulli", 784), LatentSpace.of(Layer("bernoulli", 50)), hidden=(100,))
    learner = Learner(model, JSA(model.latent, rows=ROWS, particles=8, switch_after=SWITCH))
    optimizer = torch.optim.Adam(learner.parameters(), lr=learning_rate)
    chains = learner.estimator.chains
    assert chains is not None
    seen = Training([], [], [])
    before = torch.zeros(SHOWN, 50)
    for _ in range(PASSES):
        for numbers in torch.randperm(ROWS).split(50):
            loss = learner(Batch(images[numbers], numbers)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        states: Tensor = chains.read(torch.arange(SHOWN))[0]
        seen.moved.append((states != before).any(-1).tolist())
        before = states.clone()
        seen.frozen.append(frozen_chains(chains).shares[20])
        seen.nll.append(likelihood(model, valid, samples=100).nll)
    return seen


def text(x: float, y: float, words: str, anchor: str = "middle", extra: str = "") -> str:
    """Return words at a place."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {extra}>{words}</text>'


def raster(left: float, top: float, moved: list[list[bool]]) -> str:
    """Draw a line for each row, interrupted where its chain did not move."""
    cell = WIDTH / PASSES
    path = ""
    for row in range(SHOWN):
        start = 0
        for moves, run in groupby(each[row] for each in moved):
            length = len(list(run))
            if moves:
                path += f"M{left + start * cell:g} {top + 4 * row + 2:g}h{length * cell:g}"
            start += length
    return f'<path d="{path}" stroke="{BLUE}" stroke-width="3" fill="none"/>'


def curve(left: float, top: float, height: float, values: list[float], least: float, most: float, color: str) -> str:
    """Draw a curve in a frame."""
    points = " ".join(
        f"{left + (number + 1) * WIDTH / PASSES:.1f},"
        f"{top + height * (1 - (min(max(value, least), most) - least) / (most - least)):.1f}"
        for number, value in enumerate(values)
    )
    return (
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{height}" fill="none" stroke="currentColor" '
        'stroke-opacity="0.4"/>'
        f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
    )


def drawing(healthy: Training, freezing: Training) -> str:
    """Return the whole picture."""
    least, most = 120.0, 180.0
    parts = []
    for left, title, seen in zip(LEFT, ("learning rate 0.001", "learning rate 0.01"), (healthy, freezing), strict=True):
        middle = left + WIDTH / 2
        switch = left + SWITCH * WIDTH / PASSES
        parts += [
            text(middle, 18, title, extra='font-weight="bold" font-size="14"'),
            text(middle, 36, "chains of 36 rows: blue where they moved"),
            raster(left, 46, seen.moved),
            text(middle, 212, "share of chains frozen for 20 passes"),
            curve(left, 220, 60, seen.frozen, 0, 1, ORANGE),
            text(left - 6, 228, "1", "end"),
            text(left - 6, 280, "0", "end"),
            text(middle, 304, "validation NLL"),
            curve(left, 312, 90, seen.nll, least, most, "currentColor"),
            text(left - 6, 320, f"{most:g}", "end"),
            text(left - 6, 402, f"{least:g}", "end"),
            text(left + WIDTH - 6, 392, f"{seen.nll[-1]:.0f} at the end", "end"),
            f'<line x1="{switch:g}" x2="{switch:g}" y1="46" y2="402" stroke="currentColor" stroke-dasharray="2 3"/>',
            text(left, 418, "0", "start"),
            text(switch, 418, f"stage II after {SWITCH} passes"),
            text(left + WIDTH, 418, f"{PASSES}", "end"),
        ]
    body = "\n".join(parts)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 424" role="img" fill="currentColor" '
        'font-family="inherit" font-size="12" aria-labelledby="health-title">\n'
        '<title id="health-title">Healthy chains and freezing chains</title>\n'
        f"{body}\n</svg>\n"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    picture = drawing(train(1e-3), train(1e-2))
    Path(__file__).with_name("chain-health.svg").write_text(picture, encoding="utf-8")
