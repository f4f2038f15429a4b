# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM ask a run to stop after the step it is in, so that nothing is lost."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any


class Interrupted(Exception):
    """Training was asked to stop, and did, with everything saved."""


ONE_REQUEST_SECONDS = 1.0
"""Signals so close together are one request: ``torchrun`` passes on a Ctrl-C that the terminal sent to all."""


class Interruption:
    """Inside a ``with`` block, remembers that Ctrl-C was pressed; pressed again, it stops at once.

    Outside the main thread signals cannot be caught, and it does nothing.
    """

    def __init__(self) -> None:
        self.requested, self._when = False, 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.requested and now - self._when > ONE_REQUEST_SECONDS:
            raise KeyboardInterrupt
        if not self.requested:
            self.requested, self._when = True, now
