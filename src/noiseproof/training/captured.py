# SPDX-License-Identifier: Apache-2.0
"""Runs side by side on a GPU: one step of all of them is one CUDA graph, replayed.

A step of a small network is some hundred kernels of a few microseconds each, and a host that launches them one by
one is what limits its speed. Here it launches them once, into a graph: each run on a stream of its own, so that
the kernels of one fill the gaps of the others. Batches lie augmented in a window of steps on the device, and a
counter on the device says which one is next, so that nothing is copied and nobody waits; the window has two halves,
and while the steps of one are taken, the other is filled.

On a CPU the same steps are taken without a graph, which is how they are tested against runs alone.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from noiseproof.training import ranks
from noiseproof.training.gpu_memory import abandon_capture, check_room
from noiseproof.training.run import EpochEnd, Run, has_dropout
from noiseproof.training.stepwise import evaluation_batch
from noiseproof.training.windows import WINDOW_BYTES, Filling, Window, steps_in_half

WARM_UP = 3
"""Steps taken before capturing: cuDNN chooses its kernels, and whatever is compiled is compiled."""

STEPS_AHEAD = 64
"""Steps that the host may be ahead of the GPU: enough to keep it busy, few enough to stop soon when asked."""

STREAMS = 8
"""Runs of a pack that are computed at the same time; the others follow on the same streams."""

EVALUATION_BATCH = 2000

CHECKPOINT_SECONDS = 10.0
"""Between two checkpoints of a pack: an epoch may take less time than the disk needs for what a dozen runs hold."""


def can_capture(runs: Sequence[Run]) -> bool:
    """Whether a pack can be captured: all its data on one GPU, no chance in its networks, and all of them learn."""
    first = runs[0]
    resident = first.data.images is not None and first.data.test_images is not None
    alone = ranks.count() == 1
    plain = not has_dropout(first.model) and not first.config.freeze
    return first.device.type == "cuda" and resident and alone and plain


class SideBySide:
    """Steps a pack of runs in lockstep; all of them stand before the same step of their epochs.

    Args:
        runs: that share data, network and batch size.
        window_bytes: images that the window of each run holds, at most.
    """

    works_ahead = True

    def __init__(self, runs: Sequence[Run], window_bytes: int = WINDOW_BYTES) -> None:
        self.runs = list(runs)
        for run in self.runs:
            run.make_fast()
        first = self.runs[0]
        self.device, self.size, self.data = first.device, first.config.batch_size, first.data
        self.steps = first.batches.steps
        self.half_steps = steps_in_half(self.runs, window_bytes)
        self.windows = [Window(run, self.half_steps) for run in self.runs]
        self.position = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.offsets = torch.arange(self.size, device=self.device)
        self._half = 0  # whose steps are next
        self._filling: Filling | None = None
        self._pending = (
            0,
            0,
            0,
        )  # steps taken and not added up: the first, its place in the window, their number
        self._replays: dict[int, Callable[[], None]] = {}
        self._test: Callable[[], list[Tensor]] | None = None
        self._ahead = _Ahead(self.device)
        self._pool = None
        self._copies: torch.cuda.Stream | None = None
        self._fills: torch.cuda.Stream | None = None
        self._last_checkpoint = float("-inf")
        self._streams: list[torch.cuda.Stream] = []
        if self.device.type == "cuda":
            self._pool = torch.cuda.graph_pool_handle()
            self._capturing = _stream(self.device, "capturing")  # torch's own may belong to another GPU
            self._copies = _stream(self.device, "copies")
            self._fills = _stream(self.device, "fills")
            for window in self.windows:
                window.filled_on(self._fills)
            self._streams = [_stream(self.device, number) for number, _ in enumerate(self.runs[:STREAMS])]

    def epoch(self) -> Iterator[None]:
        """Take the steps that are left of the epoch, yielding after each."""
        for run in self.runs:
            run.begin_epoch()
        step = self.runs[0].step
        while step < self.steps:
            first_step = step // self.half_steps * self.half_steps
            end = min(first_step + self.half_steps, self.steps)
            self._fill(first_step)
            begun, place = step, self._half * self.half_steps + step - first_step
            self.position.fill_(place)
            self._pending = (begun, place, 0)
            self._begin_filling(end)
            while step < end:
                self._replay(min(self.size, len(self.data.train) - step * self.size))
                step += 1
                for run in self.runs:
                    run.step = step
                self._pending = (begun, place, step - begun)
                self._ahead.mark()
                if self._filling is not None:
                    self._filling.go_on((step - begun) / (end - begun))
                yield
            self._half = 1 - self._half
            if step < self.steps:
                self.pause()  # after the last one the test goes first: the GPU has work while the host adds up

    def _fill(self, first_step: int) -> None:
        """Fill the half at hand with the steps from ``first_step`` on, as far as that is not done."""
        epochs = tuple(run.epoch for run in self.runs)
        filling = self._filling
        if filling is None or not filling.is_of(epochs, first_step, self._half):
            filling = Filling(self.windows, epochs, first_step, self._half, self._fills)
        filling.go_on(1.0)
        filling.wait()
        self._filling = None

    def _begin_filling(self, end: int) -> None:
        """Begin with what comes after step ``end``, if anything: more steps of this epoch, or the next epoch's."""
        later = 0 if end < self.steps else 1
        if any(run.epoch + later >= run.config.epochs for run in self.runs):
            return
        epochs = tuple(run.epoch + later for run in self.runs)
        self._filling = Filling(self.windows, epochs, end % self.steps, 1 - self._half, self._fills)

    def pause(self) -> None:
        """Add up the steps that were taken and not yet added up."""
        step, place, count = self._pending
        if count:
            for window in self.windows:
                window.add_up(step, place, count)
        self._pending = (step + count, place + count, 0)

    def end_epoch(self) -> list[EpochEnd]:
        """Test where a test is due, and start copying to the host what is to be written down."""
        right: list[Tensor | None] = [None] * len(self.runs)
        if any(run.tests_this_epoch for run in self.runs):
            counted = self._tests()
            right = [
                count if run.tests_this_epoch else None for run, count in zip(self.runs, counted, strict=True)
            ]
        self.pause()
        is_due = time.monotonic() - self._last_checkpoint >= CHECKPOINT_SECONDS
        if is_due:
            self._last_checkpoint = time.monotonic()
        ends = [
            run.end_epoch(count, len(self.runs), keep_state=is_due)
            for run, count in zip(self.runs, right, strict=True)
        ]
        return [_copied(end, self._copies) for end in ends]

    def _replay(self, rows: int) -> None:
        if rows not in self._replays:
            self._replays[rows] = self._captured(lambda: self._step(rows))
        self._replays[rows]()

    def _step(self, count: int) -> None:
        rows = self.position * self.size + self.offsets[:count]
        self._on_streams([partial(window.take, self.position, rows) for window in self.windows])
        self.position += 1

    def _tests(self) -> list[Tensor]:
        if self._test is None:
            self._test = self._captured_test()
        return self._test()

    def _captured_test(self) -> Callable[[], list[Tensor]]:
        images = self.data.test_images
        assert images is not None
        dtype = self.windows[0].images.dtype
        prepared = self.data.recipe.for_testing(images, dtype=dtype)
        empty = max(run.input_channels for run in self.runs) - prepared.shape[1]
        prepared = F.pad(prepared, (0, 0, 0, 0, 0, empty)).contiguous(memory_format=torch.channels_last)
        size = evaluation_batch(self.data, EVALUATION_BATCH)
        rows = [slice(start, start + size) for start in range(0, len(prepared), size)]
        batches = [(prepared[each], self.data.test_labels[each]) for each in rows]
        self._kept = prepared  # the graph reads it as long as it lives
        counts = [run.nothing_right() for run in self.runs]

        def count_of(run: Run, counted: Tensor) -> None:
            counted.copy_(run.count_right(batches))

        def count() -> None:
            self._on_streams([partial(count_of, *each) for each in zip(self.runs, counts, strict=True)])

        replay = self._captured(count)

        def test() -> list[Tensor]:
            replay()
            return [counted.clone() for counted in counts]

        return test

    def _on_streams(self, works: Sequence[Callable[[], object]]) -> None:
        """Do the works on parallel streams, all of them after what came before and before what follows."""
        if self.device.type != "cuda" or len(works) == 1:
            for work in works:
                work()
            return
        here = torch.cuda.current_stream(self.device)
        forked = []
        try:
            for position, work in enumerate(works):
                stream = self._streams[position % len(self._streams)]
                if stream not in forked:
                    stream.wait_stream(here)
                    forked.append(stream)
                with torch.cuda.stream(stream):
                    work()
        finally:  # a capture that ends with a stream not joined hides the error that ended it
            for stream in forked:
                here.wait_stream(stream)

    def _captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what repeats ``work``: a graph on a GPU; capturing it leaves every run as it was."""
        if self.device.type != "cuda":
            return work
        before = [_Restorable(run) for run in self.runs]
        position = self.position.clone()
        side = _stream(self.device, "side")
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                taken = torch.cuda.memory_allocated(self.device)
                # cuDNN's search takes more than what it finds.
                torch.cuda.reset_peak_memory_stats(self.device)
                self.position.copy_(position)
                work()
        torch.cuda.current_stream(self.device).wait_stream(side)
        needed = torch.cuda.max_memory_allocated(self.device) - taken
        check_room(needed, self.device)
        graph = torch.cuda.CUDAGraph()
        try:
            # Graphs take turns, and share memory. The thread that writes checkpoints may call CUDA meanwhile.
            # A capture that fails leaves its stream the current one.
            with (
                torch.cuda.stream(torch.cuda.current_stream(self.device)),
                torch.cuda.graph(
                    graph, pool=self._pool, stream=self._capturing, capture_error_mode="thread_local"
                ),
            ):
                work()
        except RuntimeError:
            abandon_capture(self._pool, self.device)
            raise
        self.position.copy_(position)
        for each in before:
            each.restore()
        return graph.replay


class _Restorable:
    """A run's tensors as they were before a step that must leave no trace."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.before = {id(tensor): tensor.detach().clone() for tensor in self._tensors()}

    def _tensors(self) -> Iterator[Tensor]:
        yield from self.run.model.state_dict(keep_vars=True).values()
        if self.run.average is not None:
            yield from self.run.average.model.state_dict(keep_vars=True).values()
        yield from self.run.loss.parameters()
        for state in self.run.optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))

    @torch.no_grad()
    def restore(self) -> None:
        """Put everything back; the optimiser's sums that did not exist yet begin at zero."""
        for tensor in self._tensors():
            tensor.copy_(self.before[id(tensor)]) if id(tensor) in self.before else tensor.zero_()
        if self.run.fast is not None:
            self.run.fast.parameters.refresh()


class _Ahead:
    """Keeps the host from running further ahead of the GPU than is useful."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.count = device, 0
        self.marks: deque[torch.cuda.Event] = deque()

    def mark(self) -> None:
        """Note a step that was launched; wait where too many are under way."""
        self.count += 1
        if self.device.type != "cuda" or self.count % (STEPS_AHEAD // 4):
            return
        self.marks.append(_event())
        if len(self.marks) > 4:
            self.marks.popleft().synchronize()


def _copied(end: EpochEnd, copies: torch.cuda.Stream | None) -> EpochEnd:
    """Copy an epoch's end to the host while the GPU goes on; see :meth:`EpochEnd.wait`."""
    end.is_apart = True
    if copies is None:
        end.state, end.learned = _each_tensor((end.state, end.learned), Tensor.clone)
        return end
    on_gpu = (*_each_tensor((end.state, end.learned), Tensor.clone), end.meters.state, end.right)
    copies.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(copies):
        end.state, end.learned, end.meters.state, end.right = _each_tensor(on_gpu, _to_host)
        end.under_way = _event(), on_gpu
    return end


@cache
def _stream(device: torch.device, task: str | int) -> torch.cuda.Stream:
    """One stream for a task, whichever pack is at it: cuBLAS keeps a workspace for each that it ever worked on."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _event() -> torch.cuda.Event:
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


def _to_host(tensor: Tensor) -> Tensor:
    return tensor.to("cpu", non_blocking=True)


def _each_tensor(values: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same dicts, lists and tuples, with each tensor in them changed."""
    if isinstance(values, Tensor):
        return change(values.detach())
    if isinstance(values, dict):
        return {key: _each_tensor(value, change) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(_each_tensor(value, change) for value in values)
    return values
