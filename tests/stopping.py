# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at a chosen step."""


class StopAfter:
    """Stands where Ctrl-C is watched, and asks to stop after some steps."""

    def __init__(self, steps):
        self.steps = steps

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    @property
    def requested(self):
        self.steps -= 1
        return self.steps < 0
