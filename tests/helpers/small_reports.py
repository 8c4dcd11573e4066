"""Run folders that nobody trained, and what a page about them or about results holds."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from helpers.small_results import VERSIONS, score
from jsa.experiments.jobs import Places
from jsa.experiments.results import Result, write_result
from jsa.io.json_records import to_record
from jsa.runs.config import RunConfig
from jsa.runs.folder import RunFolder


def picture() -> bytes:
    """A PNG of one gray pixel."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")


def save(found: Result, folder: Path, *, with_picture: bool = False) -> Path:
    path = Places(folder, folder).result(found.job)
    write_result(found, path)
    if with_picture:
        path.with_suffix(".png").write_bytes(picture())
    return path


def run_folder(
    path: Path,
    config: RunConfig | None = None,
    *,
    epochs: int = 10,
    tested: bool = True,
    chains: bool = True,
    followed: bool = False,
    **figures: float | None,
) -> Path:
    """A run folder with all that a page reads, every second epoch validated; some figures of the test may be given."""
    config = replace(config or RunConfig(), epochs=10)
    path.mkdir(parents=True)
    RunFolder(path).write_config(config)
    lines: list[Mapping[str, float]] = []
    for epoch in range(1, epochs + 1):
        line = {"epoch": epoch, "objective": -100.0 - 50 / epoch}
        if chains:
            line |= {"acceptance": 0.4, "chain_age": 0.1, "frozen_share": 0.01, "stage": 1 if epoch <= 6 else 2}
        if epoch % 2 == 0:
            line |= {"valid_nll": 100.0 + 50 / epoch}
        if epoch % 2 == 0 and followed:
            line |= {"train_nll": 99.0 + 50 / epoch, "test_nll": 101.0 + 50 / epoch}
        lines.append(
            line
            | {"decoder_evaluations": 1_000 * epoch, "training_seconds": 2.5 * epoch, "processor_seconds": 2.4 * epoch}
        )
    write_lines(path / "metrics.jsonl", lines)
    RunFolder(path).add_provenance(VERSIONS)
    if tested:
        test = to_record(score(106.25)) | figures
        record = {"best_epoch": 10, "valid_nll": 105.0, "valid_samples": 100, "test": test}
        (path / "evaluation.json").write_text(json.dumps(record))
        for name in ("samples.png", "reconstructions.png"):
            (path / name).write_bytes(picture())
    return path


def write_lines(path: Path, records: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


class Parsed(HTMLParser):
    """What a browser would find in a page: its elements with their attributes, and the text of all but scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style":
            self.pieces.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found
