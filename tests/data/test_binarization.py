"""Draws that are exact, and the same everywhere."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jsa.data.binarization import bernoulli, threshold
from jsa.data.streams import permutation, raw_stream


def test_threshold_is_above_a_half():
    gray = np.arange(256, dtype=np.uint8)
    assert np.array_equal(threshold(gray), gray / 255 > 0.5)


def test_black_is_never_on_and_white_always():
    assert bernoulli(np.zeros((200, 784), np.uint8), "test").sum() == 0
    assert bernoulli(np.full((200, 784), 255, np.uint8), "test").all()


def test_each_intensity_has_its_probability():
    draws = 4_000
    gray = np.tile(np.arange(256, dtype=np.uint8), (draws, 1))
    frequency = bernoulli(gray, "test", 7).mean(axis=0)
    probability = np.arange(256) / 255
    spread = np.sqrt(probability * (1 - probability) / draws)
    assert np.all(np.abs(frequency - probability) <= 4.5 * spread)


def test_the_draw_is_made_of_the_bytes_that_are_not_255():
    gray = np.random.default_rng(0).integers(0, 256, 300_000).astype(np.uint8)
    stream = raw_stream("test", 1).random_raw(40_000).astype("<u8").tobytes()
    uniform = [byte for byte in stream if byte != 255][: gray.size]
    assert bernoulli(gray, "test", 1).tolist() == [int(u < g) for u, g in zip(uniform, gray.tolist(), strict=True)]


def test_the_stream_is_pinned():
    assert raw_stream("mnist-static train").random_raw(2).tolist() == [8792580819182464118, 11229523814050607984]


def test_streams_of_different_names_differ():
    names = [("a",), ("b",), ("a", 0, 1), ("a", 1, 0), ("a", 1), ("a", 1, 12), ("a", 11, 2)]
    assert len({tuple(raw_stream(*name).random_raw(2)) for name in names}) == len(names)


@given(st.integers(1, 300), st.integers())
def test_a_permutation_has_every_number_once(count, seed):
    assert sorted(permutation(count, "test", seed).tolist()) == list(range(count))


def test_permutations_of_different_seeds_differ():
    assert permutation(50, "test", 0).tolist() != permutation(50, "test", 1).tolist()
