"""Fashion-MNIST, from the four files of its publisher."""

from __future__ import annotations

from pathlib import Path

from jsa.data.catalog import ENVIRONMENT_VARIABLE, data_folders, searched
from jsa.data.images import parse_images, static_splits
from jsa.data.published_files import FASHION_MNIST, PublishedImages, read_copy, verify
from jsa.data.splits import Splits
from jsa.errors import DataError

_GET_AGAIN = "get the file again"


def fashion_mnist(
    data_dir: Path | None, *, published: PublishedImages = FASHION_MNIST, train_rows: int = 50_000
) -> Splits:
    """Return Fashion-MNIST after one Bernoulli draw of the intensities, the same on every machine and forever.

    Its files have the same names as those of MNIST, so a subfolder `fashion-mnist` is searched first.
    """
    named = data_folders(data_dir)
    for folder in [inner for outer in named for inner in (outer / "fashion-mnist", outer)]:
        paths = {file: folder / file.name for file in published.files}
        if all(path.is_file() for path in paths.values()):
            contents = {file: read_copy(path, file, _GET_AGAIN) for file, path in paths.items()}
            verify(((file, str(paths[file]), content) for file, content in contents.items()), _GET_AGAIN)
            training, test = parse_images(published, contents, str(folder))
            return static_splits("fashion-mnist", training, test, train_rows)
    wanted = ", ".join(file.name for file in published.files)
    raise DataError(
        f"fashion-mnist needs the files {wanted}, unpacked, but {searched(named)}: put them into a folder "
        f"fashion-mnist there, or give their folder by --data-dir or {ENVIRONMENT_VARIABLE}"
    )
