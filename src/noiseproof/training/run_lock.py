# SPDX-License-Identifier: Apache-2.0
"""One process a run: a lock that the operating system gives back when its holder dies, however it dies.

The lock is on a file beside the run, ``RUN.lock``, which also says who holds it. The file means nothing by
itself: what counts is the lock on it, so a file left behind by a killed process is in nobody's way.
"""

import contextlib
import errno
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from noiseproof.training.run_names import checked_run_id

GRACE_SECONDS = 0.25
"""How long to try before giving up: :func:`holder` takes a lock for an instant to see whether it can."""

SHARED_FILE_SECONDS = 60.0
"""How long to wait for a file that several processes add to; each has it for an instant."""

_held: set[int] = set()


@dataclass(frozen=True)
class Holder:
    """Who holds a lock; a part is None in the instant before it has been written down."""

    pid: int | None = None
    host: str | None = None
    since: str | None = None

    def __str__(self) -> str:
        if self.pid is None:
            return "another process"
        if self.is_this_process:
            return "this very process"
        return f"process {self.pid} on {self.host} since {self.since}"

    @property
    def is_this_process(self) -> bool:
        """Whether the lock is our own."""
        return self.pid == os.getpid() and self.host == socket.gethostname()


class RunIsLocked(RuntimeError):
    """Another process is at work on the run.

    Args:
        run_id: the run.
        holder: who has it.
    """

    def __init__(self, run_id: str, holder: Holder) -> None:
        self.run_id = run_id
        self.holder = holder
        stop = f"stop it (kill {holder.pid}{_there(holder)})" if _can_be_stopped(holder) else "stop it"
        super().__init__(
            f"run {run_id} is in use by {holder}; wait for it or {stop}, or train another run, for instance with "
            "another seed. There is no file to delete: the lock goes when that process ends"
        )

    def __reduce__(self) -> tuple[type["RunIsLocked"], tuple[str, Holder]]:
        return type(self), (self.run_id, self.holder)


def lock_file(folder: Path, run_id: str) -> Path:
    """Return the file whose lock stands for the run."""
    return Path(folder) / f"{checked_run_id(run_id)}.lock"


@contextlib.contextmanager
def locked(folder: Path, run_id: str) -> Iterator[None]:
    """Hold the run inside the block.

    Args:
        folder: the runs folder, created if need be.
        run_id: the run.

    Raises:
        RunIsLocked: another process holds it, or this one already does.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder), "digits-s1"):
        ...     holder(Path(folder), "digits-s1").is_this_process
        True
    """
    path = lock_file(folder, run_id)
    with _plain_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _acquired(path, run_id)
    with _holding(handle, path):
        yield


@contextlib.contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Be the only process that reads and replaces a file inside the block; others wait for their turn.

    Raises:
        TimeoutError: another process has had it for a minute.
    """
    lock = Path(path).with_name(f".{path.name}.lock")
    try:
        handle = _acquired(lock, path.name, SHARED_FILE_SECONDS)
    except RunIsLocked as error:
        raise TimeoutError(f"{path} is in use by {error.holder}; wait for it or stop it") from None
    with _holding(handle, lock):
        yield


@contextlib.contextmanager
def _holding(handle: int, path: Path) -> Iterator[None]:
    _held.add(handle)
    try:
        _sign(handle)
        yield
    finally:
        _held.discard(handle)
        _release(handle, path)


def holder(folder: Path, run_id: str) -> Holder | None:
    """Return who is at work on the run, or None if nobody is."""
    path = lock_file(folder, run_id)
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        handle = os.open(path, os.O_RDONLY)  # someone else's file: reading is enough for a shared lock
    try:
        if _try_lock(handle, shared=True):
            return None
        return _signature(handle)
    finally:
        os.close(handle)


def require_writable(folder: Path) -> None:
    """Fail where the runs folder takes no file, before anything is done for it."""
    with _plain_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"a byte: a full disk takes a name, but nothing in it")
            file.flush()


@contextlib.contextmanager
def _plain_errors(folder: Path) -> Iterator[None]:
    """Say what to do where the folder takes no file."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(
            error.errno,
            f"cannot write in the runs folder ({error.strerror}): it is read-only, closed to you, or its disk is "
            "full; change that, or choose another folder with --folder or NOISEPROOF_RUNS",
            str(folder),
        ) from error


def _acquired(path: Path, run_id: str, seconds: float = GRACE_SECONDS) -> int:
    deadline = time.monotonic() + seconds
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if _try_lock(handle):
                if _is_still(handle, path):
                    return handle
            elif time.monotonic() > deadline:
                raise RunIsLocked(run_id, _signature(handle))
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        time.sleep(0.01)


def _is_still(handle: int, path: Path) -> bool:
    """Whether the locked file is the one at ``path``: the holder before may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _release(handle: int, path: Path) -> None:
    # Removed while still locked, so that nobody can have taken it; Windows does not let go of an open file.
    with contextlib.suppress(OSError):
        path.unlink()
    os.close(handle)


def _sign(handle: int) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    with contextlib.suppress(OSError):  # a full disk has no room for a signature; the lock holds without one
        os.write(handle, text.encode())


def _signature(handle: int) -> Holder:
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        said = json.loads(os.read(handle, 4096))
        return Holder(int(said["pid"]), str(said["host"]), str(said["since"]))
    except (ValueError, KeyError, TypeError):
        return Holder()


def _can_be_stopped(holder: Holder) -> bool:
    return holder.pid is not None and not holder.is_this_process


def _there(holder: Holder) -> str:
    return "" if holder.host == socket.gethostname() else f" on {holder.host}"


if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # Windows forbids reading what is locked: lock a byte beyond what is written

    def _try_lock(handle: int, *, shared: bool = False) -> bool:
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        return True

else:
    import fcntl

    def _try_lock(handle: int, *, shared: bool = False) -> bool:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise OSError(
                error.errno,
                f"this file system has no locks ({error.strerror}); choose a runs folder on another disk with "
                "--folder or NOISEPROOF_RUNS",
            ) from error
        return True

    def _let_go_in_child() -> None:
        """Close the parent's locks in a forked child: a lock lives as long as any process has it open."""
        for handle in _held:
            with contextlib.suppress(OSError):
                os.close(handle)
        _held.clear()

    os.register_at_fork(after_in_child=_let_go_in_child)
