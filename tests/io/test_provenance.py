"""With what a run was made."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import jsa
from jsa.errors import CheckpointError
from jsa.io.provenance import Provenance, commit, provenance
from jsa.runs.folder import RunFolder


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_versions_are_those_of_the_process() -> None:
    found = provenance()
    assert (found.jsa, found.torch) == (jsa.__version__, torch.__version__)
    assert found.threads == torch.get_num_threads()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_that_of_the_package_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src" / "jsa"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(jsa, "__file__", str(package / "__init__.py"))
    assert commit() is None
    git(tmp_path, "init")
    (tmp_path / "other").write_text("")
    git(tmp_path, "add", "other")
    git(tmp_path, "commit", "-m", "another project")
    assert commit() is None
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "-m", "the package")
    clean = commit()
    assert clean is not None
    assert re.fullmatch("[0-9a-f]{40}", clean)
    (package / "__init__.py").write_text("changed")
    assert commit() == f"{clean}-changed"


def test_a_run_remembers_each_program_that_made_it_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    first, second = (Provenance(version, None, "3.11", "2.13", "2.4", threads=1) for version in ("1", "2"))
    for versions in (first, first, second):
        folder.add_provenance(versions)
    assert folder.read_provenance() == [first, second]


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"jsa": "1"}', "[]"])
def test_a_damaged_record_of_the_programs_is_named(tmp_path: Path, text: str) -> None:
    folder = RunFolder(tmp_path)
    folder.provenance.write_text(f"{text}\n")
    with pytest.raises(CheckpointError, match="mend or remove it"):
        folder.read_provenance()
