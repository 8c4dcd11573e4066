"""The datasets that have a name, one line each.

Nothing heavy is imported here: `jsa list` and `jsa --help` must answer without waiting for torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jsa.errors import unknown_name

DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "mnist-threshold": "MNIST, on where brighter than half; 55,000/5,000/10,000; built in",
        "mnist-static": "MNIST, one fixed Bernoulli draw; 50,000/10,000/10,000; built in",
        "mnist-dynamic": "MNIST, training rows drawn anew every epoch; 50,000/10,000/10,000; built in",
        "mnist-salakhutdinov": "MNIST by Salakhutdinov and Murray (2008); 50,000/10,000/10,000; needs files",
        "fashion-mnist": "Fashion-MNIST, one fixed Bernoulli draw; 50,000/10,000/10,000; needs files",
    }
)


def names() -> tuple[str, ...]:
    """The names that `load` knows, in the order in which they are best presented.

    >>> names()[0]
    'mnist-threshold'
    """
    return tuple(DESCRIPTIONS)


def describe(name: str) -> str:
    """One line about a dataset.

    >>> describe("mnist-static")
    'MNIST, one fixed Bernoulli draw; 50,000/10,000/10,000; built in'
    """
    if name not in DESCRIPTIONS:
        raise unknown_name("dataset", name, DESCRIPTIONS)
    return DESCRIPTIONS[name]
