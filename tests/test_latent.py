"""State vectors: their widths, their compact form, and all states of a small space."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.latent_spaces import random_states, spaces
from helpers.refusals import refuses
from jsa import LatentSpace, Layer


@given(spaces(), st.integers(0, 2**32 - 1), st.sampled_from([(), (1,), (4,), (2, 3)]))
def test_unpacking_returns_what_was_packed(space: LatentSpace, seed: int, batch: tuple[int, ...]) -> None:
    h = random_states(space, batch, seed)
    packed = space.pack(h)
    assert packed.dtype == torch.uint8
    assert packed.shape == (*batch, space.packed_bytes)
    assert torch.equal(space.unpack(packed), h)


@given(spaces())
def test_parts_stand_side_by_side(space: LatentSpace) -> None:
    for slices, length in ((space.slices, space.width), (space.noise_slices, space.variables)):
        covered = [place for where in slices for place in range(where.start, where.stop)]
        assert covered == list(range(length))


def test_a_bit_takes_a_bit_a_class_a_byte_and_a_real_four() -> None:
    assert LatentSpace.of(Layer("bernoulli", 200)).packed_bytes == 25
    assert LatentSpace.of(Layer("bernoulli", 201)).packed_bytes == 26
    assert LatentSpace.of(Layer("categorical", 20, classes=10)).packed_bytes == 20
    assert LatentSpace.of(Layer("gaussian", 3)).packed_bytes == 12
    assert LatentSpace.of(Layer("bernoulli", 9), Layer("gaussian", 1)).packed_bytes == 6


@pytest.mark.parametrize("classes", [2, 255, 256])
def test_every_class_fits_into_its_byte(classes: int) -> None:
    space = LatentSpace.of(Layer("categorical", 1, classes=classes))
    h = torch.eye(classes)
    assert torch.equal(space.unpack(space.pack(h)), h)


def test_reals_are_kept_in_single_precision() -> None:
    space = LatentSpace.of(Layer("gaussian", 2))
    h = torch.tensor([[1 / 3, -1e-20]], dtype=torch.float64)
    assert torch.equal(space.unpack(space.pack(h), torch.float64), h.float().double())


def test_enumeration_has_every_state_once() -> None:
    space = LatentSpace.of(Layer("bernoulli", 2), Layer("categorical", 2, classes=3))
    states = space.enumerate()
    assert states.shape == (space.states, space.width) == (4 * 9, 8)
    assert len(states.unique(dim=0)) == len(states)
    one_hot = states[:, space.slices[1]].unflatten(-1, (2, 3))
    assert ((states == 0) | (states == 1)).all()
    assert torch.equal(one_hot.sum(-1), torch.ones(36, 2))


test_what_cannot_be_is_refused = refuses(
    (lambda: LatentSpace.of(Layer("bernoulli", 21)).enumerate(), r"2\.1e\+06 states, too many to enumerate"),
    (lambda: LatentSpace.of(Layer("gaussian", 1)).enumerate(), "infinitely many states, too many to enumerate"),
    (lambda: Layer("poisson", 3), "one of bernoulli, categorical, gaussian"),  # type: ignore[arg-type]
    (lambda: Layer("bernoulli", 0), "at least 1 variable"),
    (lambda: Layer("categorical", 3, 1), "2 to 256 classes"),
    (lambda: Layer("categorical", 3, 257), "2 to 256 classes"),
    (lambda: Layer("bernoulli", 3, 4), "only categorical layers have classes"),
    (lambda: LatentSpace.of(), "at least one layer"),
)
