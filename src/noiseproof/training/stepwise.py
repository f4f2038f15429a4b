# SPDX-License-Identifier: Apache-2.0
"""A run by itself, step by step: on a CPU, on several processes, and where images are streamed."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from noiseproof.training.data import TrainingData, test_batches
from noiseproof.training.run import EpochEnd, Run

CHECK_EVERY = 50
"""Steps between looks at whether the loss is still finite on a GPU, where looking costs a wait."""

EVALUATION_BATCH = 1000
EVALUATION_PIXELS = 1 << 21
"""Where every pixel has logits, so many pixels are tested at a time."""
EVALUATION_PIXELS_OF_CLASSES = (1 << 23) - 1
"""Where only the picture has: times 256 channels still a number of 32 bits, by which kernels count."""


def evaluation_batch(data: TrainingData, samples: int = EVALUATION_BATCH) -> int:
    """How many samples to test at a time."""
    _, height, width = data.image_shape
    most = EVALUATION_PIXELS if data.has_masks else EVALUATION_PIXELS_OF_CLASSES
    return max(1, min(samples, most // (height * width)))


class Stepwise:
    """Steps one run."""

    works_ahead = False

    def __init__(self, runs: Sequence[Run]) -> None:
        (self.run,) = runs

    def epoch(self) -> Iterator[None]:
        """Take the steps that are left of the epoch, yielding after each."""
        run = self.run
        run.begin_epoch()
        for step, images, indices in self.batches():
            run.step = step
            run.train_step(images, indices)
            run.step = step + 1
            if run.device.type == "cpu" or run.step % CHECK_EVERY == 0:
                run.require_finite()
            yield
        run.require_finite()

    def batches(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """``(step, images, indices)`` of the steps that are left of the epoch."""
        return self.run.batches.epoch(self.run.epoch, self.run.step)

    def pause(self) -> None:
        """Put together what all processes added up so far."""
        self.run.meters.sum_over_ranks()

    def end_epoch(self) -> list[EpochEnd]:
        """Test where a test is due."""
        run = self.run
        right = None
        if run.tests_this_epoch:
            right = run.count_right(test_batches(run.data, evaluation_batch(run.data), run.config.workers))
        return [run.end_epoch(right)]
