# SPDX-License-Identifier: Apache-2.0
"""Checkpoints written on a thread of their own, so that a GPU need not wait for a disk."""

import threading
from pathlib import Path
from typing import Any

from noiseproof.training import checkpoint


class CheckpointWriter:
    """Writes checkpoints one after another; of those of one file that wait their turn, only the newest.

    An epoch of many runs on a GPU may be over before the disk has taken what the last one left. Then a checkpoint
    is passed over: a run that is killed goes on from the last one that was written.

    An error of the thread is raised by the next :meth:`put`, :meth:`flush` or :meth:`close`.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writer = CheckpointWriter()
        ...     writer.put(Path(folder) / "checkpoint.pt", {"epoch": 3})
        ...     writer.close()
        ...     checkpoint.load(Path(folder) / "checkpoint.pt", torch.device("cpu"))
        {'epoch': 3}
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Path, dict[str, Any]] = {}
        self._at_work: Path | None = None
        self._errors: dict[Path, BaseException] = {}
        self._thread: threading.Thread | None = None
        self._closing = False

    def put(self, path: Path, state: dict[str, Any]) -> None:
        """Have a state written, in place of one for the same file that still waits; nobody may change it."""
        with self._changed:
            self._raise()
            self._waiting[path] = state
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="checkpoints", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def forget(self, path: Path) -> None:
        """Do not write what waits for a file, and let what is being written be done: the file is the caller's.

        That it could not be written is forgotten too, since the caller has something newer.
        """
        with self._changed:
            self._waiting.pop(path, None)
            self._changed.wait_for(lambda: self._at_work != path)
            self._errors.pop(path, None)

    def flush(self) -> None:
        """Wait until all is written."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and self._at_work is None)
            self._raise()

    def close(self) -> None:
        """Write all that waits, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        with self._changed:
            self._raise()

    def _raise(self) -> None:
        if self._errors:
            errors, self._errors = self._errors, {}
            raise next(iter(errors.values()))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                self._at_work = next(iter(self._waiting))
                state = self._waiting.pop(self._at_work)
            try:
                checkpoint.save(self._at_work, state)
            except BaseException as error:
                with self._changed:
                    self._errors[self._at_work] = error
            del state
            with self._changed:
                self._at_work = None
                self._changed.notify_all()
