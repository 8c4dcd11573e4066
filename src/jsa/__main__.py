"""``python -m jsa`` is the ``jsa`` command."""

import sys

from jsa.cli import main

if __name__ == "__main__":
    sys.exit(main())
