"""The included models: generative belief networks and conditional models, with the paper's as presets.

The public names are listed in ``__init__.pyi`` and loaded on first use, because the presets need no torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
