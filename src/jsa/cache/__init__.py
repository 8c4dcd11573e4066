"""The chains: one latent state for each row of the training data, in compact form."""

from jsa.cache.chains import ChainCache
from jsa.cache.frozen import FrozenChains, frozen_chains

__all__ = ["ChainCache", "FrozenChains", "frozen_chains"]
