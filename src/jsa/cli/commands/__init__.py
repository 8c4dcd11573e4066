"""One module a command, each with its arguments and a ``run`` function."""
