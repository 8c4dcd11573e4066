"""What torch.compile is given is compiled, with the same gradient, or refused; ``log_prob`` breaks no graph."""

from __future__ import annotations

import pytest

from helpers.compiled import PROGRAMS, run


@pytest.mark.parametrize("program", PROGRAMS)
def test_of_torch_compile(program: str) -> None:
    run(program)
