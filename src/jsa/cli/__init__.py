"""The command line. Each command is a module that is imported when it is called, so that help comes at once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from jsa.errors import guarded, unknown_name

COMMANDS = {
    "train": "train a model, test it, and leave everything in a run folder",
    "evaluate": "the likelihood of a trained model, with its errors",
    "sample": "draw from a trained model",
    "encode": "the latent codes of a dataset",
    "impute": "fill in the missing values of a table",
    "describe": "what the latent variables of a trained model stand for",
    "reproduce": "the tables and figures of the paper, trained and measured here",
    "variance": "how noisy the gradients of methods are at a trained model",
    "report": "results or runs as one HTML page",
    "data": "fetch the published data that is not embedded",
    "list": "the datasets, models and estimators",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0, 1 for a failure, 2 for a wrong use."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, TextIOWrapper):
        # Words and names of somebody's table may be more than the terminal can show.
        sys.stdout.reconfigure(errors="backslashreplace")
    return guarded(lambda: _run(given))


def _run(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        print(_help())
        return 0 if given else 2
    if given[0] == "--version":
        from jsa import __version__

        print(f"jsa {__version__}")
        return 0
    if given[0] not in COMMANDS:
        raise unknown_name("command", given[0], COMMANDS)
    importlib.import_module(f"jsa.cli.commands.{given[0]}").run(given[1:])
    return 0


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:{width}}  {what}" for name, what in COMMANDS.items())
    return (
        "usage: jsa COMMAND [OPTIONS]\n\n"
        "Maximum-likelihood learning of models with discrete latent variables by joint stochastic approximation.\n\n"
        f"{commands}\n\n"
        "jsa COMMAND --help tells the options of a command; jsa --version the version."
    )
