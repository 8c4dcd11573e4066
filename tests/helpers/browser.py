"""A real browser without a window, driven over a pipe: what a reader of a page does, and what the page says to it."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0
"""Seconds until an answer; a machine with other work to do may need many of them."""

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"),
)

# The browser reads from descriptor 3 and writes to 4; both pipes come with numbers above these.
START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"
)


def find_browser() -> str | None:
    """The browser of this machine, where it has one."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Tab:
    """A page in the browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in = to_browser, from_browser
        self._buffer = b""
        self._calls = 0
        self._session: str | None = None
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict:
        """Asks the browser to do something, and waits for its answer."""
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        content = json.dumps(message).encode() + b"\0"
        while content:
            content = content[os.write(self._out, content) :]
        while (answer := self._next()).get("id") != self._calls:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, path: Path) -> None:
        """Opens a file and waits until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        # The size of the charts is known one frame later.
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def evaluate(self, expression: str) -> object:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_until(self, expression: str) -> None:
        """Waits for what the page does by and by."""
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"it does not come to {expression}")
            time.sleep(0.02)

    def point_at(self, selector: str) -> tuple[float, float]:
        """Moves the pointer over the middle of an element."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{place}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({place}.getBoundingClientRect())"
        x, y = self.evaluate(box)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def click(self, selector: str) -> None:
        """Clicks on an element."""
        x, y = self.point_at(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, selector: str, key: str, code: int) -> None:
        """Presses a key at an element."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")
        text = {"text": key} if len(key) == 1 else {}
        name = "Space" if key == " " else key
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=name, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=name, windowsVirtualKeyCode=code)

    @property
    def complaints(self) -> list[str]:
        """Everything that the page wrote to the console, and every error in it."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in kinds]

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for outside of itself."""
        sent = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [url for request in sent if not (url := request["request"]["url"]).startswith("data:")]

    def picture(self, path: Path, width: int, height: int, *, dark: bool = False) -> None:
        """A picture of the page at a size of the window, to look at."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.evaluate("new Promise((done) => setTimeout(() => done(0), 300))")
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def _next(self) -> dict:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            content = os.read(self._in, 1 << 20)
            if not content:
                raise RuntimeError("the browser has ended")
            self._buffer += content
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)


@contextmanager
def browser_tab(program: str) -> Iterator[Tab]:
    """A tab of a browser of its own, which ends with the block."""
    # Numbers above 10, so that none is in the way of descriptors 3 and 4.
    pipes = [end for _ in range(2) for end in os.pipe()]
    their_in, our_out, our_in, their_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in pipes)
    for end in pipes:
        os.close(end)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [sys.executable, "-c", START, str(their_in), str(their_out), program, *FLAGS]
        process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}"],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(their_in)
        os.close(their_out)
        try:
            yield Tab(our_out, our_in)
        finally:
            os.close(our_out)
            os.close(our_in)
            # The session of the browser holds all its processes and no others.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
