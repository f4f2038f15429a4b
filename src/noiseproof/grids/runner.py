# SPDX-License-Identifier: Apache-2.0
"""Training a grid on one machine: what is recorded is skipped, what was stopped goes on, what fails is kept.

Cells are taken in their order, which has one seed of every method and noise before the second seed, and go to the
engine as packs.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from noiseproof.grids.display import Display, Silence, Watch
from noiseproof.grids.grid import Cell
from noiseproof.grids.pace import FIRST_ON_A_GPU, Clock
from noiseproof.grids.packs import LARGEST_PACK, next_pack, packs_of
from noiseproof.grids.states import CellState, CellStatus, states_of, with_status
from noiseproof.plugins import explained
from noiseproof.results import Result
from noiseproof.training.interruption import Interrupted
from noiseproof.training.own_code import warn_of_other_code
from noiseproof.training.run_lock import RunIsLocked, require_writable
from noiseproof.training.run_record import RunRecord
from noiseproof.training.store import Store

Finished = Callable[[Sequence[RunRecord]], None]
"""Called with the runs that a pack has finished, with their epochs."""


@dataclass
class Outcome:
    """How a grid stands after training.

    Attributes:
        states: every cell as it stands now.
        trained: cells that this call finished.
        stopped: ``"budget"`` or ``"interrupted"`` where it ended before its time, else None.
    """

    states: list[CellState] = field(default_factory=list)
    trained: int = 0
    stopped: str | None = None

    def count(self, *wanted: CellStatus) -> int:
        """Number of cells with one of the statuses."""
        return len(with_status(self.states, *wanted))


def cells_to_train(states: Sequence[CellState], retry_failed: bool = False) -> list[CellState]:
    """Cells that are neither finished nor in other hands; failed ones only on request."""
    return with_status(states, *(("new", "begun", "failed") if retry_failed else ("new", "begun")))


def run_cells(
    cells: Sequence[Cell],
    *,
    folder: Path | str,
    largest_pack: int | None = None,
    processes: int | None = None,
    budget: float | None = None,
    stop_after: float | None = None,
    retry_failed: bool = False,
    display: Display | None = None,
    finished: Finished | None = None,
    timed: Sequence[Result] = (),
) -> Outcome:
    """Train the cells that are not recorded as finished.

    Args:
        cells: runs of a grid, in the order in which they matter.
        folder: where records, checkpoints and weights go.
        largest_pack: most runs in a pack; by default what suits the device.
        processes: on a CPU, processes of one thread each that share a pack out; by default one a core.
        budget: seconds. A pack that would not end in time by the pace of like runs is not started, unless all of
            the budget is too short for a single run. One that takes longer is stopped at the deadline, saved, and
            goes on the next time.
        stop_after: seconds, in place of a budget. Packs are as large as without it, whether or not they end in
            time; the one that is training then is stopped, saved, and goes on the next time.
        retry_failed: also train cells that failed before; from their last good checkpoint where there is one.
        display: what is shown meanwhile.
        finished: called after each pack with the runs that it finished.
        timed: runs of results files, newest first, that tell how long runs take where the folder does not.
    """
    return _Runner(
        cells,
        Path(folder),
        largest_pack,
        processes,
        budget,
        stop_after,
        retry_failed,
        display,
        finished,
        timed,
    ).run()


class _Runner:
    def __init__(
        self,
        cells: Sequence[Cell],
        folder: Path,
        largest_pack: int | None,
        processes: int | None,
        budget: float | None,
        stop_after: float | None,
        retry_failed: bool,
        display: Display | None,
        finished: Finished | None,
        timed: Sequence[Result],
    ) -> None:
        if budget is not None and stop_after is not None:
            raise ValueError("budget and stop_after: expected one of them, got both")
        self.cells, self.folder, self.retry_failed, self.timed = cells, folder, retry_failed, timed
        self.budget, allowed = budget, stop_after if budget is None else budget
        self.deadline = None if allowed is None else time.monotonic() + allowed
        self.display, self.finished = display or Silence(), finished
        self.watch = Watch(folder, self.display)
        self.packs = 0  # that this call has started
        self.largest, self.processes, self.hardware = settled(cells, largest_pack, processes)
        self.first_costs_more = first_costs_more(cells[0])
        self.over: set[str] = set()  # hashes of cells that this call will not touch again
        self.alone: set[str] = set()  # hashes of cells that may have brought their pack down
        self.trained = 0

    def run(self) -> Outcome:
        with Store(self.folder) as store:
            try:
                with stoppable():
                    stopped = self._run(store)
            except Interrupted:
                stopped = "interrupted"
            return Outcome(states_of(self.cells, store), self.trained, stopped)

    def _run(self, store: Store) -> str | None:
        states = states_of(self.cells, store)
        warn_of_other_code(
            (state.cell.config, state.record)
            for state in with_status(states, "finished")
            if state.record is not None
        )
        if not self.retry_failed:
            self.over = {state.cell.config.hash for state in with_status(states, "failed")}
        if not self._waiting(store):
            return None
        first = self.cells[0].config
        require_data(first.dataset, first.image_size)
        clock = Clock(store.runs(), self.hardware, self.processes, self.timed)
        while waiting := self._waiting(store):
            pack = self._next(waiting, clock)
            if not pack:
                return "budget"
            require_writable(self.folder)  # else each pack would fail by itself, one after the other
            started = time.monotonic()
            stopped, error = self._train(pack)
            self._settle(pack, store, error, stopped is not None)
            if stopped is not None:
                return stopped
            clock.learn(store.runs(dataset=self.cells[0].config.dataset))
            if error is None:
                clock.measured(pack, time.monotonic() - started)
        return None

    def _waiting(self, store: Store) -> list[CellState]:
        states = cells_to_train(states_of(self.cells, store), retry_failed=True)
        return [state for state in states if state.cell.config.hash not in self.over]

    def _next(self, waiting: list[CellState], clock: Clock) -> list[CellState]:
        """The next pack that ends in time; empty where none does."""
        alone = [state for state in waiting if state.cell.config.hash in self.alone]
        others = [state for state in waiting if state.cell.config.hash not in self.alone]
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and self.packs == 0:
            left -= self.first_costs_more

        def fits(pack: Sequence[CellState]) -> bool:
            seconds = clock.seconds(pack)
            if left is None:
                return True
            if self.budget is None:  # what does not end in time is saved, but must have time to begin
                return left > clock.starting
            if seconds is None:  # nobody knows: as few as will tell
                return left > 0 and len(pack) <= max(1, self.processes)
            return seconds <= left

        pack = next_pack(others, self.largest, fits) or next_pack(alone[:1], 1, fits)
        if not pack and self.packs == 0:
            pack = self._longer_than_the_budget(waiting, clock)
        if pack:
            self.packs += 1
            times = [clock.seconds(each) for each in packs_of(waiting, self.largest)]
            known = None if None in times else sum(each for each in times if each is not None)
            self.display.pack(len(pack), sum(state.epochs_left for state in pack), known)
        return pack

    def _longer_than_the_budget(self, waiting: list[CellState], clock: Clock) -> list[CellState]:
        """Runs that take longer than the whole budget: begun all the same, or they would never be trained."""
        pack = next_pack(waiting, max(1, self.processes))
        seconds = clock.seconds(pack)
        if self.budget is None or seconds is None:
            return []
        if not seconds + self.first_costs_more > self.budget > 2 * clock.starting:
            return []
        return pack

    def _train(self, pack: list[CellState]) -> tuple[str | None, Exception | None]:
        """Train one pack; return why everything is to stop, and what brought this pack down, if anything."""
        from noiseproof.training import train_pack

        rang = threading.Event()
        try:
            with self.watch.over([state.cell for state in pack]), alarm(self.deadline, rang):
                train_pack(
                    [state.cell.config for state in pack],
                    folder=self.folder,
                    quiet=True,
                    processes=self.processes,
                    keep_going=True,
                )
        except Interrupted:
            return "budget" if rang.is_set() else "interrupted", None
        except Exception as error:  # also what no run could record, such as want of memory while loading
            return None, error
        return None, None

    def _settle(
        self, pack: list[CellState], store: Store, error: Exception | None, interrupted: bool
    ) -> None:
        """Note what became of a pack."""
        now = states_of([state.cell for state in pack], store)
        done = [state for state in now if state.status == "finished"]
        self.over.update(state.cell.config.hash for state in done)
        self.trained += len(done)
        if done and self.finished is not None:
            self.finished([store.get(state.record.id) for state in done if state.record is not None])
        if isinstance(error, RunIsLocked):
            self.display.say(f"{error.run_id} is in other hands; going on with other runs")
        elif not interrupted:
            self._blame(pack, now, store, error)

    def _blame(
        self, pack: list[CellState], now: list[CellState], store: Store, error: Exception | None
    ) -> None:
        """Find out who failed: whoever recorded it; of a pack that broke off unrecorded, each is tried alone."""
        failed, unknown = [], []
        for before, state in zip(pack, now, strict=True):
            if state.status == "failed" and (error is None or before.status != "failed" or len(pack) == 1):
                failed.append(state)
            elif state.status in ("new", "begun", "failed"):
                unknown.append(state)
        crowded = [state for state in failed if len(pack) > 1 and out_of_memory(state.record)]
        for state in failed:
            if state not in crowded:
                self.over.add(state.cell.config.hash)
        if crowded:
            self.largest = max(1, len(pack) // 2)
            self.display.say(f"memory is short: at most {self.largest} runs together from now on")
            for state in crowded:
                self.watch.forget(state.cell)
        elif unknown and not failed:
            if len(pack) == 1:
                record_failure(
                    store, pack[0].cell, error or RuntimeError("was not trained, for no known reason")
                )
                self.over.add(pack[0].cell.config.hash)
                self.watch.look([pack[0].cell], final=True)
            else:
                why = "" if error is None else explained(error)
                self.display.say(f"{why}: trying these {len(pack)} runs one by one")
                self.alone.update(state.cell.config.hash for state in unknown)


def settled(cells: Sequence[Cell], largest_pack: int | None, processes: int | None) -> tuple[int, int, str]:
    """Largest pack, processes and hardware, each what was asked for or what suits this machine."""
    from noiseproof.training.environment import choose_device, describe
    from noiseproof.training.processes import available_cores

    device = choose_device(cells[0].config.device)
    largest = largest_pack or LARGEST_PACK.get(device.type, 1)
    several = 1 if device.type != "cpu" else processes or available_cores()
    return largest, several, str(describe(device)["hardware"])


def first_costs_more(cell: Cell) -> float:
    """Seconds by which the first pack takes longer than its like."""
    from noiseproof.training.environment import choose_device

    return FIRST_ON_A_GPU if choose_device(cell.config.device).type == "cuda" else 0.0


def require_data(dataset: str, image_size: int | None = None) -> None:
    """Fail before anything is trained if the data set is not there."""
    from noiseproof.training.data import load_split

    load_split(dataset, "train", image_size)


def record_failure(store: Store, cell: Cell, error: BaseException) -> None:
    """Keep the error of a run that broke off before it could record anything."""
    config = cell.config
    store.begin(config.run_id, config.as_data(), config.hash, environment={}, noise={})
    store.fail(config.run_id, explained(error))


def out_of_memory(record: RunRecord | None) -> bool:
    """Whether a run failed for want of memory, which a smaller pack may have."""
    return record is not None and "out of memory" in (record.error or "").lower()


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into :class:`Interrupted` wherever the engine is not catching them itself.

    In the main thread only: elsewhere signals cannot be caught.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise Interrupted("the grid")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def alarm(deadline: float | None, rang: threading.Event) -> Iterator[None]:
    """Ask for a stop at the deadline as SIGTERM does; only in the main thread, where signals are caught."""
    if deadline is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring() -> None:
        rang.set()
        signal.raise_signal(signal.SIGTERM)

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
