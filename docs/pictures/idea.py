"""Draw docs/pictures/idea.svg: python docs/pictures/idea.py."""

from __future__ import annotations

from pathlib import Path

BLUE, ORANGE = "#2f86c6", "#d97b16"
"""Visible on white and on black; everything else has the color of the text."""

VISITS: tuple[tuple[tuple[float, bool], ...], ...] = (
    ((196, True), (166, True), (196, False)),
    ((184, True), (206, False), (152, True)),
    ((206, True), (172, True), (212, False)),
    ((172, True), (138, True), (190, False)),
    ((138, True), (202, False), (112, True)),
    ((112, True), (180, False), (200, False)),
)
"""The states of each visit as heights: where it starts, and its two proposals with whether they are accepted."""
WIDTH, STAGE_TWO = 88, 3


def text(x: float, y: float, words: str, size: float = 13, anchor: str = "middle", extra: str = "") -> str:
    """Return words at a place."""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" {extra}>{words}</text>'


def line(x1: float, y1: float, x2: float, y2: float, extra: str = "") -> str:
    """Return a line."""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="currentColor" {extra}/>'


def chain() -> list[str]:
    """Draw the chain of one row, visit by visit, over the posterior and q."""
    left = 46
    parts = [
        f'<rect x="{left}" y="88" width="{6 * WIDTH}" height="62" fill="{BLUE}" opacity="0.16"/>',
        f'<rect x="{left}" y="160" width="{6 * WIDTH}" height="62" fill="{ORANGE}" opacity="0.16"/>',
        text(left + 8, 104, "where the posterior p(h | x) is", 12, "start", f'fill="{BLUE}"'),
        text(left + 6 * WIDTH - 8, 217, "where q(h | x) proposes", 12, "end", f'fill="{ORANGE}"'),
        text(left + 1.5 * WIDTH, 28, "Stage I", 16, extra='font-weight="bold"'),
        text(left + 1.5 * WIDTH, 48, "each visit starts"),
        text(left + 1.5 * WIDTH, 66, "from a draw of q"),
        text(left + 4.5 * WIDTH, 28, "Stage II", 16, extra='font-weight="bold"'),
        text(left + 4.5 * WIDTH, 48, "each visit goes on"),
        text(left + 4.5 * WIDTH, 66, "where the last one ended"),
        line(left + 3 * WIDTH, 14, left + 3 * WIDTH, 236, 'stroke-dasharray="2 4"'),
        text(left - 10, 158, "states h", 13, extra=f'transform="rotate(-90 {left - 10} 158)"'),
    ]
    last = 0.0
    for visit, states in enumerate(VISITS):
        x = left + visit * WIDTH + 20
        y = states[0][0]
        if visit >= STAGE_TWO:
            parts.append(line(x - WIDTH + 48, last, x, y, 'stroke-dasharray="4 3" stroke-width="1.5"'))
        first_is_drawn = visit < STAGE_TWO
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="5" stroke="{ORANGE if first_is_drawn else "currentColor"}" '
            f'stroke-width="2" fill="{"none" if first_is_drawn else "currentColor"}"/>'
        )
        for proposal, accepted in states[1:]:
            x += 24
            if accepted:
                parts.append(line(x - 24, y, x, proposal, 'stroke-width="1.5"'))
                y = proposal
            else:
                parts += [
                    line(x - 24, y, x, y, 'stroke-width="1.5"'),
                    f'<path d="M{x - 4} {proposal - 4}l8 8m0 -8l-8 8" stroke="{ORANGE}" stroke-width="2"/>',
                ]
            parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="currentColor"/>')
        last = y
        parts.append(text(left + visit * WIDTH + WIDTH / 2, 244, f"visit {visit + 1}", 12))
    legend = (
        ("none", ORANGE, "drawn from q"),
        ("currentColor", "currentColor", "state of the chain"),
    )
    for number, (fill, stroke, words) in enumerate(legend):
        x = 60 + 150 * number
        parts.append(f'<circle cx="{x}" cy="268" r="5" fill="{fill}" stroke="{stroke}" stroke-width="2"/>')
        parts.append(text(x + 12, 272, words, 12, "start"))
    parts.append(f'<path d="M{376} {264}l8 8m0 -8l-8 8" stroke="{ORANGE}" stroke-width="2"/>')
    parts.append(text(392, 272, "proposal that is rejected", 12, "start"))
    return parts


def box(x: float, y: float, width: float, height: float, *lines: str, color: str = "currentColor") -> list[str]:
    """Draw a box with lines of words."""
    top = y + height / 2 - 8 * (len(lines) - 1) + 4.5
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="none" stroke="{color}" '
        'stroke-width="1.5"/>',
        *(text(x + width / 2, top + 16 * number, words, 12.5) for number, words in enumerate(lines)),
    ]


def arrow(*points: tuple[float, float]) -> str:
    """Draw an arrow along some points."""
    path = "L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="M{path}" fill="none" stroke="currentColor" stroke-width="1.5" marker-end="url(#idea-tip)"/>'


def visit() -> list[str]:
    """Draw what happens at one visit."""
    top = 312
    return [
        text(300, top, "One visit of a row x", 16, extra='font-weight="bold"'),
        *box(14, top + 20, 128, 46, "draws h₁ … hₙ", "from q(h | x)", color=ORANGE),
        *box(14, top + 84, 128, 46, "stored state h₀", "of this row", color=BLUE),
        *box(186, top + 44, 170, 62, "accept hₖ with", "probability min(1, wₖ / w)", "w = p(x, h) / q(h | x)"),
        *box(400, top + 20, 186, 46, "gradient at the states:", "∇ log p(x, h) + ∇ log q(h | x)"),
        *box(400, top + 84, 186, 46, "last state is stored", "until the next visit", color=BLUE),
        arrow((142, top + 43), (182, top + 62)),
        arrow((142, top + 107), (182, top + 88)),
        arrow((356, top + 62), (396, top + 43)),
        arrow((356, top + 88), (396, top + 107)),
        arrow((493, top + 130), (493, top + 150), (78, top + 150), (78, top + 134)),
    ]


def drawing() -> str:
    """Return the whole picture."""
    parts = "\n".join([*chain(), *visit()])
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 470" role="img" fill="currentColor" '
        'font-family="inherit" aria-labelledby="idea-title">\n'
        '<title id="idea-title">Two stages of a chain, and one visit of a row</title>\n'
        '<defs><marker id="idea-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>\n'
        f"{parts}\n</svg>\n"
    )


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawing(), encoding="utf-8")
