"""Datasets of binary or categorical rows: embedded, downloaded, or the user's own tables.

The public names are listed in ``__init__.pyi``. Importing this package loads neither torch nor numpy, so that the
command line can list the datasets at once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
