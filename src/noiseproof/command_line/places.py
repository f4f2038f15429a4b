# SPDX-License-Identifier: Apache-2.0
"""Whether results can be written where ``--out`` says, asked before the work that would be lost."""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STREAMS = ("/dev/stdout", "/dev/stderr")
"""Names that lead to a file where the shell sends the output to one, which is open already."""


def require_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written in; nothing is left of the trial.

    Raises:
        OSError: with the place, what is wrong with it and what to do.
    """
    with _told(folder):
        if folder.exists() and not folder.is_dir():
            raise OSError("it is a file; name a folder")
        _try(_nearest(folder))


def require_file(file: Path, *, makes_folder: bool = False) -> None:
    """Refuse a file that cannot be written or replaced; one that is there is not touched.

    Args:
        file: where a link is, what it leads to.
        makes_folder: whether the folder that it lies in is made where there is none.

    Raises:
        OSError: as of :func:`require_folder`.
    """
    with _told(file):
        target = Path(os.path.realpath(file)) if file.is_symlink() else file
        if target.is_dir():
            raise OSError("it is a folder; name a file in it")
        if str(file) in STREAMS or (target.exists() and not target.is_file()):
            return  # a device or a pipe is written to as it is
        folder = _nearest(target.parent)
        if folder != target.parent and folder.is_dir() and not makes_folder:
            raise OSError(f"there is no folder {target.parent}; make it, or name another place")
        _try(folder)


def _nearest(folder: Path) -> Path:
    """The folder itself, or what is there of the way to it."""
    for each in (folder, *folder.parents):
        with suppress(FileNotFoundError, NotADirectoryError):
            each.lstat()
            return each
    return folder


def _try(folder: Path) -> None:
    """Make a file there and remove it again: permissions alone do not tell of disks that are read-only."""
    if folder.exists() and not folder.is_dir():
        raise OSError(f"it lies below {folder}, which is a file; name another place")
    trial = folder / f".{uuid.uuid4().hex}.partial"
    trial.touch(exist_ok=False)
    trial.unlink()


@contextmanager
def _told(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno is None:
            why = str(error)
        elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            why = "the place is read-only or closed to you; change that, or name another"
        else:
            why = f"{error.strerror}; name another place"
        raise OSError(f"--out: cannot write to {place}: {why}") from None
