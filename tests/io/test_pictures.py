"""Pictures show what they should where they should."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib import image

from jsa.errors import UsageError
from jsa.io.pictures import COLUMNS, MARGIN, Pixels, as_images, between_black_and_white, grid, pairs, png


def zeros(*shape: int) -> Pixels:
    return np.zeros(shape, dtype=np.float32)


def test_images_stand_in_reading_order() -> None:
    images = zeros(COLUMNS + 2, 2, 3)
    images[COLUMNS + 1] = [[1, 0, 0], [0, 0, 1]]
    picture = grid(images)
    assert picture.shape == (2 * 2 + MARGIN, COLUMNS * (3 + MARGIN) - MARGIN)
    top, left = 2 + MARGIN, 3 + MARGIN
    assert np.array_equal(picture[top : top + 2, left : left + 3], [[1, 0, 0], [0, 0, 1]])
    assert picture[top, 0] == 0.0
    assert picture[-1, -1] == 0.5


def test_originals_stand_above_their_copies() -> None:
    picture = pairs(zeros(COLUMNS + 1, 1, 1) + 1, zeros(COLUMNS + 1, 1, 1))
    assert picture[:: 1 + MARGIN, 0].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_a_file_has_each_value_as_a_square() -> None:
    picture = np.array([[0, 1, 0.5]], dtype=np.float32)
    read = image.imread(io.BytesIO(png(picture, scale=4)))
    assert read.shape[:2] == (4, 12)
    np.testing.assert_allclose(read[::4, ::4, 0], picture, atol=1 / 255)


def test_three_channels_are_colors() -> None:
    rows = zeros(2, 3, 4, 5)
    rows[1, 2] = 1  # blue
    images = as_images(rows)
    assert images is not None
    read = image.imread(io.BytesIO(png(grid(images, columns=2), scale=1)))
    assert read[0, -1, :3].tolist() == [0, 0, 1]
    assert read[0, 0, :3].tolist() == [0, 0, 0]


@pytest.mark.parametrize("shape", [(5, 12), (5, 2, 4, 4), (5, 1, 2, 3, 4), (5,)])
def test_rows_of_other_shapes_are_no_images(shape: tuple[int, ...]) -> None:
    assert as_images(zeros(*shape)) is None


@pytest.mark.parametrize("image_shape", [(3, 3), (-3, -4), (0, 12)])
def test_a_shape_that_does_not_fit_is_refused(image_shape: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=r"rows of shape \(12,\) are no images of"):
        as_images(zeros(5, 12), image_shape)


def test_values_of_another_range_use_all_shades() -> None:
    values = np.array([0, 128, 255, np.nan], dtype=np.float32)
    np.testing.assert_allclose(between_black_and_white(values), [0, 128 / 255, 1, 0.5])
    inside = np.array([0.2, 0.7], dtype=np.float32)
    assert np.array_equal(between_black_and_white(inside), inside)
    alike = np.array([3, 3], dtype=np.float32)
    assert np.array_equal(between_black_and_white(alike), [0, 0])
    missing = np.full(2, np.nan, dtype=np.float32)
    assert np.array_equal(between_black_and_white(missing), [0.5, 0.5])
