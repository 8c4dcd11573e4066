"""Files that are either whole or not there."""

import stat
from pathlib import Path

import pytest

from jsa.io.atomic_files import short_lived, write_text


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    write_text(path, "old")
    with pytest.raises(TypeError):
        write_text(path, 3)  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_can_be_read_by_others(tmp_path: Path) -> None:
    plain, written = tmp_path / "plain", tmp_path / "written"
    plain.write_text("")
    write_text(written, "new")
    assert written.read_text() == "new"
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_only_what_is_to_last_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr("os.fsync", waited.append)
    with short_lived():
        write_text(tmp_path / "one", "text")
    assert (tmp_path / "one").read_text() == "text"
    assert waited == []
    write_text(tmp_path / "one", "text")
    assert len(waited) == 2  # the file, and its name in the folder
