"""A real browser for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "no chromium or google-chrome on this machine"
FLAGS = (
    *("--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PATIENCE = 60_000
"""Milliseconds until an answer; a machine with other work to do may need many of them."""


@contextmanager
def browsing() -> Iterator[Browser]:
    """Open the browser for as long as it is needed."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        yield opened
        opened.close()
