"""Joint stochastic approximation: maximum-likelihood learning of models with discrete latent variables.

The public names are listed in ``__init__.pyi``. Each is loaded on first use, so that the command line answers
``--help`` without torch.
"""

import lazy_loader

__version__ = "0.2.0.dev0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
