"""Fetching, against a server of our own that can fail in every way that servers do."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jsa.data import fetch
from jsa.data.downloads import PUBLIC_HOME, SALAKHUTDINOV, PublishedFile
from jsa.errors import DataError, UsageError

CONTENT = {f"{name}.amat": (name * 30_000).encode() for name in ("one", "two", "three")}
FILES = [PublishedFile(n, len(c), hashlib.sha256(c).hexdigest()) for n, c in CONTENT.items()]


@dataclass
class Site:
    """What the server does with the next requests, and which ones it had."""

    address: str
    failures: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rsplit("/", 1)[-1]
            here.asked.append(self.path)
            failure = here.failures.pop(0) if here.failures else "none"
            content = CONTENT.get(name)
            if failure == "500" or failure == "404" or content is None:
                self.send_error(int(failure) if failure != "none" else 404)
                return
            if failure == "hang up":
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if failure == "stall":
                stalled.wait(5)
                return
            if failure == "wrong":
                content = content[:-1] + b"!"
            if failure == "longer":
                content += b"more" * 100_000
            self.send_response(200)
            if failure != "longer":
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


def bring(folder: Path, site: Site, **options: object) -> list[Path]:
    return fetch(folder, site.address, files=FILES, first_pause=0.01, **options)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_files_arrive_under_their_names(tmp_path, site, capsys):
    paths = bring(tmp_path / "new" / "folder", site)
    assert [path.name for path in paths] == list(CONTENT)
    assert all(path.read_bytes() == CONTENT[path.name] for path in paths)
    assert names_in(tmp_path / "new" / "folder") == set(CONTENT)
    assert site.asked == [f"/folder/{name}" for name in CONTENT]
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.splitlines() == [f"fetching {site.address}/{name}" for name in CONTENT]


def test_files_are_readable_by_others_as_usual(tmp_path, site):
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    (path, *_) = bring(tmp_path, site)
    assert path.stat().st_mode == ordinary.stat().st_mode


def test_a_terminal_gets_a_progress_bar(tmp_path, site, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    bring(tmp_path, site)
    assert "one.amat: 100%" in capsys.readouterr().err


def test_files_that_are_right_are_left_alone(tmp_path, site, capsys):
    bring(tmp_path, site)
    (tmp_path / "two.amat").write_bytes(CONTENT["two.amat"][:-1])
    (tmp_path / "three.amat").write_bytes(CONTENT["three.amat"][:-1] + b"?")
    site.asked.clear()
    bring(tmp_path, site)
    assert site.asked == ["/folder/two.amat", "/folder/three.amat"]
    assert (tmp_path / "three.amat").read_bytes() == CONTENT["three.amat"]
    assert "one.amat is already there" in capsys.readouterr().err


@pytest.mark.parametrize("failure", ["500", "hang up", "truncated", "stall"])
def test_a_server_that_fails_twice_is_asked_again(tmp_path, site, failure, capsys):
    site.failures = [failure, failure]
    paths = bring(tmp_path, site, timeout=0.2)
    assert paths[0].read_bytes() == CONTENT["one.amat"]
    assert site.asked[:4] == ["/folder/one.amat"] * 3 + ["/folder/two.amat"]
    assert names_in(tmp_path) == set(CONTENT)
    said = capsys.readouterr().err
    assert "attempt 2 of 4 in 0.01 s" in said
    assert "attempt 3 of 4 in 0.02 s" in said


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("500", "the server answers 500"),
        ("hang up", "closed connection without response"),
        ("truncated", "only 45000 of 90000 bytes came"),
        ("stall", "timed out"),
    ],
)
def test_a_server_that_keeps_failing_is_given_up(tmp_path, site, failure, reason):
    site.failures = [failure] * 9
    with pytest.raises(DataError, match=rf"one.amat could not be fetched in 3 attempts \(.*{reason}") as caught:
        bring(tmp_path, site, attempts=3, timeout=0.1)
    assert site.address in str(caught.value)
    assert f"put it into {tmp_path}" in str(caught.value)
    assert len(site.asked) == 3
    assert names_in(tmp_path) == set()


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("404", "the server answers 404 Not Found"),
        ("wrong", "what it sends is another file, with the sha256"),
        ("longer", "it sends more than the 90000 bytes of one.amat"),
    ],
)
def test_what_will_not_mend_itself_is_asked_once(tmp_path, site, failure, reason):
    site.failures = [failure]
    (tmp_path / "one.amat").write_bytes(b"old")
    with pytest.raises(DataError, match=rf"/folder/one.amat cannot be used \({reason}.*check the address"):
        bring(tmp_path, site)
    assert len(site.asked) == 1
    assert names_in(tmp_path) == {"one.amat"}
    assert (tmp_path / "one.amat").read_bytes() == b"old"


def test_nobody_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(DataError, match=r"could not be fetched in 2 attempts .*refused"):
        fetch(tmp_path, address, files=FILES, attempts=2, first_pause=0.01)


def test_an_interruption_leaves_nothing_behind(tmp_path, site, monkeypatch):
    def interrupt(_: Path) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("jsa.data.downloads.sha256_of_file", interrupt)
    with pytest.raises(KeyboardInterrupt):
        bring(tmp_path, site)
    assert names_in(tmp_path) == set()


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path, site):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot take the files: (Not a directory|File exists)"):
        bring(tmp_path / "file", site)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_is_closed_is_one_sentence(tmp_path, site):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="cannot take the files: Permission denied"):
        bring(tmp_path, site)


@pytest.mark.parametrize("address", ["file:///etc", "ftp://example.org", "example.org"])
def test_only_the_web_is_fetched_from(tmp_path, address):
    with pytest.raises(UsageError, match="must begin with http:// or https://"):
        fetch(tmp_path, address, files=FILES)


def test_at_least_one_attempt_is_made(tmp_path):
    with pytest.raises(UsageError, match="attempts is 1 or more, not 0"):
        fetch(tmp_path, attempts=0)


def test_the_public_home_and_its_files_are_those_of_larochelle():
    assert PUBLIC_HOME == "http://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist"
    assert [(file.name, file.size) for file in SALAKHUTDINOV.files] == [
        ("binarized_mnist_train.amat", 78_400_000),
        ("binarized_mnist_valid.amat", 15_680_000),
        ("binarized_mnist_test.amat", 15_680_000),
    ]
