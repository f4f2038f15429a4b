# SPDX-License-Identifier: Apache-2.0
"""A run that trains the final layer alone: on what the rest of the network makes of images, which is computed once.

The rest is frozen, so that without augmentation an image has the same features in every epoch. An epoch then takes
as long as a linear layer does, and the run about as long as one pass over the images.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from noiseproof.models.final_layer import (
    features_of,
    has_linear_final_layer,
    is_head_on_fixed_features,
    width_of_features,
)
from noiseproof.training import ranks
from noiseproof.training.data import TrainingData, test_batches
from noiseproof.training.run import EpochEnd, Run, has_dropout
from noiseproof.training.stepwise import Stepwise, evaluation_batch
from noiseproof.training.streams import order_of_epoch

MOST_BYTES = 2 << 30
"""Features that take more are not kept; the images are passed through the network in every epoch instead."""

IMAGES_AT_A_TIME = 64

CHECKPOINT_SECONDS = 10.0
"""An epoch of a final layer is over sooner than a checkpoint of the whole network is written."""


def can_keep_features(run: Run) -> bool:
    """Whether the images of a run have the same features in every epoch, and there is room for them."""
    config, data = run.config, run.data
    if not config.freeze or data.has_masks or data.recipe.train or config.jacobian or config.compile:
        return False
    if ranks.count() > 1 or has_dropout(run.model) or not has_linear_final_layer(run.model):
        return False
    if (len(data.train) + len(data.test)) * width_of_features(run.model) * 4 > MOST_BYTES:
        return False
    some = torch.randn((2, *data.image_shape), generator=torch.Generator().manual_seed(0))
    return is_head_on_fixed_features(run.model, some.to(run.device, memory_format=torch.channels_last))


def stepper_for(run: Run) -> type[Stepwise]:
    """How a run by itself is stepped: on features that are made once where they can be kept, else on images."""
    return OnFeatures if can_keep_features(run) else Stepwise


class OnFeatures(Stepwise):
    """Steps one run whose images are passed through the frozen network once, before its first step."""

    def __init__(self, runs: Sequence[Run]) -> None:
        super().__init__(runs)
        self.run.take_features()
        self._train = self._test = torch.empty(0)
        self._last_checkpoint = time.monotonic()

    def epoch(self) -> Iterator[None]:
        """Take the steps that are left of the epoch, yielding after each, and between images before the first."""
        run = self.run
        run.start_the_clock()
        if not len(self._train):
            yield from self._compute()
        yield from super().epoch()

    def batches(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """``(step, features, indices)`` of the steps that are left of the epoch."""
        run = self.run
        order = order_of_epoch(len(run.data.train), run.config.seed, run.epoch).to(run.device)
        size = run.config.batch_size
        for step in range(run.step, run.batches.steps):
            indices = order[step * size : (step + 1) * size]
            yield step, self._train[indices], indices

    def _compute(self) -> Iterator[None]:
        run, data = self.run, self.run.data
        config = run.config
        key = config.model, str(dict(config.model_options)), config.weights, config.precision
        if key not in data.features:
            images_of_train = replace(data, test=data.train, test_images=data.images)
            count, width = len(data.train) + len(data.test), width_of_features(run.model)
            features = torch.empty((count, width, 1, 1), device=run.device)
            done = 0
            for part in (images_of_train, data):
                for some in self._of(part):
                    features[done : done + len(some)] = some
                    done += len(some)
                    run.prepared = done / count
                    yield
            run.prepared = None
            data.features.clear()  # runs of a pack or a search that follow one another mostly want the same
            data.features[key] = features[: len(data.train)], features[len(data.train) :]
        self._train, self._test = data.features[key]

    def _of(self, data: TrainingData) -> Iterator[Tensor]:
        """Features of what a data set holds for testing, (n, D, 1, 1) at a time."""
        model = self.run.model.eval()
        size = evaluation_batch(data, IMAGES_AT_A_TIME)
        for images, _ in test_batches(data, size, self.run.config.workers):
            with torch.no_grad(), self.run.precision():
                features = features_of(model, images.contiguous(memory_format=torch.channels_last))
            yield features.float()[:, :, None, None]

    def end_epoch(self) -> list[EpochEnd]:
        """Test where a test is due."""
        run = self.run
        right = run.count_right(self._test_batches()) if run.tests_this_epoch else None
        is_due = time.monotonic() - self._last_checkpoint >= CHECKPOINT_SECONDS
        if is_due:
            self._last_checkpoint = time.monotonic()
        return [run.end_epoch(right, keep_state=is_due)]

    def _test_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        labels, size = self.run.data.test_labels, evaluation_batch(self.run.data)
        for start in range(0, len(labels), size):
            yield self._test[start : start + size], labels[start : start + size]
