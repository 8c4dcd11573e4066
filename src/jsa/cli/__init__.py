"""The command line. A command is a module that is imported when it is called, so that help is immediate."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from jsa.cli.process import own_process

COMMANDS = {
    "train": "train and test a model, and keep all results in a run folder",
    "resume": "continue a run that was stopped",
    "evaluate": "estimate the likelihood of a trained model, with error bars",
    "sample": "draw samples from a trained model",
    "encode": "compute the latent codes of a dataset",
    "impute": "fill in the missing values of a table",
    "describe": "show what the latent variables of a trained model stand for",
    "reproduce": "reproduce the tables and figures of the paper",
    "variance": "compare the gradient variance of methods at a trained model",
    "report": "show results or runs on one HTML page",
    "data": "download the published data that is not embedded",
    "list": "list the datasets, models and estimators",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 for a failure, 2 for incorrect usage."""
    if arguments is None:
        return own_process(lambda: _run(sys.argv[1:]))
    from jsa.errors import guarded

    return guarded(lambda: _run(list(arguments)))


def _run(given: list[str]) -> int:
    if isinstance(sys.stdout, TextIOWrapper):
        # A table may contain characters that the terminal cannot show.
        sys.stdout.reconfigure(errors="backslashreplace")
    if not given or given[0] in ("-h", "--help"):
        print(_help())
        return 0 if given else 2
    if given[0] == "--version":
        from jsa import __version__

        print(f"jsa {__version__}")
        return 0
    if given[0] not in COMMANDS:
        from jsa.errors import unknown_name

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
        "Run jsa COMMAND --help for the options of a command, jsa --version for the version."
    )
