"""Run the examples of docs/start.md and docs/tutorials/own-model.md and keep the pictures of their runs.

    python docs/pictures/first_runs.py [start] [own-model]

The first takes five minutes, the second some seconds.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from PIL import Image

HERE = Path(__file__).resolve().parent


def run(page: str) -> None:
    """Run the blocks of Python up to the first training, in this folder."""
    blocks = re.findall(r"```python\n(.*?)```", (HERE.parent / page).read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
        if "jsa.fit(" in block:
            return


def start() -> None:
    """Keep the first rows of the digits."""
    run("start.md")
    for name in ("reconstructions", "samples"):
        picture = Image.open(Path("runs/first") / f"{name}.png").convert("L")
        picture.crop((0, 0, picture.width, 4 * picture.height // 10)).save(HERE / f"start-{name}.png", optimize=True)


def own_model() -> None:
    """Keep the curves."""
    run("tutorials/own-model.md")
    curves = Image.open("runs/survey/curves.png").convert("RGB")
    curves.quantize(48).save(HERE / "own-model-curves.png", optimize=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for make in sys.argv[1:] or ("start", "own-model"):
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            {"start": start, "own-model": own_model}[make]()
            os.chdir(HERE)
