# SPDX-License-Identifier: Apache-2.0
"""How training shows that it is alive: bars in a terminal, plain lines elsewhere, nothing when quiet."""

import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console

from noiseproof.durations import duration

LINES_OF_A_RUN = 20
"""About how many lines a long run prints where there is no terminal."""

WORTH_TELLING = 60
"""Seconds that are left, below which a log says nothing of them."""

BETWEEN_LINES = 30
"""Seconds between two lines of a log about what comes before the first step."""

ENOUGH_TO_TELL = 0.1
"""Epochs after the first step from which on a pace is known; an epoch of one step alone has none."""


class Progress(Protocol):
    """What the engine tells."""

    def begin(self, run_id: str, epochs: int, done: int) -> None:
        """Announce a run that starts, or goes on after ``done`` epochs."""

    def prepare(self, run_id: str, share: float) -> None:
        """Tell that a share of what comes before the first step is done."""

    def step(self, run_id: str, epoch: int, share: float) -> None:
        """Tell that a share of an epoch is done."""

    def epoch(self, run_id: str, epoch: int, metrics: dict[str, Any]) -> None:
        """Tell that an epoch is done."""

    def end(self, run_id: str, status: str) -> None:
        """Tell that a run is over."""

    def say(self, text: str) -> None:
        """Tell something that the user should know."""


class Silence:
    """Says nothing."""

    def begin(self, run_id: str, epochs: int, done: int) -> None:
        """Say nothing."""

    def prepare(self, run_id: str, share: float) -> None:
        """Say nothing."""

    def step(self, run_id: str, epoch: int, share: float) -> None:
        """Say nothing."""

    def epoch(self, run_id: str, epoch: int, metrics: dict[str, Any]) -> None:
        """Say nothing."""

    def end(self, run_id: str, status: str) -> None:
        """Say nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""


class PlainLines(Silence):
    """One line per epoch, for logs, with the time left if that is minutes."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self._began: dict[
            str, tuple[float, float]
        ] = {}  # when a run made its first step here, and at which epoch
        self._prepared_at: dict[str, float] = {}  # when that was last told
        self._estimated: set[str] = set()  # runs of which it was told how long they will take

    def begin(self, run_id: str, epochs: int, done: int) -> None:
        """Remember how long the run is."""
        self._epochs[run_id] = epochs
        print(
            f"{run_id}: {epochs} epoch{'s' * (epochs > 1)}" + (f", {done} already done" if done else ""),
            flush=True,
        )

    def prepare(self, run_id: str, share: float) -> None:
        """Print it now and then, if it takes long."""
        now = time.monotonic()
        if now - self._prepared_at.setdefault(run_id, now) >= BETWEEN_LINES:
            self._prepared_at[run_id] = now
            print(f"{run_id}: {prepared(share)}", flush=True)

    def step(self, run_id: str, epoch: int, share: float) -> None:
        """Remember when the first step was; where the first epoch takes long, tell once how long the run will."""
        now, at = time.monotonic(), epoch + share
        began, begun_at = self._began.setdefault(run_id, (now, at))
        if run_id not in self._estimated and now - began >= BETWEEN_LINES:
            self._estimated.add(run_id)
            if at - begun_at < 1 and (left := self._left(run_id, at, enough=0.0)):
                print(f"{run_id}: {share:.0%} of epoch {epoch + 1}/{self._epochs[run_id]}{left}", flush=True)

    def epoch(self, run_id: str, epoch: int, metrics: dict[str, Any]) -> None:
        """Print the epoch; in a long run the first and every so-manieth one."""
        epochs, done = self._epochs[run_id], epoch + 1
        is_first = run_id in self._began and done - self._began[run_id][1] <= 1
        if is_first or done % max(1, epochs // LINES_OF_A_RUN) == 0 or done == epochs:
            left = self._left(run_id, done)
            print(f"{run_id}: epoch {done}/{epochs}, {summary(metrics)}{left}", flush=True)

    def _left(self, run_id: str, done: float, enough: float = ENOUGH_TO_TELL) -> str:
        if run_id not in self._began or done - self._began[run_id][1] <= enough:
            return ""
        began, at = self._began[run_id]
        seconds = (time.monotonic() - began) / (done - at) * (self._epochs[run_id] - done)
        return f"; about {duration(seconds)} left" if seconds >= WORTH_TELLING else ""

    def end(self, run_id: str, status: str) -> None:
        """Print how it ended."""
        print(f"{run_id}: {status}", flush=True)

    def say(self, text: str) -> None:
        """Print it."""
        print(text, flush=True)


class Bars:
    """One bar per run, with the time left and the accuracy so far."""

    def __init__(self, bars: Any) -> None:
        self._bars = bars
        self._tasks: dict[str, Any] = {}

    def begin(self, run_id: str, epochs: int, done: int) -> None:
        """Add a bar."""
        self._tasks[run_id] = self._bars.add_task(run_id, total=epochs, completed=done, accuracy="")

    def prepare(self, run_id: str, share: float) -> None:
        """Show it where the accuracy will be."""
        self._bars.update(self._tasks[run_id], accuracy=prepared(share) if share < 1 else "")

    def step(self, run_id: str, epoch: int, share: float) -> None:
        """Move the bar."""
        self._bars.update(self._tasks[run_id], completed=epoch + share)

    def epoch(self, run_id: str, epoch: int, metrics: dict[str, Any]) -> None:
        """Show the accuracy."""
        self._bars.update(self._tasks[run_id], completed=epoch + 1, accuracy=summary(metrics))

    def end(self, run_id: str, status: str) -> None:
        """Show how it ended."""
        if status != "finished":
            self._bars.update(self._tasks[run_id], accuracy=status)

    def say(self, text: str) -> None:
        """Print it above the bars."""
        self._bars.console.print(text, markup=False, highlight=False)


def prepared(share: float) -> str:
    """What is done before the first step of a run that trains the final layer alone.

    >>> prepared(0.25)
    '25% of the images have passed through the network'
    """
    return f"{share:.0%} of the images have passed through the network"


def summary(metrics: dict[str, Any]) -> str:
    """What matters of an epoch, on one line."""
    shown = [f"loss {metrics['loss']:.4f}"]
    # Where no label is known to be wrong, nobody knows that the others are right either.
    known = metrics.get("flipped_accuracy") is not None
    for key, name in (
        ("clean_accuracy", "right labels" if known else "train"),
        ("flipped_accuracy", "wrong labels"),
        ("test_accuracy", "test"),
        ("test_dice", "test Dice"),
    ):
        if metrics.get(key) is not None:
            shown.append(f"{name} {metrics[key]:.1f}%")
    return ", ".join(shown)


@contextmanager
def shown(quiet: bool = False) -> Iterator[Progress]:
    """Progress that suits where the output goes."""
    if quiet:
        yield Silence()
        return
    # Bars of several processes would clash.
    if not sys.stdout.isatty() or multiprocessing.parent_process() is not None:
        yield PlainLines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[accuracy]}", markup=False),
    )
    with RichProgress(*columns, console=Console()) as bars:
        yield Bars(bars)
