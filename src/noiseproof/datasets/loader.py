# SPDX-License-Identifier: Apache-2.0
"""A loader for sets too large for memory: decoded by workers, shuffled from a seed, resumable at any step.

Why not ``torch.utils.data.DataLoader``: when a worker dies it says which process, not which file; it has no
place to resume from; and each batch is collated in one worker, so the first batch of an epoch waits for one
process to decode all of it. Here all workers share the rows of a batch and write into memory set up once.
"""

import contextlib
import os
import warnings
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noiseproof.datasets.decode import Fit
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.loader_workers import DecodePool, WorkerDiedError, random_for

_ORDER_STREAM = 1 << 64  # above every seed: the order never shares random numbers with the samples


class Batch(NamedTuple):
    """What the loader yields.

    Attributes:
        images: uint8 of shape (N, C, H, W), laid out in memory as channels-last.
        labels: int64 of shape (N,).
        indices: int64 of shape (N,): each sample's place in the data set.
    """

    images: Tensor
    labels: Tensor
    indices: Tensor


@dataclass(frozen=True)
class Place:
    """Where a loader stands: the next batch is number ``step`` of epoch ``epoch``, both from 0."""

    epoch: int = 0
    step: int = 0


def order_of_epoch(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the order of the samples in an epoch: a permutation that depends on seed and epoch alone.

    Sorted by the raw 64-bit output of the Philox generator, whose stream NumPy guarantees, so that the order
    is the same on every machine and with every version.

    Example:
        >>> order_of_epoch(8, seed=1, epoch=0)
        array([0, 6, 5, 3, 4, 7, 2, 1])
    """
    keys = np.random.Philox(key=_ORDER_STREAM + seed, counter=[0, 0, 0, epoch]).random_raw(count)
    return np.argsort(keys, kind="stable").astype(np.int64)


class _SupersededError(RuntimeError):
    pass


class StreamingLoader:
    """Batches of a data set whose images are decoded on demand.

    Iterating gives the rest of the current epoch and moves on to the next one, so
    ``for epoch in range(loader.place.epoch, epochs): for batch in loader: ...`` also continues a run that was
    stopped, once :meth:`load_state_dict` has been called. Workers start with the first batch and stay until
    :meth:`close`, the end of a ``with`` block, or an exception. Where one is killed, or gets no memory, a warning
    says so and half as many go on with the same batches.

    Memory is bounded by ``(prefetch + 1) × batch_size`` decoded images, whatever the consumer does.

    Args:
        data: a set with ``paths``; one with ``images`` in memory is served too, without workers.
        fit: how pictures are brought to one size; ``None`` for images in memory.
        batch_size: samples a batch.
        seed: of order and random fits; one seed gives the same batches with any number of workers.
        shuffle: a new order each epoch, or the order of the data.
        drop_last: leave out the last batch of an epoch when it is not full.
        num_workers: processes; 0 decodes in this one, ``None`` takes as many as this process has cores.
        prefetch: batches decoded ahead.
        pin_memory: give images in page-locked memory, from which a GPU copies without waiting.
        start_method: of the processes; ``None`` is the platform's, as set by :mod:`multiprocessing`.

    Example:
        >>> data = LabeledData(
        ...     name="mine",
        ...     split="train",
        ...     labels=np.arange(5),
        ...     class_names=tuple("abcde"),
        ...     images=np.zeros((5, 8, 8, 3), dtype=np.uint8),
        ... )
        >>> loader = StreamingLoader(data, None, batch_size=2, shuffle=False)
        >>> [batch.indices.tolist() for batch in loader]
        [[0, 1], [2, 3], [4]]
        >>> loader.place
        Place(epoch=1, step=0)
    """

    def __init__(
        self,
        data: LabeledData,
        fit: Fit | None,
        batch_size: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        num_workers: int | None = None,
        prefetch: int = 4,
        pin_memory: bool = False,
        start_method: str | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, got {batch_size}")
        if not 0 <= seed < 1 << 63:
            raise ValueError(f"seed must lie in 0..2**63 - 1, got {seed}")
        if num_workers is not None and num_workers < 0:
            raise ValueError(f"num_workers must be 0 or more, got {num_workers}")
        if prefetch < 1:
            raise ValueError(f"prefetch must be 1 or more, got {prefetch}")
        if data.paths is not None and fit is None:
            raise ValueError(f"fit must say how the images of {data.name} get one size, got None")
        if data.images is not None and fit is not None:
            raise ValueError(f"fit must be None for {data.name}, whose images are in memory, got {fit}")
        if data.masks is not None:
            raise ValueError(f"{data.name} has masks, which this loader does not yield; index its arrays")
        if len(data) == 0 or (drop_last and len(data) < batch_size):
            raise ValueError(f"{data.name} must hold at least one batch, got {len(data)} samples")
        self.data = data
        self.fit = fit
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.num_workers = _cores() if num_workers is None else num_workers
        self.prefetch = prefetch
        self.pin_memory = pin_memory
        self._start_method = start_method
        self._place = Place()
        self._iteration = 0
        self._pool: DecodePool | None = None

    def __len__(self) -> int:
        """How many batches an epoch has."""
        full, rest = divmod(len(self.data), self.batch_size)
        return full if self.drop_last or not rest else full + 1

    @property
    def place(self) -> Place:
        """The next batch: that after the last one handed out."""
        return self._place

    def state_dict(self) -> dict[str, Any]:
        """Return the place and what it depends on, as plain numbers to be saved with a checkpoint."""
        return {**asdict(self._place), **self._settings()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved place; a loader that would go on in another order is refused."""
        for name, ours in self._settings().items():
            if state.get(name) != ours:
                raise ValueError(
                    f"the saved place was in batches of another order: {name} was {state.get(name)}, "
                    f"this loader has {ours}; make the loader as it was"
                )
        place = Place(int(state["epoch"]), int(state["step"]))
        if place.epoch < 0 or not 0 <= place.step < len(self):
            raise ValueError(f"step must lie in 0..{len(self) - 1} of epoch 0 or later, got {place}")
        self._iteration += 1
        self._place = place

    def _settings(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "samples": len(self.data),
        }

    def __iter__(self) -> Iterator[Batch]:
        """Yield the rest of the current epoch."""
        self._iteration += 1
        if self.num_workers == 0 or self.data.paths is None:
            return self._iterate_here(self._iteration)
        return self._iterate_pool(self._iteration)

    def _iterate_here(self, iteration: int) -> Iterator[Batch]:
        epoch, start = self._place.epoch, self._place.step
        order = self._order(epoch)
        for step in range(start, len(self)):
            self._check_current(iteration)
            samples = self._samples(order, step)
            pixels = (
                self.data.images[samples] if self.data.images is not None else self._decode(samples, epoch)
            )
            yield self._hand_out(pixels, samples, epoch, step)

    def _decode(self, samples: NDArray[np.int64], epoch: int) -> NDArray[np.uint8]:
        assert self.fit is not None
        assert self.data.paths is not None
        pixels = np.empty((len(samples), *self.fit.shape), dtype=np.uint8)
        for row, sample in enumerate(samples.tolist()):
            pixels[row] = self.fit.read(self.data.paths[sample], random_for(self.seed, epoch, sample))
        return pixels

    def _iterate_pool(self, iteration: int) -> Iterator[Batch]:
        """Batches by the workers; where one dies as for want of memory, half as many go on from the same batch."""
        epoch, step = self._place.epoch, self._place.step
        while step < len(self):
            try:
                with contextlib.closing(self._iterate_workers(iteration, epoch, step)) as batches:
                    for batch in batches:
                        yield batch
                        step += 1
            except WorkerDiedError as error:
                if not error.for_want_of_memory or self.num_workers == 1:
                    raise
                self.num_workers //= 2
                text = f"{error}; continuing with {self.num_workers} worker{'s' * (self.num_workers > 1)}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _iterate_workers(self, iteration: int, epoch: int, start: int) -> Generator[Batch, None, None]:
        order = self._order(epoch)
        try:
            pool = self._running_pool()
            pool.cancel()
            ahead = min(start + self.prefetch, len(self))
            for step in range(start, ahead):
                pool.submit(step % self.prefetch, self._samples(order, step), epoch)
            for step in range(start, len(self)):
                self._check_current(iteration)
                samples = self._samples(order, step)
                batch = self._hand_out(
                    pool.wait_for(step % self.prefetch)[: len(samples)], samples, epoch, step
                )
                # The slot is copied out and free: the workers go on while the consumer has this batch.
                if ahead < len(self):
                    pool.submit(ahead % self.prefetch, self._samples(order, ahead), epoch)
                    ahead += 1
                yield batch
        except (GeneratorExit, _SupersededError):  # the workers stay for the next iteration
            raise
        except BaseException:
            self.close()
            raise

    def _running_pool(self) -> DecodePool:
        if self._pool is None:
            assert self.fit is not None
            assert self.data.paths is not None
            self._pool = DecodePool(
                self.data.paths,
                self.fit,
                seed=self.seed,
                num_workers=self.num_workers,
                slots=self.prefetch,
                batch_size=min(self.batch_size, len(self.data)),
                start_method=self._start_method,
            )
        return self._pool

    def _check_current(self, iteration: int) -> None:
        if iteration != self._iteration:
            raise _SupersededError("this iteration was ended by a newer one over the same loader")

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if self.shuffle:
            return order_of_epoch(len(self.data), self.seed, epoch)
        return np.arange(len(self.data), dtype=np.int64)

    def _samples(self, order: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        return order[step * self.batch_size : (step + 1) * self.batch_size]

    def _hand_out(
        self, pixels: NDArray[np.uint8], samples: NDArray[np.int64], epoch: int, step: int
    ) -> Batch:
        images = torch.empty(pixels.shape, dtype=torch.uint8, pin_memory=self.pin_memory)
        np.copyto(images.numpy(), pixels)
        self._place = Place(epoch, step + 1) if step + 1 < len(self) else Place(epoch + 1, 0)
        labels = torch.from_numpy(self.data.labels[samples])
        return Batch(images.permute(0, 3, 1, 2), labels, torch.from_numpy(samples.copy()))

    def close(self) -> None:
        """Stop the workers; the place is kept, and iterating starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def __enter__(self) -> "StreamingLoader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self.close()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
