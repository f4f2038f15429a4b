# SPDX-License-Identifier: Apache-2.0
"""How a command ends that cannot go on: one line that says why, and a status of 2."""

import errno
import os
import re
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from noiseproof.plugins import VARIABLE, explained


def fail(error: Exception | str) -> NoReturn:
    """End the command with an error's message; without one where nobody reads on, as behind ``| head``."""
    if isinstance(error, BrokenPipeError) and _reader_has_gone():
        raise error  # click knows what to do
    said = explained(error) if isinstance(error, Exception) else error
    typer.echo(f"Error: {said}{_advice(error)}", err=True)
    raise typer.Exit(2) from None


@contextmanager
def plain_errors() -> Iterator[None]:
    """Tell trouble with what the user said, with files, data or records in one line."""
    try:
        yield
    except _expected() as error:
        fail(error)


def _expected() -> tuple[type[Exception], ...]:
    """Asked for only when something was raised, so that no command waits for these imports otherwise."""
    from noiseproof.datasets import DataError
    from noiseproof.training.store import StoreError

    return ValueError, OSError, DataError, StoreError


def _advice(error: Exception | str) -> str:
    """What to do about a bare error of the system's; one in our words has said it, but not how commands import."""
    if re.match(r"(loss|model): unknown name|noise must be one of|--kind must be", str(error)):
        return "" if os.environ.get(VARIABLE) else " (to use one of your own: noiseproof --import MODULE)"
    if not isinstance(error, OSError) or error.errno is None or error.strerror != os.strerror(error.errno):
        return ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ": make room, then give the same command again; files that were there are as they were"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ": the place is read-only or closed to you; change that, or choose another one"
    if error.errno == errno.EFBIG:
        return ": no file may become that large there; choose another place, or raise the limit (ulimit -f)"
    if error.errno == errno.EISDIR:
        return ": it is a folder; name a file in it"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return ": there is a file where a folder was expected; choose another name"
    return ""


def _reader_has_gone() -> bool:
    """Whether it is standard output that broke, and not a pipe to a process of ours."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), select.POLLOUT)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # Windows cannot ask, and what is no file cannot be asked
        return False
