# SPDX-License-Identifier: Apache-2.0
"""A pack on a CPU: several processes of one thread each, which small networks use better than threads.

Two threads in one small network spend most of their time waiting for one another, the more so when anything else
runs on the machine. Two processes do not.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from noiseproof.plugins import explained, import_plugins, own_place
from noiseproof.training import progress
from noiseproof.training.config import Config
from noiseproof.training.interruption import Interrupted, Interruption
from noiseproof.training.store import Store

OUT_OF_MEMORY = 88
"""Exit code of a process that could not have the memory it asked for."""

STOPPED = 130
"""Exit code of a process that Ctrl-C ended at once."""

LONGEST_WAIT = 0.1
"""Seconds between looks at whether somebody wishes to stop."""

KILLED = (-getattr(signal, "SIGKILL", 9), 128 + 9)
"""Exit codes of a process that the system killed, as it does when memory runs out."""


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def train_in_processes(
    configs: Sequence[Config],
    folder: Path,
    processes: int,
    quiet: bool,
    sinks: Sequence[str],
    keep_going: bool = False,
) -> None:
    """Share configs out among processes and wait for all; the first that fails ends with its error.

    Where a process is killed, or ends for want of memory, what it left goes on in half as many. Ctrl-C reaches
    every process of the terminal's group, so each saves its own runs.
    """
    left = list(configs)
    with Store(folder) as store:
        failed_before = {config.run_id: _failed(config, store) for config in configs}
    while True:
        lost = _train_at_once(left, folder, processes, quiet, sinks, keep_going)
        if lost is None:
            return
        with Store(folder) as store:
            unfinished = [config for config in left if not store.find(config.hash)]
            left = [each for each in unfinished if _failed(each, store) in (None, failed_before[each.run_id])]
        if not left:
            return
        if processes == 1:
            raise RuntimeError(
                f"a training process {lost}, also with no other beside it; what was finished is kept: free memory "
                "or make the batch smaller, then start again to go on"
            )
        processes = max(1, min(processes, len(left)) // 2)
        with progress.shown(quiet) as shown:
            shown.say(f"a training process {lost}: {processes} at a time, then")


def _failed(config: Config, store: Store) -> str | None:
    """When a run failed for a reason of its own, if it did: it is not tried again."""
    try:
        record = store.get(config.run_id, epochs=False)
    except LookupError:
        return None
    return record.ended if record.status == "failed" else None


def _train_at_once(
    configs: Sequence[Config],
    folder: Path,
    processes: int,
    quiet: bool,
    sinks: Sequence[str],
    keep_going: bool,
) -> str | None:
    """Train configs in so many processes; say how one was lost, if one was."""
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    errors = context.SimpleQueue()
    workers = [
        context.Process(
            target=_work,
            args=(list(configs[i::processes]), folder, quiet, list(sinks), keep_going, errors),
        )
        for i in range(processes)
    ]
    with Interruption() as interruption:
        with _deaf_to_ctrl_c():
            for worker in workers:
                worker.start()
        found = _wait_for(workers, errors, interruption)
    if found:
        raise found[0]
    if interruption.requested:
        raise Interrupted(configs[0].run_id)
    died = [worker.exitcode for worker in workers if worker.exitcode]
    if not died:
        return None
    if OUT_OF_MEMORY in died:
        return "had too little memory"
    if died[0] in KILLED:
        return "was killed, perhaps for want of memory"
    raise RuntimeError(
        f"a training process died (exit code {died[0]}); what it had finished is kept: start again to go on"
    )


def _wait_for(workers: Sequence[BaseProcess], errors: Any, interruption: Interruption) -> list[Exception]:
    """Wait until all have ended, and return their errors; pass on a wish to stop.

    At once, however many there are: a terminal's Ctrl-C has reached them too, and one that is asked again later
    stops without saving. Errors are taken as they come: what does not fit into a pipe would wait for ever.
    """
    found: list[Exception] = []
    passed_on = False
    while alive := [worker for worker in workers if worker.is_alive()]:
        if interruption.requested and not passed_on:
            passed_on = True
            for worker in alive:
                worker.terminate()  # SIGTERM, which a run takes as a wish to stop after its step
        connection.wait([worker.sentinel for worker in alive], LONGEST_WAIT)
        while not errors.empty():
            found.append(errors.get())
    while not errors.empty():  # of the last one, which may have ended since
        found.append(errors.get())
    return found


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes started in here keep Ctrl-C waiting while they import what they need: the parent answers it.

    Without that a Ctrl-C in their first second or two would end them with a page of traceback each.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(
    configs: list[Config], folder: Path, quiet: bool, sinks: list[str], keep_going: bool, errors: object
) -> None:
    try:
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        import torch

        from noiseproof.training.engine import train_pack

        torch.set_num_threads(1)
        _stop_when_alone()
        import_plugins()
        train_pack(configs, folder=folder, quiet=quiet, sinks=sinks, keep_going=keep_going)
    except KeyboardInterrupt:  # before a run could take it, or pressed twice: the parent says so
        raise SystemExit(STOPPED) from None
    except MemoryError:
        raise SystemExit(OUT_OF_MEMORY) from None
    except Exception as error:  # the parent raises it again
        if is_of_memory(error):
            raise SystemExit(OUT_OF_MEMORY) from None
        errors.put(_sendable(error))  # type: ignore[attr-defined]


def _stop_when_alone() -> None:
    """Save and stop if the parent is killed: nobody else would end this process, which holds its runs."""
    parent = multiprocessing.parent_process()
    if parent is None or sys.platform == "win32":
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _sendable(error: Exception) -> Exception:
    """An error as another process can read it: a class of the user's own may not be made again from its message."""
    place = own_place(error)  # its frames do not go along, so the place is written down
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever code of the user's raises
        return RuntimeError(explained(error) if place else f"{type(error).__name__}: {error}")
    return error


def is_of_memory(error: Exception) -> bool:
    """Whether torch could not have the memory it asked for; it has no class of its own for that on a CPU."""
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
