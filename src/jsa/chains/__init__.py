"""The chains: one latent state for each row of the training data, in compact form."""

from jsa.chains.cache import ChainCache
from jsa.chains.freezing import FrozenChains, frozen_chains

__all__ = ["ChainCache", "FrozenChains", "frozen_chains"]
