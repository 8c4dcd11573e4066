"""Run the first example of docs/start.md and keep the first rows of its pictures.

python docs/pictures/start.py (five minutes)
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from PIL import Image

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    example = re.search(r"```python\n(.*?)```", (HERE.parent / "start.md").read_text(encoding="utf-8"), re.DOTALL)
    assert example
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(example[1], {})
        for name in ("reconstructions", "samples"):
            picture = Image.open(Path("runs/first") / f"{name}.png").convert("L")
            picture.crop((0, 0, picture.width, 4 * picture.height // 10)).save(
                HERE / f"start-{name}.png", optimize=True
            )
        os.chdir(HERE)
