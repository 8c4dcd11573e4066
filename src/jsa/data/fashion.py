"""Fashion-MNIST, from the four IDX files of its publisher or of a Linux distribution."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jsa.data.folders import ENVIRONMENT_VARIABLE, data_folders, searched
from jsa.data.idx import read_idx_copy
from jsa.data.pictures import parse_pictures, static_splits
from jsa.data.published import FASHION_MNIST, PublishedFile, PublishedPictures
from jsa.data.splits import Splits
from jsa.data.verify import verify
from jsa.errors import DataError

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts the files."""

_REMEDY = "get the file again"


def fashion_mnist(
    data_dir: Path | None,
    *,
    published: PublishedPictures = FASHION_MNIST,
    train_rows: int = 50_000,
    system_folder: Path = DEBIAN_FOLDER,
) -> Splits:
    """One Bernoulli draw of the intensities, the same everywhere and for good.

    Its files have the names of MNIST's, so that a subfolder `fashion-mnist` is looked into first.
    """
    named = data_folders(data_dir)
    folders = [inner for folder in named for inner in (folder / "fashion-mnist", folder)] + [system_folder]
    found = _find(folders, published)
    contents = {file: read_idx_copy(path, file, _REMEDY) for file, path in found.items()}
    verify(((file, str(found[file]), content) for file, content in contents.items()), _REMEDY)
    training, test = parse_pictures(published, contents, str(found[published.train_images].parent))
    return static_splits("fashion-mnist", training, test, train_rows)


def _find(folders: Sequence[Path], published: PublishedPictures) -> dict[PublishedFile, Path]:
    """The four files, plain or packed, in the first folder that has them all."""
    for folder in folders:
        found = {}
        for file in published.files:
            for path in (folder / file.name, folder / f"{file.name}.gz"):
                if path.is_file():
                    found[file] = path
                    break
        if len(found) == len(published.files):
            return found
    wanted = ", ".join(file.name for file in published.files)
    raise DataError(
        f"fashion-mnist needs the files {wanted}, plain or as .gz, but {searched(folders)}: install Debian's "
        f"package dataset-fashion-mnist, or give the folder by --data-dir or {ENVIRONMENT_VARIABLE}"
    )
