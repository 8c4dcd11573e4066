"""The files that others published, with the checksums by which a copy is known to be right.

Nothing heavy is imported here: fetching needs these facts, but neither torch nor numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

PICTURE_PIXELS = 28 * 28

AMAT_LINE = 2 * PICTURE_PIXELS
"""The bytes of a row in the .amat text: each pixel is `0` or `1`, followed by a space or the line's end."""

PUBLIC_HOME = "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist"
"""Where the static binarisation of Salakhutdinov and Murray is published."""


@dataclass(frozen=True)
class PublishedFile:
    """A file as its publisher has it.

    Attributes:
        name: Its name at its home.
        size: Its length in bytes, unpacked.
        sha256: The checksum of those bytes, in hexadecimal.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PublishedPictures:
    """The four IDX files of MNIST, and of the datasets made in its likeness."""

    train_images: PublishedFile
    train_labels: PublishedFile
    test_images: PublishedFile
    test_labels: PublishedFile

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """All four, in the order in which the built-in archive keeps them: pictures, then labels."""
        return self.train_images, self.test_images, self.train_labels, self.test_labels


@dataclass(frozen=True)
class PublishedAmat:
    """The three text files of the static binarisation."""

    train: PublishedFile
    valid: PublishedFile
    test: PublishedFile

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """All three."""
        return self.train, self.valid, self.test


def _images(name: str, rows: int, sha256: str) -> PublishedFile:
    return PublishedFile(f"{name}-images-idx3-ubyte", 16 + rows * PICTURE_PIXELS, sha256)


def _labels(name: str, rows: int, sha256: str) -> PublishedFile:
    return PublishedFile(f"{name}-labels-idx1-ubyte", 8 + rows, sha256)


def _amat(split: str, rows: int, sha256: str) -> PublishedFile:
    return PublishedFile(f"binarized_mnist_{split}.amat", rows * AMAT_LINE, sha256)


MNIST = PublishedPictures(
    _images("train", 60_000, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    _labels("train", 60_000, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    _images("t10k", 10_000, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    _labels("t10k", 10_000, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)

FASHION_MNIST = PublishedPictures(
    _images("train", 60_000, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    _labels("train", 60_000, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    _images("t10k", 10_000, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    _labels("t10k", 10_000, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
)

SALAKHUTDINOV = PublishedAmat(
    _amat("train", 50_000, "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d"),
    _amat("valid", 10_000, "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2"),
    _amat("test", 10_000, "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c"),
)
