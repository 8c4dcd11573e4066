"""torch.compile compiles what it is given, with the same gradient, or is refused; ``log_prob`` breaks no graph."""

from __future__ import annotations

from helpers.compiled import run


def test_what_is_compiled() -> None:
    run()
