"""Refusals as tables: what is called, and the sentence that it is refused with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jsa.errors import UsageError

Call = Callable[[], object]


def refuses(*cases: tuple[Call, str], error: type[Exception] = UsageError) -> Callable[[Call, str], None]:
    """A test of every row of the table; the sentence is a regular expression."""

    @pytest.mark.parametrize(("call", "sentence"), cases, ids=[sentence for _, sentence in cases])
    def test(call: Call, sentence: str) -> None:
        with pytest.raises(error, match=sentence):
            call()

    return test
