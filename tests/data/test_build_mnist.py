"""The script that makes the archive: it verifies, it repeats itself, and it never leaves half a file."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from jsa.data.downloads import PublishedFile, PublishedPictures
from jsa.data.mnist import unpack_archive
from jsa.errors import DataError

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_mnist.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if not SCRIPT.is_file():
        pytest.skip("the script is part of the repository, not of the distribution")
    spec = importlib.util.spec_from_file_location("build_mnist", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def published(tmp_path: Path) -> PublishedPictures:
    def put(name: str, values: np.ndarray) -> PublishedFile:
        shape = np.array(values.shape, dtype=">u4").tobytes()
        content = bytes([0, 0, 8, values.ndim]) + shape + values.astype(np.uint8).tobytes()
        (tmp_path / name).write_bytes(content)
        return PublishedFile(name, len(content), hashlib.sha256(content).hexdigest())

    return PublishedPictures(
        put("train-images", np.arange(24).reshape(2, 3, 4)),
        put("train-labels", np.array([3, 4])),
        put("test-images", np.ones((1, 3, 4))),
        put("test-labels", np.array([5])),
    )


def test_the_archive_holds_the_files_and_is_the_same_each_time(script, published, tmp_path):
    output = tmp_path / "mnist.xz"
    assert script.build(tmp_path, output, published) == output.stat().st_size
    first = output.read_bytes()
    script.build(tmp_path, output, published)
    assert output.read_bytes() == first
    training, test = unpack_archive(first, published)
    assert training.pixels.reshape(-1).tolist() == list(range(24))
    assert test.labels.tolist() == [5]
    assert not list(tmp_path.glob(".*"))


def test_files_that_are_not_the_published_ones_are_refused(script, published, tmp_path):
    labels = tmp_path / "train-labels"
    labels.write_bytes(labels.read_bytes()[:-1] + b"\x09")
    with pytest.raises(DataError, match="train-labels is not the published train-labels, for its sha256"):
        script.build(tmp_path, tmp_path / "mnist.xz", published)
    assert not (tmp_path / "mnist.xz").exists()
