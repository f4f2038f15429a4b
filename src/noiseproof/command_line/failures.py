# SPDX-License-Identifier: Apache-2.0
"""How a command ends that cannot go on: one line that says why, and a status of 2."""

import select
import sys
from typing import NoReturn

import typer


def fail(error: Exception | str) -> NoReturn:
    """End the command with an error's message; without one where nobody reads on, as behind ``| head``."""
    if isinstance(error, BrokenPipeError) and _reader_has_gone():
        raise error  # click knows what to do
    typer.echo(f"Error: {error}", err=True)
    raise typer.Exit(2) from None


def _reader_has_gone() -> bool:
    """Whether it is standard output that broke, and not a pipe to a process of ours."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), select.POLLOUT)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # Windows cannot ask, and what is no file cannot be asked
        return False
