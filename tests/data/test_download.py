"""Fetching, from a server of our own that can fail as servers do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from helpers.published_images import published
from jsa.data import fetch
from jsa.data.downloads import AMAT_FILES, PUBLIC_HOME
from jsa.errors import DataError, UsageError

CONTENT = {f"{name}.amat": (name * 30_000).encode() for name in ("one", "two", "three")}
FILES = [published(name, content) for name, content in CONTENT.items()]


@dataclass
class Site:
    """What the server does with requests, and which ones it had."""

    address: str
    failure: str = "none"
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("jsa.data.downloads.SECONDS_TO_ANSWER", 0.2)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rsplit("/", 1)[-1]
            here.asked.append(name)
            content, failure = CONTENT[name], here.failure
            if failure.isdigit():
                self.send_error(int(failure))
                return
            if failure == "hang up":
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if failure == "stall":
                stalled.wait(5)
                return
            if failure == "wrong":
                content = content[:-1] + b"!"
            if failure.startswith("longer"):
                content += b"more" * 1_000
            self.send_response(200)
            if failure != "longer, unannounced":
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if failure == "truncated" else content)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that stops reading is no matter here."""

    stalled = threading.Event()
    server = Server(("127.0.0.1", 0), Handler)
    here = Site(f"http://127.0.0.1:{server.server_port}/folder")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield here
    stalled.set()
    server.shutdown()
    thread.join()
    server.server_close()


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_files_arrive_under_their_names(tmp_path: Path, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    paths = fetch(folder, site.address, files=FILES)
    assert {path.name: path.read_bytes() for path in paths} == CONTENT
    assert names_in(folder) == set(CONTENT)
    written = capsys.readouterr()
    assert (written.out, written.err.splitlines()) == ("", [f"fetching {site.address}/{name}" for name in CONTENT])
    (tmp_path / "ordinary").touch()
    assert paths[0].stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_files_that_are_right_are_left_alone(tmp_path: Path, site: Site) -> None:
    fetch(tmp_path, site.address, files=FILES)
    (tmp_path / "two.amat").write_bytes(CONTENT["two.amat"][:-1])
    (tmp_path / "three.amat").write_bytes(CONTENT["three.amat"][:-1] + b"?")
    site.asked.clear()
    fetch(tmp_path, site.address, files=FILES)
    assert set(site.asked) == {"two.amat", "three.amat"}
    assert (tmp_path / "three.amat").read_bytes() == CONTENT["three.amat"]


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("404", "HTTP Error 404: Not Found"),
        ("500", "HTTP Error 500"),
        ("hang up", "closed connection without response"),
        ("stall", "timed out"),
        ("truncated", "invalid hash value"),
        ("wrong", "invalid hash value"),
        ("longer", "it has 94000 bytes instead of 90000"),
        ("longer, unannounced", "invalid hash value"),
    ],
)
def test_a_server_that_fails_leaves_what_was_there(tmp_path: Path, site: Site, failure: str, reason: str) -> None:
    site.failure = failure
    (tmp_path / "one.amat").write_bytes(b"old")
    sentence = rf"/folder/one.amat could not be fetched \(.*{reason}.*\): try again or check .* put it into {tmp_path}"
    with pytest.raises(DataError, match=sentence):
        fetch(tmp_path, site.address, files=FILES)
    assert names_in(tmp_path) == {"one.amat"}
    assert (tmp_path / "one.amat").read_bytes() == b"old"
    assert socket.getdefaulttimeout() is None


def test_an_interruption_leaves_nothing_behind(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        assert names_in(tmp_path) != set()
        raise KeyboardInterrupt

    monkeypatch.setattr("torch.hub.shutil.move", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(tmp_path, site.address, files=FILES)
    assert names_in(tmp_path) == set()


def test_nobody_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(DataError, match=r"could not be fetched .*refused"):
        fetch(tmp_path, address, files=FILES)


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot take the files: (Not a directory|File exists)"):
        fetch(tmp_path / "file", files=FILES)


@pytest.mark.parametrize("address", ["file:///etc", "ftp://example.org", "example.org"])
def test_only_the_web_is_fetched_from(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError, match="must begin with http:// or https://"):
        fetch(tmp_path, address, files=FILES)


def test_the_public_home_and_its_files_are_those_of_larochelle() -> None:
    assert PUBLIC_HOME == "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist"
    sizes = {"train": 78_400_000, "valid": 15_680_000, "test": 15_680_000}
    assert {file.name: file.size for file in AMAT_FILES} == {f"binarized_mnist_{at}.amat": n for at, n in sizes.items()}
