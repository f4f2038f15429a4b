# SPDX-License-Identifier: Apache-2.0
"""What a grid shows while it is trained: bars in a terminal, a line a run elsewhere, nothing when quiet."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from noiseproof.grids.grid import Cell
from noiseproof.grids.pace import in_words
from noiseproof.noise import short_name
from noiseproof.training.outcome import score_of
from noiseproof.training.run_record import RunRecord
from noiseproof.training.store import Store

LOOK_EVERY = 1.0
"""Seconds between looks into the store while a pack is trained."""


class Display(Protocol):
    """What is told of a grid."""

    def pack(self, size: int, epochs: int, seconds_left: float | None) -> None:
        """Tell that a pack starts, and how long everything that is left may take."""

    def epochs(self, done: int) -> None:
        """Tell how many epochs of the pack are done."""

    def ended(self, text: str) -> None:
        """Tell that a run is over."""

    def say(self, text: str) -> None:
        """Tell something that the user should know."""


class Silence:
    """Says nothing."""

    def pack(self, size: int, epochs: int, seconds_left: float | None) -> None:
        """Say nothing."""

    def epochs(self, done: int) -> None:
        """Say nothing."""

    def ended(self, text: str) -> None:
        """Say nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""


class Lines(Silence):
    """A line a run, for logs."""

    def __init__(self, total: int) -> None:
        self._done, self._total = 0, total

    def pack(self, size: int, epochs: int, seconds_left: float | None) -> None:
        """Print how much is left."""
        left = "" if seconds_left is None else f"; about {in_words(seconds_left)} left in all"
        print(f"Training {size} run{'s together' if size > 1 else ''}{left}", flush=True)

    def ended(self, text: str) -> None:
        """Print it with its number."""
        self._done += 1
        print(f"[{self._done}/{self._total}] {text}", flush=True)

    def say(self, text: str) -> None:
        """Print it."""
        print(text, flush=True)


class Bars:
    """One bar for the grid and one for the pack; what ends is printed above them."""

    def __init__(self, bars: Any, total: int) -> None:
        self._bars = bars
        self._all = bars.add_task("runs", total=total, left="")
        self._pack = bars.add_task("epochs of this pack", total=None, left="")

    def pack(self, size: int, epochs: int, seconds_left: float | None) -> None:
        """Begin the pack's bar again."""
        left = "" if seconds_left is None else f"about {in_words(seconds_left)} left"
        self._bars.update(self._all, left=left)
        self._bars.reset(self._pack, total=epochs, left=f"{size} run{'s together' if size > 1 else ''}")

    def epochs(self, done: int) -> None:
        """Move the pack's bar."""
        self._bars.update(self._pack, completed=done)

    def ended(self, text: str) -> None:
        """Print it and move the grid's bar."""
        self.say(text)
        self._bars.advance(self._all)

    def say(self, text: str) -> None:
        """Print it above the bars."""
        self._bars.console.print(text, markup=False, highlight=False)


@contextmanager
def shown(total: int, quiet: bool = False) -> Iterator[Display]:
    """A display that suits where the output goes."""
    if quiet:
        yield Silence()
        return
    if not sys.stdout.isatty():
        yield Lines(total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    with Progress(*columns) as bars:
        yield Bars(bars, total)


class Watch:
    """Tells the display of runs as they end, by looking into the store; each run is told once.

    The store is the one place that knows, whoever trains: this process, its children or another machine.
    """

    def __init__(self, folder: Path, display: Display) -> None:
        self._folder, self._display = folder, display
        self._told: set[str] = set()
        self._turn = threading.Lock()

    @contextmanager
    def over(self, cells: Sequence[Cell]) -> Iterator[None]:
        """Watch some cells from a thread of its own while the block runs."""
        done = threading.Event()
        before = self._epochs_before(cells)

        def keep_looking() -> None:
            while not done.wait(LOOK_EVERY):
                self.look(cells, before)

        thread = threading.Thread(target=keep_looking, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            self.look(cells, before, final=True)

    def look(self, cells: Sequence[Cell], before: int = 0, *, final: bool = False) -> None:
        """Look once. Failed runs are told at the end only: a retried one is failed until it starts."""
        with self._turn, Store(self._folder) as store:
            epochs = 0
            for cell in cells:
                found = store.find(cell.config.hash, None)
                if not found:
                    continue
                record = found[0]
                epochs += record.progress.epochs
                over = record.status == "finished" or (record.status == "failed" and final)
                if over and cell.config.hash not in self._told:
                    self._told.add(cell.config.hash)
                    self._display.ended(ended_in_words(cell, record))
            self._display.epochs(max(0, epochs - before))

    def forget(self, cell: Cell) -> None:
        """Tell of a cell again: it gets another try."""
        self._told.discard(cell.config.hash)

    def _epochs_before(self, cells: Sequence[Cell]) -> int:
        with Store(self._folder) as store:
            found = [store.find(cell.config.hash, None) for cell in cells]
        return sum(records[0].progress.epochs for records in found if records)


def ended_in_words(cell: Cell, record: RunRecord) -> str:
    """How a run ended, in a line."""
    name = f"{cell.method.label}, {short_name(cell.noise)}, seed {cell.seed}"
    if record.status == "finished":
        return f"{name}: {score_of(record.result or {}):.2f}% ({in_words(record.seconds)})"
    return f"{name}: failed: {record.error}"
