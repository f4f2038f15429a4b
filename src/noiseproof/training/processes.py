"""A pack on a CPU: several processes of one thread each, which small networks use better than threads.

Two threads in one small network spend most of their time waiting for one another, the more so when anything else
runs on the machine. Two processes do not.
"""

import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path

from noiseproof.training.config import Config


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

    Ctrl-C reaches every process of the terminal's group, so each saves its own runs.
    """
    from noiseproof.training.interruption import Interrupted, Interruption

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
        for worker in workers:
            worker.start()
        passed_on = False
        while any(worker.is_alive() for worker in workers):
            for worker in workers:
                worker.join(0.1)
            if interruption.requested and not passed_on:
                passed_on = True
                for worker in workers:
                    if worker.is_alive():
                        worker.terminate()  # SIGTERM, which a run takes as a wish to stop after its step
    if not errors.empty():
        raise errors.get()
    if interruption.requested:
        raise Interrupted(configs[0].run_id)
    died = [worker.exitcode for worker in workers if worker.exitcode]
    if died:
        raise RuntimeError(
            f"a training process died (exit code {died[0]}), perhaps for want of memory; what it had finished is "
            "kept: start again to go on"
        )


def _work(
    configs: list[Config], folder: Path, quiet: bool, sinks: list[str], keep_going: bool, errors: object
) -> None:
    import torch

    from noiseproof.training.engine import train_pack

    torch.set_num_threads(1)
    try:
        train_pack(configs, folder=folder, quiet=quiet, sinks=sinks, keep_going=keep_going)
    except Exception as error:  # the parent raises it again
        errors.put(error)  # type: ignore[attr-defined]
