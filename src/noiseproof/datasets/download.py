# SPDX-License-Identifier: Apache-2.0
"""Fetch one file over HTTP: it continues where it broke off, and only a file with the right checksum counts.

A download grows under ``NAME.part``. When the connection breaks, or the program is stopped, the next try asks
the server for the rest only; a server that cannot do that sends the whole file again, and the part is
overwritten. The part becomes ``NAME`` only when its checksum is right.
"""

import contextlib
import hashlib
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from noiseproof.datasets.errors import BadFileError, UnavailableError

TRIES = 4
TIMEOUT_SECONDS = 20.0
_BYTES_A_TIME = 1 << 18
_NOT_WORTH_RETRYING = frozenset({400, 401, 403, 404, 405, 410, 451})


@dataclass(frozen=True)
class Remote:
    """One file at its official address.

    Attributes:
        url: where it is.
        size: its size in bytes.
        algorithm: of the checksum, ``"md5"`` where that is what the authors published.
        checksum: as hexadecimal text.
    """

    url: str
    size: int
    algorithm: str
    checksum: str

    @property
    def name(self) -> str:
        """The file's own name.

        Example:
            >>> Remote("https://example.org/a/b.tar.gz", 10, "md5", "00").name
            'b.tar.gz'
        """
        return self.url.rsplit("/", 1)[-1]


class Watcher(Protocol):
    """Told how far a download is, in bytes."""

    def __call__(self, done: int) -> None:
        """Note that ``done`` bytes of the file are here."""


def fetch(
    remote: Remote,
    folder: Path,
    *,
    tries: int = TRIES,
    timeout: float = TIMEOUT_SECONDS,
    pause: float = 1.0,
) -> Path:
    """Download a file into a folder, continuing an earlier try, and return its path.

    Args:
        remote: what to fetch.
        folder: where to put it; created if need be.
        tries: how often a broken connection is taken up again.
        timeout: seconds without an answer after which a try counts as broken.
        pause: seconds to wait before the second try, doubled each time.

    Raises:
        UnavailableError: the server cannot be reached, or the connection broke ``tries`` times; what has come
            so far stays for the next call.
        BadFileError: the whole file came, twice, and its checksum is wrong; nothing stays.
    """
    path = folder / remote.name
    if path.is_file() and _checksum(path, remote) == remote.checksum:
        return path
    part = folder / f"{remote.name}.part"
    with _progress(remote) as watch:
        for attempt in range(2):  # a part left by an older file spoils the first whole; the second is fresh
            _fetch_all(remote, part, tries=tries, timeout=timeout, pause=pause, watch=watch)
            found = _checksum(part, remote)
            if found == remote.checksum:
                break
            part.unlink()
            if attempt == 1:
                expected = f"{remote.algorithm} {remote.checksum}"
                raise BadFileError(
                    remote.url,
                    expected,
                    f"{remote.algorithm} {found}",
                    "the file at that address has changed",
                )
    part.replace(path)
    return path


def discard(folder: Path) -> None:
    """Remove the downloads in a folder, once what they brought is safe elsewhere."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # other downloads may be under way beside it
        folder.parent.rmdir()


def _checksum(path: Path, remote: Remote) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, remote.algorithm).hexdigest()


def _fetch_all(
    remote: Remote, part: Path, *, tries: int, timeout: float, pause: float, watch: Watcher
) -> None:
    for attempt in range(tries):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            _fetch_rest(remote, part, timeout=timeout, watch=watch)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"the server answered {error.code} {error.reason}"
            if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)  # the part is of another, longer file: start over
            if error.code in _NOT_WORTH_RETRYING:
                raise UnavailableError(f"{remote.url} could not be downloaded: {reason}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            if isinstance(error, urllib.error.URLError) and not part.exists() and attempt:
                break  # no server at all, twice: waiting longer will not help
        else:
            if part.stat().st_size == remote.size:
                return
            reason = f"the connection ended after {part.stat().st_size} of {remote.size} bytes"
    raise UnavailableError(f"{remote.url} could not be downloaded: {reason}")


def _fetch_rest(remote: Remote, part: Path, *, timeout: float, watch: Watcher) -> None:
    have = part.stat().st_size if part.exists() else 0
    if have == remote.size:
        return
    if have > remote.size:
        part.unlink()
        have = 0
    request = urllib.request.Request(remote.url, headers={"User-Agent": "noiseproof"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        continues = answer.status == http.client.PARTIAL_CONTENT and _starts_at(answer) == have
        if answer.status == http.client.PARTIAL_CONTENT and not continues:
            part.unlink(missing_ok=True)
            raise http.client.HTTPException("the server sent another part than the one asked for")
        if not continues:
            have = 0
        watch(have)
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab" if continues else "wb") as file:
            while piece := answer.read(_BYTES_A_TIME):
                have += len(piece)
                if have > remote.size:
                    break
                file.write(piece)
                watch(have)
            file.flush()
            os.fsync(file.fileno())
    if have > remote.size:
        part.unlink()
        raise BadFileError(remote.url, f"{remote.size} bytes", "more", "the file at that address has changed")


def _starts_at(answer: http.client.HTTPResponse) -> int:
    """Return where a partial answer starts (``Content-Range: bytes START-END/ALL``); -1 if it is not said."""
    start = (answer.headers.get("Content-Range") or "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdigit() else -1


@contextlib.contextmanager
def _progress(remote: Remote) -> Iterator[Watcher]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(remote.name, total=remote.size)
        yield lambda done: bar.update(task, completed=done)
