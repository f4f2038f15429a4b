# SPDX-License-Identifier: Apache-2.0
"""Batches in advance: steps of a run lie augmented on the device before they are taken.

A window has two halves. While the steps of one are taken, the other is filled, a block of steps at a time and on a
stream of its own. An augmentation is many small kernels: filled between two epochs, a GPU would be idle for as long
as the host needs to launch them.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from noiseproof.training.run import Run
from noiseproof.training.streams import generator, order_of_epoch

BLOCK = 32
"""Steps whose images are augmented with one draw. Fixed, so that a result does not depend on free memory."""

WINDOW_BYTES = 1 << 30
"""Images that a window holds, at most, for each run."""


def steps_in_half(runs: Sequence[Run], window_bytes: int) -> int:
    """Steps for which half of a window has room: whole blocks, an epoch at most."""
    first = runs[0]
    _, height, width = first.data.image_shape
    numbers = height * width * max(run.input_channels for run in runs)
    numbers += first.data.num_classes * first.labels.given[0].numel()  # logits
    one_step = first.config.batch_size * numbers * 4
    blocks = max(1, window_bytes // (2 * one_step * BLOCK))
    return min(blocks, -(-first.batches.steps // BLOCK)) * BLOCK


class Window:
    """Some steps of one run, ready to be taken: their images and labels, and what comes of each.

    Attributes:
        images: (places x batch, H, W, C), augmented and normalised; a place holds a step.
        given: labels (places x batch,), or masks (places x batch, H, W), which are bytes.
        flipped: of masks, where they are wrong.
        directions: of the Jacobian's projections, where it is asked for.
        logits: what the network said (places x batch, K, …).
        losses: mean loss of each step.
        norms: norm of each step's gradient.
    """

    def __init__(self, run: Run, half_steps: int) -> None:
        self.run, self.half_steps = run, half_steps
        places = 2 * half_steps
        rows = places * run.config.batch_size
        self.channels, height, width = run.data.image_shape
        device = run.device
        dtype = torch.bfloat16 if run.config.precision == "bf16" else torch.float32
        shape = (rows, height, width, run.input_channels)
        self.images = torch.zeros(shape, dtype=dtype, device=device)
        self.indices = torch.zeros(rows, dtype=torch.int64, device=device)
        pixels = run.labels.given.shape[1:]
        self.given = torch.zeros(rows, *pixels, dtype=run.labels.given.dtype, device=device)
        self.flipped = torch.zeros(rows, *pixels, dtype=torch.bool, device=device) if pixels else None
        by_class = (rows, run.data.num_classes)
        self.directions = torch.zeros(by_class, device=device) if run.config.jacobian else None
        self.logits = torch.zeros(*by_class, *pixels, device=device)
        self.losses = torch.zeros(places, device=device)
        self.norms = torch.zeros(places, device=device)
        self._order: tuple[int, Tensor] = -1, self.indices

    def filled_on(self, stream: torch.cuda.Stream) -> None:
        """Keep the memory, when the window goes, until what was begun on this stream has ended."""
        for tensor in (self.images, self.indices, self.given, self.flipped, self.directions):
            if tensor is not None:
                tensor.record_stream(stream)

    def blocks(self, first_step: int) -> range:
        """First steps of the blocks that half a window has from ``first_step`` on."""
        return range(first_step, min(first_step + self.half_steps, self.run.batches.steps), BLOCK)

    def fill(self, epoch: int, first_step: int, half: int) -> Iterator[None]:
        """Augment the images of the steps from ``first_step`` on into a half, yielding after each block."""
        run, size = self.run, self.run.config.batch_size
        assert run.data.images is not None
        order = self._order_of(epoch)
        for begin in self.blocks(first_step):
            indices = order[begin * size : (begin + BLOCK) * size]
            start = (half * self.half_steps + begin - first_step) * size
            rows = slice(start, start + len(indices))
            random = generator(run.device, run.config.seed, "augmentation", epoch, begin)
            images = run.data.recipe.for_training(run.data.images[indices], random, dtype=self.images.dtype)
            self.images[rows, ..., : self.channels] = images.permute(0, 2, 3, 1)
            self.indices[rows] = indices
            self.given[rows], flipped = run.targets(indices, epoch, begin)
            if self.flipped is not None:
                self.flipped[rows] = flipped
            if self.directions is not None:
                random = generator(run.device, run.config.seed, "projection", epoch, begin)
                shape = self.directions[rows].shape
                self.directions[rows] = torch.randn(shape, device=run.device, generator=random)
            yield

    def _order_of(self, epoch: int) -> Tensor:
        if self._order[0] != epoch:
            order = order_of_epoch(len(self.run.data.train), self.run.config.seed, epoch)
            # From memory that is not pinned the copy would wait for all steps under way.
            if self.run.device.type == "cuda":
                order = order.pin_memory()
            self._order = epoch, order.to(self.run.device, non_blocking=True)
        return self._order[1]

    def take(self, place: Tensor, rows: Tensor) -> None:
        """Take one step of the window: the one whose place, and whose rows, these tensors hold."""
        images = self.images.index_select(0, rows).permute(0, 3, 1, 2)
        given = self.given.index_select(0, rows).long()
        directions = None if self.directions is None else self.directions.index_select(0, rows)
        logits, loss, norm = self.run.optimize(images, given, directions)
        self.logits.index_copy_(0, rows, logits.float())
        self.losses.index_copy_(0, place, loss.float()[None])
        self.norms.index_copy_(0, place, norm.float()[None])

    def add_up(self, first_step: int, place: int, count: int) -> None:
        """Add ``count`` steps to the epoch's sums: those from ``first_step`` on, which lie from ``place`` on."""
        run, size = self.run, self.run.config.batch_size
        samples = min(count * size, len(run.data.train) - first_step * size)
        rows, places = slice(place * size, place * size + samples), slice(place, place + count)
        indices = self.indices[rows]
        run.meters.add(
            first_step,
            indices,
            self.logits[rows],
            self.given[rows].long(),
            run.labels.flipped[indices] if self.flipped is None else self.flipped[rows],
            self.losses[places],
            self.norms[places],
            batch_size=size,
        )


class Filling:
    """Half a window of each run being filled, a little at a time.

    Args:
        windows: of the runs of a pack.
        epochs: of each run, to which the steps belong.
        first_step: of the half.
        half: 0 or 1; all work on what it held must have been launched.
        stream: on which it happens beside the steps of the other half; None on a CPU.
    """

    def __init__(
        self,
        windows: Sequence[Window],
        epochs: tuple[int, ...],
        first_step: int,
        half: int,
        stream: torch.cuda.Stream | None,
    ) -> None:
        self._which, self._stream = (epochs, first_step, half), stream
        self._left = self._blocks = sum(len(window.blocks(first_step)) for window in windows)
        self._work = (
            block
            for window, epoch in zip(windows, epochs, strict=True)
            for block in window.fill(epoch, first_step, half)
        )
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream(stream.device))

    def is_of(self, epochs: tuple[int, ...], first_step: int, half: int) -> bool:
        """Whether these are the steps that it fills in, and the half."""
        return self._which == (epochs, first_step, half)

    def go_on(self, share: float) -> None:
        """Fill until this share of it is done."""
        with torch.cuda.stream(self._stream) if self._stream is not None else nullcontext():
            while self._left > (1 - share) * self._blocks:
                next(self._work)
                self._left -= 1

    def wait(self) -> None:
        """Let steps that are launched from now on wait for it."""
        if self._stream is not None:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
