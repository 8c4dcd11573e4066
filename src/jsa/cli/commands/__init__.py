"""One module per command, each with its arguments and a ``run`` function."""
