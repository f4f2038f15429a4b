# SPDX-License-Identifier: Apache-2.0
"""Processes that decode image files straight into shared memory.

Pixels never travel through a pipe: every worker writes its samples into a ring of batches that all processes
share, so memory is bounded by the ring and a finished batch costs the reader one copy. Each worker has a pipe
of its own and there is no lock, so a worker that dies cannot leave the others waiting; a shared note of the
sample each worker is on names the file when that happens.
"""

import contextlib
import json
import multiprocessing
import signal
from collections.abc import Sequence
from ctypes import c_int64, c_uint8
from multiprocessing import connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets.decode import Fit
from noiseproof.datasets.errors import BadFileError, DataError

_HEADER = 4  # numbers before the sample indices of a task: generation, epoch, slot, first row
_IDLE = -1
_DONE, _FAILED = b"D", b"F"
_LARGEST_TASK = 16
_PATIENCE_S = 5.0  # how long a worker may take to stop by itself


class WorkerDiedError(DataError, RuntimeError):
    """A decode worker ended without being asked to: killed, out of memory, or crashed in a codec.

    Args:
        message: which worker, how, and at which file.
        for_want_of_memory: whether memory may be the reason, so that fewer workers may do.
    """

    def __init__(self, message: str, for_want_of_memory: bool = False) -> None:
        super().__init__(message)
        self.for_want_of_memory = for_want_of_memory


def random_for(seed: int, epoch: int, sample: int) -> np.random.Generator:
    """Return the random numbers of one sample in one epoch, the same whichever worker decodes it.

    Example:
        >>> random_for(1, 0, 7).random() == random_for(1, 0, 7).random()
        True
        >>> random_for(1, 0, 7).random() == random_for(1, 1, 7).random()
        False
    """
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, sample, epoch]))


class DecodePool:
    """Decode workers and their ring of batches.

    Args:
        paths: the file of each sample.
        fit: how a picture becomes an array.
        seed: of the random fits.
        num_workers: how many processes.
        slots: how many batches the ring holds.
        batch_size: rows of a batch.
        start_method: ``"fork"``, ``"forkserver"`` or ``"spawn"``; by default the platform's.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        fit: Fit,
        *,
        seed: int,
        num_workers: int,
        slots: int,
        batch_size: int,
        start_method: str | None = None,
    ) -> None:
        context: Any = multiprocessing.get_context(start_method)
        self._paths = paths
        shape = (slots, batch_size, *fit.shape)
        pixels = context.RawArray(c_uint8, int(np.prod(shape)))
        self._ring = np.frombuffer(pixels, dtype=np.uint8).reshape(shape)
        self._at = context.RawArray(c_int64, [_IDLE] * num_workers)
        self._generation = context.RawValue(c_int64, 0)
        self._tasks_of_worker = [0] * num_workers
        self._tasks_of_slot = [0] * slots
        self._pipes: list[connection.Connection] = []
        self._processes: list[Any] = []
        self._task_size = max(1, min(_LARGEST_TASK, -(-batch_size // (2 * num_workers))))
        try:
            for number in range(num_workers):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_work,
                    args=(number, theirs, paths, fit, seed, pixels, shape, self._at, self._generation),
                    name=f"noiseproof-decode-{number}",
                    daemon=True,
                )
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)
        except BaseException:
            self.close()
            raise

    def submit(self, slot: int, samples: NDArray[np.int64], epoch: int) -> None:
        """Have ``samples`` decoded into the first rows of a free slot."""
        for first in range(0, len(samples), self._task_size):
            worker = min(range(len(self._pipes)), key=self._tasks_of_worker.__getitem__)
            header = [self._generation.value, epoch, slot, first]
            task = np.concatenate((header, samples[first : first + self._task_size])).astype(np.int64)
            try:
                self._pipes[worker].send_bytes(task.tobytes())
            except OSError:
                self._report_death(worker)
            self._tasks_of_worker[worker] += 1
            self._tasks_of_slot[slot] += 1

    def wait_for(self, slot: int) -> NDArray[np.uint8]:
        """Wait until a slot is decoded and return it; valid until the slot is submitted again."""
        while self._tasks_of_slot[slot]:
            self._take_answers()
        rows: NDArray[np.uint8] = self._ring[slot]
        return rows

    def cancel(self) -> None:
        """Drop every task not yet begun and wait for those under way, so that every slot is free."""
        self._generation.value += 1
        while any(self._tasks_of_worker):
            self._take_answers()

    def close(self) -> None:
        """Stop the workers: ask, then insist. Safe to call twice."""
        self._generation.value += 1
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send_bytes(b"")
        for process in self._processes:
            process.join(_PATIENCE_S)
            if process.is_alive():
                process.terminate()
                process.join(_PATIENCE_S)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for pipe in self._pipes:
            pipe.close()
        self._processes, self._pipes = [], []

    def _take_answers(self) -> None:
        """Wait for at least one answer, or for a death, and take all that have come."""
        sentinels = {process.sentinel: number for number, process in enumerate(self._processes)}
        ready = connection.wait([*self._pipes, *sentinels])
        for worker, pipe in enumerate(self._pipes):
            if pipe in ready:
                try:
                    while pipe.poll():
                        self._take(worker, pipe.recv_bytes())
                except (EOFError, OSError):
                    self._report_death(worker)
        for sentinel, worker in sentinels.items():
            if sentinel in ready:
                self._report_death(worker)

    def _take(self, worker: int, answer: bytes) -> None:
        kind, body = answer[:1], answer[1:]
        if kind == _FAILED:
            failure = json.loads(body)
            if "bad_file" in failure:
                raise BadFileError(*failure["bad_file"])
            if failure.get("memory"):
                raise WorkerDiedError(failure["message"], for_want_of_memory=True)
            raise DataError(failure["message"])
        slot = int.from_bytes(body, "little")
        self._tasks_of_worker[worker] -= 1
        self._tasks_of_slot[slot] -= 1

    def _report_death(self, worker: int) -> None:
        process = self._processes[worker]
        process.join(_PATIENCE_S)
        code = process.exitcode
        how = f"exit code {code}"
        advice = ""
        killed = code is not None and -code == getattr(signal, "SIGKILL", None)
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
            if killed:
                advice = "; this is what the system does when memory runs out: try fewer workers or smaller batches"
        sample = self._at[worker]
        where = "between two samples"
        if sample != _IDLE:
            where = f"while reading {self._paths[sample]} (sample {sample})"
        raise WorkerDiedError(f"decode worker {worker} died ({how}) {where}{advice}", killed)


def _work(
    number: int,
    pipe: connection.Connection,
    paths: Sequence[Path],
    fit: Fit,
    seed: int,
    pixels: Any,
    shape: tuple[int, ...],
    at: Any,
    generation: Any,
) -> None:
    """Serve tasks until told to stop or until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it then stops us
    ring = np.frombuffer(pixels, dtype=np.uint8).reshape(shape)
    parent = multiprocessing.parent_process()
    sources: list[Any] = [pipe] if parent is None else [pipe, parent.sentinel]
    while True:
        # Siblings may hold a copy of the parent's end of our pipe, so its closing alone would not tell.
        if pipe not in connection.wait(sources):
            return
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        if not message:
            return
        task = np.frombuffer(message, dtype=np.int64)
        its_generation, epoch, slot, first = (int(number) for number in task[:_HEADER])
        answer = _DONE + slot.to_bytes(8, "little")
        for row, sample in enumerate(task[_HEADER:].tolist(), start=first):
            if generation.value != its_generation:
                break
            at[number] = sample
            try:
                ring[slot, row] = fit.read(paths[sample], random_for(seed, epoch, sample))
            except BadFileError as error:
                fields = [str(error.path), error.expected, error.found, error.advice]
                answer = _FAILED + json.dumps({"bad_file": fields}).encode()
                break
            except MemoryError:
                message_text = (
                    f"decode worker {number} had too little memory while reading {paths[sample]} (sample {sample})"
                    "; try fewer workers or smaller batches"
                )
                answer = _FAILED + json.dumps({"message": message_text, "memory": True}).encode()
                break
            except Exception as error:
                message_text = f"{paths[sample]}: decoding failed with {type(error).__name__}: {error}"
                answer = _FAILED + json.dumps({"message": message_text}).encode()
                break
        at[number] = _IDLE
        try:
            pipe.send_bytes(answer)
        except OSError:
            return
