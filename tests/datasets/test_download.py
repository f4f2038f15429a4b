# SPDX-License-Identifier: Apache-2.0
"""Downloads against a real HTTP server on this machine that misbehaves in every way a server can."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from noiseproof.datasets import BadFileError, UnavailableError, download

CONTENT = np.random.RandomState(0).bytes(700_000)


@dataclass
class Behaviour:
    """How the server answers; ``requests`` notes the Range header of each request."""

    content: bytes = CONTENT
    knows_ranges: bool = True
    breaks_after: list[int] = field(default_factory=list)  # bytes of body, one a request
    statuses: list[int] = field(default_factory=list)  # errors to answer first, one a request
    wrong_start: bool = False
    requests: list[str | None] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[tuple[Behaviour, str]]:
    behaviour = Behaviour()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            behaviour.requests.append(wanted)
            if behaviour.statuses:
                self.send_error(behaviour.statuses.pop(0))
                return
            start = 0
            if wanted and behaviour.knows_ranges:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(behaviour.content):
                    self.send_error(416)
                    return
                self.send_response(206)
                said = 0 if behaviour.wrong_start else start
                self.send_header("Content-Range", f"bytes {said}-{len(behaviour.content) - 1}/*")
            else:
                self.send_response(200)
            body = behaviour.content[start:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if behaviour.breaks_after:
                self.wfile.write(body[: behaviour.breaks_after.pop(0)])
                self.close_connection = True
            else:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield behaviour, f"http://127.0.0.1:{server.server_port}/files/data.tar.gz"
    server.shutdown()
    thread.join()
    server.server_close()


def remote(url: str, content: bytes = CONTENT) -> download.Remote:
    return download.Remote(url, len(content), "md5", hashlib.md5(content).hexdigest())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_whole_file(server: tuple[Behaviour, str], tmp_path: Path) -> None:
    behaviour, url = server
    path = download.fetch(remote(url), tmp_path / "new")
    assert path.read_bytes() == CONTENT
    assert names(tmp_path / "new") == ["data.tar.gz"]
    assert download.fetch(remote(url), tmp_path / "new") == path
    assert behaviour.requests == [None], "a file already here is not fetched again"


def test_broken_midway_continues_where_it_stopped(server: tuple[Behaviour, str], tmp_path: Path) -> None:
    behaviour, url = server
    behaviour.breaks_after = [300_000, 100_000]
    path = download.fetch(remote(url), tmp_path, pause=0)
    assert path.read_bytes() == CONTENT
    assert behaviour.requests == [None, "bytes=300000-", "bytes=400000-"]


def test_broken_for_good_keeps_the_part_for_the_next_call(
    server: tuple[Behaviour, str], tmp_path: Path
) -> None:
    behaviour, url = server
    behaviour.breaks_after = [100_000, 1000]
    with pytest.raises(UnavailableError, match="101000 of 700000 bytes|IncompleteRead|more expected"):
        download.fetch(remote(url), tmp_path, tries=2, pause=0)
    assert names(tmp_path) == ["data.tar.gz.part"]
    assert (tmp_path / "data.tar.gz.part").read_bytes() == CONTENT[:101_000]
    assert download.fetch(remote(url), tmp_path).read_bytes() == CONTENT
    assert behaviour.requests[-1] == "bytes=101000-"


def test_a_server_without_ranges_starts_over_cleanly(server: tuple[Behaviour, str], tmp_path: Path) -> None:
    behaviour, url = server
    behaviour.knows_ranges = False
    behaviour.breaks_after = [300_000]
    assert download.fetch(remote(url), tmp_path, pause=0).read_bytes() == CONTENT
    assert behaviour.requests == [None, "bytes=300000-"]


def test_a_server_that_sends_another_range_is_not_trusted(
    server: tuple[Behaviour, str], tmp_path: Path
) -> None:
    behaviour, url = server
    behaviour.wrong_start = True
    behaviour.breaks_after = [300_000]
    assert download.fetch(remote(url), tmp_path, pause=0).read_bytes() == CONTENT
    assert behaviour.requests == [None, "bytes=300000-", None]


def test_a_part_of_an_older_file_is_thrown_away(server: tuple[Behaviour, str], tmp_path: Path) -> None:
    _, url = server
    (tmp_path / "data.tar.gz.part").write_bytes(b"old" * 1000)
    assert download.fetch(remote(url), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("length", [len(CONTENT), len(CONTENT) + 5])
def test_a_part_too_long_or_wrong_in_full(server: tuple[Behaviour, str], tmp_path: Path, length: int) -> None:
    _, url = server
    (tmp_path / "data.tar.gz.part").write_bytes(bytes(length))
    assert download.fetch(remote(url), tmp_path).read_bytes() == CONTENT


def test_a_range_beyond_the_end_starts_over(server: tuple[Behaviour, str], tmp_path: Path) -> None:
    behaviour, url = server
    (tmp_path / "data.tar.gz.part").write_bytes(bytes(len(CONTENT) - 1))
    behaviour.statuses = [416]
    assert download.fetch(remote(url), tmp_path, pause=0).read_bytes() == CONTENT
    assert behaviour.requests[-1] is None


def test_a_wrong_checksum_leaves_nothing(server: tuple[Behaviour, str], tmp_path: Path) -> None:
    behaviour, url = server
    behaviour.content = CONTENT[:-1] + b"?"
    with pytest.raises(BadFileError, match=r"data.tar.gz: expected md5 \w+, found md5 \w+"):
        download.fetch(remote(url), tmp_path, pause=0)
    assert names(tmp_path) == []
    assert len(behaviour.requests) == 2, "one fresh try more, in case the first was spoilt on the way"


def test_a_file_longer_than_it_should_be_is_not_swallowed(
    server: tuple[Behaviour, str], tmp_path: Path
) -> None:
    behaviour, url = server
    behaviour.content = CONTENT + CONTENT
    with pytest.raises(BadFileError, match="expected 700000 bytes, found more"):
        download.fetch(remote(url), tmp_path)
    assert names(tmp_path) == []


def test_a_file_that_is_gone_is_not_asked_for_again(server: tuple[Behaviour, str], tmp_path: Path) -> None:
    behaviour, url = server
    behaviour.statuses = [404]
    with pytest.raises(UnavailableError, match="could not be downloaded: the server answered 404"):
        download.fetch(remote(url), tmp_path / "new", pause=0)
    assert len(behaviour.requests) == 1
    assert names(tmp_path) == [], "a failed fetch leaves no folder"


def test_a_busy_server_is_asked_again(server: tuple[Behaviour, str], tmp_path: Path) -> None:
    behaviour, url = server
    behaviour.statuses = [503, 500]
    assert download.fetch(remote(url), tmp_path, pause=0).read_bytes() == CONTENT


def test_no_server_at_all(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="could not be downloaded"):
        download.fetch(remote("http://127.0.0.1:9/x.gz"), tmp_path, pause=0, timeout=2)


def test_discard_removes_downloads_but_not_those_of_others(tmp_path: Path) -> None:
    (tmp_path / ".downloads" / "a").mkdir(parents=True)
    (tmp_path / ".downloads" / "b").mkdir()
    download.discard(tmp_path / ".downloads" / "a")
    assert names(tmp_path / ".downloads") == ["b"]
    download.discard(tmp_path / ".downloads" / "b")
    assert names(tmp_path) == []
