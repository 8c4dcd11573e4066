"""Draw docs/pictures/annealing.svg from results/annealing.json: python docs/pictures/annealing.py."""

from __future__ import annotations

import json
import re
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results" / "annealing.json"
BLUE, ORANGE = "#2f86c6", "#d97b16"
NAMES = {
    "jsa": "JSA",
    "jsa-rao-blackwell": "JSA-Rao-Blackwell",
    "hybrid": "Hybrid",
    "jsa-stale-weight": "JSA, stale weight",
    "vimco": "VIMCO",
    "st-gumbel-softmax": "ST Gumbel-Softmax",
}
LEFT, WIDTH, LINE = 160, 410, 28
LEAST, MOST = 74.0, 82.0


def figures() -> dict[str, dict[bool, float]]:
    """Return the NLLs of each method, by importance sampling (False) and annealed (True)."""
    found: dict[str, dict[bool, float]] = {}
    for entry in json.loads(RESULTS.read_text(encoding="utf-8")):
        (method,) = re.findall(r"--methods (\S+)", entry["run"])
        found.setdefault(method, {})[entry["figures"]["annealing_steps"] > 0] = entry["figures"]["nll"]
    return found


def drawing(measured: dict[str, dict[bool, float]]) -> str:
    """Return a line per method, from the annealed value to that of importance sampling."""

    def x(nll: float) -> float:
        return LEFT + WIDTH * (nll - LEAST) / (MOST - LEAST)

    bottom = 44 + LINE * len(measured)
    parts = [
        f'<circle cx="{LEFT - 34}" cy="14" r="6" fill="{BLUE}"/>',
        f'<text x="{LEFT - 22}" y="18">16 samples, 4,000 annealing steps</text>',
        f'<circle cx="{LEFT + 226}" cy="14" r="6" fill="{ORANGE}"/>',
        f'<text x="{LEFT + 238}" y="18">1,000 importance samples</text>',
    ]
    for tick in range(int(LEAST), int(MOST) + 1, 2):
        parts += [
            f'<path d="M{x(tick):g} 32V{bottom}" stroke="currentColor" stroke-opacity="0.2"/>',
            f'<text x="{x(tick):g}" y="{bottom + 18}" text-anchor="middle">{tick}</text>',
        ]
    for number, (method, nlls) in enumerate(measured.items()):
        y = 48 + LINE * number
        annealed, sampled = nlls[True], nlls[False]
        parts += [
            f'<text x="{LEFT - 14}" y="{y + 4}" text-anchor="end">{NAMES[method]}</text>',
            f'<path d="M{x(annealed):g} {y}H{x(sampled):g}" stroke="currentColor" stroke-width="2"/>',
            f'<circle cx="{x(annealed):g}" cy="{y}" r="6" fill="{BLUE}"/>',
            f'<circle cx="{x(sampled):g}" cy="{y}" r="6" fill="{ORANGE}"/>',
        ]
    parts.append(
        f'<text x="{LEFT + WIDTH / 2}" y="{bottom + 38}" text-anchor="middle">NLL of 100 test rows, in nats</text>'
    )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 {bottom + 46}" role="img" fill="currentColor" '
        'font-family="inherit" font-size="13" aria-labelledby="annealing-title">\n'
        '<title id="annealing-title">Two estimates of the NLL of six trained models</title>\n'
        f"{body}\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawing(figures()), encoding="utf-8")
