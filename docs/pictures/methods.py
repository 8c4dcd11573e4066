"""Draw docs/pictures/methods.svg from results/table1/short: python docs/pictures/methods.py."""

from __future__ import annotations

import json
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results" / "table1" / "short"
STYLES = {
    "hybrid": ("Hybrid", "#cc79a7", ""),
    "jsa": ("JSA", "#2f86c6", ""),
    "concrete": ("Concrete", "#b59a00", "6 4"),
    "rebar": ("REBAR", "#009e73", "6 4"),
    "rloo": ("RLOO", "#d97b16", "6 4"),
    "rws": ("RWS", "currentColor", "2 3"),
}
"""Name, color and dashes. Visible on white and on black; the colors are near those of Okabe and Ito."""
LEFT, TOP, WIDTH, HEIGHT = 52, 12, 440, 300
FIRST, LAST, LEAST, MOST = 20, 100, 96.0, 128.0


def curve(method: str) -> list[tuple[int, float]]:
    """Return epochs and the NLL of the followed test rows."""
    result = json.loads((RESULTS / f"nonlinear-{method}-seed0.json").read_text(encoding="utf-8"))
    return [(point["epoch"], point["test_nll"]) for point in result["curve"] if point["epoch"] >= FIRST]


def drawing() -> str:
    """Return the curves with a name at the end of each."""

    def x(epoch: float) -> float:
        return LEFT + WIDTH * (epoch - FIRST) / (LAST - FIRST)

    def y(nll: float) -> float:
        return TOP + HEIGHT * (MOST - nll) / (MOST - LEAST)

    bottom = TOP + HEIGHT
    parts = [f'<path d="M{LEFT} {TOP}V{bottom}H{LEFT + WIDTH}" fill="none" stroke="currentColor"/>']
    for nll in range(100, int(MOST), 5):
        parts += [
            f'<path d="M{LEFT} {y(nll):g}h{WIDTH}" stroke="currentColor" stroke-opacity="0.15"/>',
            f'<text x="{LEFT - 8}" y="{y(nll) + 4:g}" text-anchor="end">{nll}</text>',
        ]
    for epoch in range(20, LAST + 1, 20):
        parts.append(f'<text x="{x(epoch):g}" y="{bottom + 18}" text-anchor="middle">{epoch}</text>')
    parts += [
        f'<path d="M{x(60):g} {TOP}V{bottom}" stroke="currentColor" stroke-dasharray="2 4"/>',
        f'<text x="{x(60) + 6:g}" y="{TOP + 14}">stage II of JSA and Hybrid</text>',
        f'<text x="{LEFT + WIDTH / 2}" y="{bottom + 38}" text-anchor="middle">epoch</text>',
    ]
    free = float("inf")
    curves = {method: curve(method) for method in STYLES}
    for method, points in sorted(curves.items(), key=lambda entry: -entry[1][-1][1]):
        name, color, dashes = STYLES[method]
        line = " ".join(f"{x(epoch):.1f},{y(nll):.1f}" for epoch, nll in points)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        )
        # The names are in the order of the curves, with room between them.
        place = y(points[-1][1]) if free == float("inf") else max(y(points[-1][1]), free + 14)
        free = place
        parts.append(f'<text x="{LEFT + WIDTH + 8}" y="{place + 4:.1f}" fill="{color}">{name}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 {bottom + 46}" role="img" fill="currentColor" '
        'font-family="inherit" font-size="13" aria-labelledby="methods-title">\n'
        '<title id="methods-title">NLL of six methods against epochs</title>\n'
        f"{body}\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawing(), encoding="utf-8")
