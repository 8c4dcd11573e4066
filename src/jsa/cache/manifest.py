"""What a folder of memory-mapped chains says of itself: ``chains.json``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from jsa.cache.storage import check_description
from jsa.errors import CheckpointError
from jsa.files import write_text


@dataclass(frozen=True)
class Manifest:
    """How far the file of the chains is.

    Attributes:
        generation: The checkpoint whose rows are all in the file.
        committed: The checkpoint whose rows belong there; where it is a later one, its journal has them.
        visits: The clock of the generation.
    """

    generation: int = 0
    committed: int = 0
    visits: int = 0

    def write(self, path: Path, belongs_to: Mapping[str, object]) -> None:
        """Puts it in the place of an earlier one, whole or not at all."""
        content = {**belongs_to, **asdict(self)}
        write_text(path, json.dumps({**content, "checksum": _checksum(content)}) + "\n")

    @classmethod
    def read(cls, path: Path, belongs_to: Mapping[str, object]) -> Manifest:
        """The manifest of chains that belong to this."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise _damaged(path) from error
        checksum = content.pop("checksum", None) if isinstance(content, dict) else None
        if checksum is not None and checksum != _checksum(content):
            raise _damaged(path)
        check_description(path.parent, content, belongs_to)
        numbers = {name: content.get(name) for name in asdict(cls())}
        if checksum is None or not all(isinstance(number, int) and number >= 0 for number in numbers.values()):
            raise _damaged(path)
        return cls(**numbers)


def _checksum(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path} is damaged: put back a copy of its folder, or delete the folder and start the chains anew"
    )
