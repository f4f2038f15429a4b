# SPDX-License-Identifier: Apache-2.0
"""Training a grid on a Ray cluster: packs become tasks, records and weights come back to the driver's folder.

Ray places tasks, watches machines and moves results; which packs there are, and what happens to those whose machine
is lost, is decided here. Ray is imported when it is used and is not needed otherwise.
"""

import hashlib
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import noiseproof
from noiseproof.datasets import DataError
from noiseproof.grids.collect import copy_record, hand_out, take_back, write_files
from noiseproof.grids.display import Display, Silence, Watch
from noiseproof.grids.grid import Cell
from noiseproof.grids.packs import LARGEST_PACK, packs_of
from noiseproof.grids.ray_worker import Returned, marker, train_pack_here
from noiseproof.grids.runner import (
    Finished,
    Outcome,
    cells_to_train,
    out_of_memory,
    record_failure,
)
from noiseproof.grids.states import CellState, states_of
from noiseproof.training.interruption import Interruption
from noiseproof.training.run_lock import locked
from noiseproof.training.store import Store

MOST_LOSSES = 3
"""How often a pack is given to another worker. One that ends every worker it meets is at fault itself."""

STOPPING_SECONDS = 60.0
"""How long to wait for workers to save when everything is to stop."""

KNOCKING_SECONDS = 10.0
"""How long a cluster's first machine may take to answer."""


def run_cells_on_ray(
    cells: Sequence[Cell],
    *,
    address: str,
    folder: Path,
    largest_pack: int | None = None,
    budget: float | None = None,
    retry_failed: bool = False,
    display: Display | None = None,
    finished: Finished | None = None,
    shared: bool = True,
) -> Outcome:
    """Train the cells that are not recorded as finished on a Ray cluster.

    Args:
        cells: runs of a grid, in the order in which they matter.
        address: of the cluster; ``"auto"`` for the one this machine belongs to, ``"local"`` for one of this
            machine alone.
        folder: where records and weights go. Where the workers see it under the same path, a pack whose worker is
            lost goes on from its checkpoints on another; elsewhere it is trained from the start.
        largest_pack: most runs in a task; by default 12 on a GPU and 1 on a CPU.
        budget: seconds after which no task is started and running ones are stopped.
        retry_failed: also train cells that failed before.
        display: what is shown meanwhile.
        finished: called after each task with the runs that it finished.
        shared: let workers look whether they see the folder; if not, they never use it.
    """
    ray = _import_ray()
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "ray-driver"), _connected(ray, address):
        for leftover in sorted((folder / "ray").glob("*")):  # of a driver that was killed
            take_back(leftover, folder)
        with _token(folder, shared) as token:
            driver = _Driver(ray, cells, folder, largest_pack, budget, retry_failed, display, finished, token)
            return driver.run()


class _Driver:
    def __init__(
        self,
        ray: Any,
        cells: Sequence[Cell],
        folder: Path,
        largest_pack: int | None,
        budget: float | None,
        retry_failed: bool,
        display: Display | None,
        finished: Finished | None,
        token: str,
    ) -> None:
        self.ray, self.cells, self.folder, self.token = ray, cells, folder, token
        self.retry_failed = retry_failed
        self.deadline = None if budget is None else time.monotonic() + budget
        self.display, self.finished = display or Silence(), finished
        self.watch = Watch(folder, self.display)
        resources = ray.cluster_resources()
        wants_gpu = cells[0].config.device != "cpu"
        self.device = "cuda" if wants_gpu and resources.get("GPU", 0) >= 1 else "cpu"
        self.places = int(resources.get("GPU" if self.device == "cuda" else "CPU", 0))
        self.largest = largest_pack or (LARGEST_PACK["cuda"] if self.device == "cuda" else 1)
        self.queue: list[list[CellState]] = []
        self.at_work: dict[Any, list[CellState]] = {}
        self.losses: dict[str, int] = {}
        self.trained = 0

    def run(self) -> Outcome:
        with Store(self.folder) as store:
            waiting = cells_to_train(states_of(self.cells, store), self.retry_failed)
            self.queue = packs_of(waiting, self.largest)
            kind = "GPU" if self.device == "cuda" else "CPU core"
            self.display.say(
                f"a cluster of {self.places} {kind}{'s' if self.places != 1 else ''}; "
                f"{len(waiting)} runs in {len(self.queue)} tasks"
            )
            # Not an exception, which must not pass through Ray's own code: a wish that is looked at.
            with Interruption() as interruption:
                try:
                    stopped = self._work(store, interruption)
                finally:
                    self._stop(store)
            return Outcome(states_of(self.cells, store), self.trained, stopped)

    def _work(self, store: Store, interruption: Interruption) -> str | None:
        while self.queue or self.at_work:
            if interruption.requested:
                return "interrupted"
            if self.deadline is not None and time.monotonic() > self.deadline:
                return "budget"
            # Without a budget Ray has them all at once, and knows what machines to ask for.
            while self.queue and (self.deadline is None or len(self.at_work) < max(1, self.places)):
                self._submit(self.queue.pop(0))
            done, _ = self.ray.wait(list(self.at_work), timeout=0.5)
            for task in done:
                self._take(task, store)
        return None

    def _submit(self, pack: list[CellState]) -> None:
        name = _name(pack)
        if self.token:
            hand_out(pack, self.folder, self.folder / "ray" / name)
        needs = {"num_cpus": 1, "num_gpus": 1} if self.device == "cuda" else {"num_cpus": 1}
        train = self.ray.remote(train_pack_here).options(max_retries=0, name=f"noiseproof-{name}", **needs)
        configs = [state.cell.config.as_data() for state in pack]
        task = train.remote(configs, str(self.folder), self.token, name, self.device, noiseproof.__version__)
        self.at_work[task] = pack

    def _take(self, task: Any, store: Store) -> None:
        """Take what a task brought back, or give its pack to another worker."""
        pack = self.at_work.pop(task)
        try:
            returned: Returned = self.ray.get(task)
        except self.ray.exceptions.RayTaskError as error:
            returned = Returned(error=str(error.cause) if getattr(error, "cause", None) else str(error))
        except self.ray.exceptions.RayError as error:
            self._lost(pack, store, f"its worker was lost ({type(error).__name__})")
            return
        if returned.locked:
            time.sleep(1.0)  # a worker that was given up is still ending
            self._lost(pack, store, returned.error or "a run is in other hands")
            return
        self._collect(pack, store, returned)
        if returned.no_data:
            raise DataError(f"on a machine of the cluster: {returned.error}")

    def _collect(self, pack: list[CellState], store: Store, returned: Returned) -> None:
        done = []
        for record in returned.records:
            if record.status == "finished":
                write_files(returned.files.get(record.id, {}), self.folder / record.id)
                copy_record(record, store)
                done.append(store.get(record.id))
            elif record.status == "failed":
                copy_record(record, store)
        take_back(self.folder / "ray" / _name(pack), self.folder)
        self.trained += len(done)
        if done and self.finished is not None:
            self.finished(done)
        if not returned.no_data:
            self._settle(pack, store, returned)
        self.watch.look([state.cell for state in pack], final=True)

    def _settle(self, pack: list[CellState], store: Store, returned: Returned) -> None:
        """See to cells that did not finish: fewer together, one by one, or failed."""
        failed = {record.config_hash: record for record in returned.records if record.status == "failed"}
        now = states_of([state.cell for state in pack], store)
        crowded = [state for state in now if out_of_memory(failed.get(state.cell.config.hash))]
        unknown = [
            state for state in now if state.status != "finished" and state.cell.config.hash not in failed
        ]
        if len(pack) > 1:
            if crowded:
                half = max(1, len(pack) // 2)
                self.display.say(f"memory is short: {half} runs together instead of {len(pack)}")
                self.queue[:0] = [crowded[i : i + half] for i in range(0, len(crowded), half)]
            self.queue[:0] = [[state] for state in unknown]
        elif unknown:
            record_failure(store, unknown[0].cell, RuntimeError(returned.error or "was not trained"))

    def _lost(self, pack: list[CellState], store: Store, why: str) -> None:
        name = _name(pack)
        self.losses[name] = self.losses.get(name, 0) + 1
        if self.losses[name] <= MOST_LOSSES:
            self.display.say(f"{', '.join(state.cell.config.run_id for state in pack)}: {why}; trained again")
            self.queue.insert(0, pack)
            return
        take_back(self.folder / "ray" / name, self.folder)
        for state in pack:
            if not store.find(state.cell.config.hash):
                record_failure(store, state.cell, RuntimeError(f"{why}, {self.losses[name]} times"))
        self.watch.look([state.cell for state in pack], final=True)

    def _stop(self, store: Store) -> None:
        """Ask workers to save and stop; take what they have finished and, where they share the folder, saved."""
        for task in self.at_work:
            with suppress(self.ray.exceptions.RayError):
                self.ray.cancel(task)
        deadline = time.monotonic() + STOPPING_SECONDS
        while self.at_work and time.monotonic() < deadline:
            done, _ = self.ray.wait(list(self.at_work), timeout=0.5)
            for task in done:
                pack = self.at_work.pop(task)
                with suppress(self.ray.exceptions.RayError):
                    returned: Returned = self.ray.get(task)
                    for record in returned.records:
                        if record.status == "finished":
                            write_files(returned.files.get(record.id, {}), self.folder / record.id)
                            copy_record(record, store)
                take_back(self.folder / "ray" / _name(pack), self.folder)
        self.at_work.clear()


def _name(pack: Sequence[CellState]) -> str:
    """Name of a pack: the same for the same runs."""
    together = ",".join(sorted(state.cell.config.hash for state in pack))
    return hashlib.sha256(together.encode()).hexdigest()[:16]


@contextmanager
def _token(folder: Path, shared: bool) -> Iterator[str]:
    """Leave a file in the folder by which workers know it; an empty token where they are not to look."""
    if not shared:
        yield ""
        return
    token = secrets.token_hex(8)
    file = marker(folder, token)
    file.touch()
    try:
        yield token
    finally:
        file.unlink(missing_ok=True)


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """A connection to the cluster, closed after; one that stands already is used and left as it is."""
    if ray.is_initialized():
        yield
        return
    options = {"include_dashboard": False} if address == "local" else {}
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level="WARNING", **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        # Ray 2.60 may ask for a token, and sends it unasked only to a cluster that it found itself.
        told = "" if address in ("auto", "local") else "; if it asks for a token, set RAY_AUTH_MODE=token"
        raise RuntimeError(
            f"no Ray cluster at {address!r}: {str(error).rstrip('.')}. Start one with `ray start --head`, or say "
            f"--ray local{told}"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """See whether anything listens at ``HOST:PORT``: Ray itself waits many minutes, deaf to Ctrl-C."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        try:
            socket.create_connection((host.strip("[]"), int(port)), KNOCKING_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(f"nothing answers there ({error})") from error


def _import_ray() -> Any:
    from importlib import import_module

    try:
        ray = import_module("ray")
        import_module("ray.exceptions")
    except ImportError as error:
        raise ImportError("--ray needs Ray: pip install 'noiseproof[ray]'") from error
    return ray
