"""Latent spaces and states for property tests."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

from jsa import LatentSpace, Layer
from jsa.distributions import factorized


def layers() -> st.SearchStrategy[Layer]:
    variables = st.integers(1, 20)
    return st.one_of(
        st.builds(Layer, st.just("bernoulli"), variables),
        st.builds(Layer, st.just("categorical"), variables, st.integers(2, 12)),
        st.builds(Layer, st.just("gaussian"), variables),
    )


def spaces() -> st.SearchStrategy[LatentSpace]:
    return st.lists(layers(), min_size=1, max_size=4).map(lambda parts: LatentSpace(tuple(parts)))


def random_states(space: LatentSpace, batch: tuple[int, ...], seed: int) -> Tensor:
    """States of a space in single precision, with all values as likely as the others."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for layer in space.layers:
        distribution = factorized(layer, torch.zeros(*batch, layer.parameters))
        parts.append(distribution.from_uniforms(torch.rand(*batch, layer.variables, generator=generator)))
    return torch.cat(parts, dim=-1)
