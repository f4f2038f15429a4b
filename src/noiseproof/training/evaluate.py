# SPDX-License-Identifier: Apache-2.0
"""A trained run scored on labelled data that it was not tested on: another test set, or newer pictures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from noiseproof.datasets import folders
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.training import dice
from noiseproof.training.predict import TrainedModel, predict

BATCH = 256


@dataclass(frozen=True)
class Evaluation:
    """How a run did on a split of a data set.

    Attributes:
        dataset: name of the data.
        split: which part.
        samples: number of pictures.
        scores: ``accuracy`` in percent, and ``balanced_accuracy``, the mean over the classes that occur; on masks
            ``dice`` (pooled) and ``dice_per_image``, likewise.
        by_class: pictures of each class that occurs, and percent of them that were right; empty on masks.
    """

    dataset: str
    split: str
    samples: int
    scores: Mapping[str, float]
    by_class: Mapping[str, tuple[int, float]]

    def as_data(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        classes = {
            name: {"samples": count, "accuracy": right} for name, (count, right) in self.by_class.items()
        }
        facts = {"dataset": self.dataset, "split": self.split, "samples": self.samples}
        return facts | dict(self.scores) | ({"by_class": classes} if classes else {})


def evaluate(model: TrainedModel, data: LabeledData, *, workers: int = 0) -> Evaluation:
    """Score a trained model on labelled data.

    Classes are matched by name, those of masks that have no names by number; data may have fewer than the model.
    Pictures are fitted to the network as they were when it was tested.

    Args:
        model: of :func:`~noiseproof.training.predict.load_trained`.
        data: what to score it on; masks must have the size of the network's input.
        workers: processes that decode picture files.

    Raises:
        ValueError: the data has no pictures, classes that the model does not know, or is of another task.
    """
    segments = model.task == "segmentation"
    if segments != (data.masks is not None):
        have, wanted = ("labels", "masks") if segments else ("masks", "labels")
        raise ValueError(f"{data.name} has {have}, but the run was trained on {wanted}")
    if not len(data):
        raise ValueError(f"{data.name} has no {data.split} pictures")
    if segments:
        return _evaluate_masks(model, data, _places_of_masks(data.class_names, model.class_names, data.name))
    advice = "Rename the class folders, or leave those pictures out"
    place = _places(data.class_names, model.class_names, data.name, advice)
    predicted = torch.cat([each.argmax(1) for each in _probabilities(model, data, workers)]).numpy()
    right = predicted == place[data.labels]
    counts = np.bincount(data.labels, minlength=data.num_classes)
    hits = np.bincount(data.labels, weights=right, minlength=data.num_classes)
    by_class = {
        name: (int(count), 100 * float(hit) / int(count))
        for name, count, hit in zip(data.class_names, counts, hits, strict=True)
        if count
    }
    scores = {
        "accuracy": 100 * float(right.mean()),
        "balanced_accuracy": mean(percent for _, percent in by_class.values()),
    }
    return Evaluation(data.name, data.split, len(data), scores, by_class)


def _places_of_masks(names: Sequence[str], known: Sequence[str], data: str) -> NDArray[np.int64]:
    """The same for masks, whose levels are classes by themselves: names that nobody gave are not compared.

    Two classes are called background and foreground where masks hold 0 and 255, and 0 and 1 where they hold these.
    """
    given = [each for each in (names, known) if not folders.are_made_up(each)]
    as_many = len(names) == len(known)
    if len(given) < 2 and (as_many or (len(names) < len(known) and folders.are_numbers(names))):
        return np.arange(len(names), dtype=np.int64)
    return _places(
        names, known, data, "Name them in classes.txt as the run's are, in the order of their numbers"
    )


def _places(names: Sequence[str], known: Sequence[str], data: str, advice: str) -> NDArray[np.int64]:
    """Where each class of the data stands among the model's."""
    where = {name: place for place, name in enumerate(known)}
    unknown = [name for name in names if name not in where]
    if unknown:
        raise ValueError(
            f"{data}: its classes are not the run's, which knows {_some(known)}; it has {_some(unknown)} beside "
            f"these. {advice}"
        )
    return np.array([where[name] for name in names], dtype=np.int64)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"{name!r:.40}" for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _probabilities(model: TrainedModel, data: LabeledData, workers: int) -> Iterator[Tensor]:
    """Probabilities of batches, in the data's order."""
    if data.paths is not None:
        for _, row in predict(model, data.paths, workers=workers):
            yield row[None]
        return
    for images in _fitted(model, data):
        yield model.probabilities(images)


def _fitted(model: TrainedModel, data: LabeledData) -> Iterator[Tensor]:
    """Batches of images (N, C, H, W), of the network's size and channels."""
    assert data.images is not None
    channels, height, width = model.shape
    random = np.random.default_rng(0)  # no fit for testing draws from it
    for start in range(0, len(data), BATCH):
        images = np.ascontiguousarray(data.images[start : start + BATCH])
        if images.shape[-1] not in (1, 3, channels):
            raise ValueError(f"{data.name}: expected images with {channels} channels, got {images.shape[-1]}")
        if images.shape[1:3] != (height, width):
            colour = np.broadcast_to(images, (*images.shape[:3], 3)) if images.shape[-1] == 1 else images
            images = np.stack([np.asarray(model.fit(Image.fromarray(each), random)) for each in colour])
        tensor = torch.from_numpy(images).permute(0, 3, 1, 2)
        if channels == 1 and tensor.shape[1] == 3:
            tensor = tensor.float().mean(1, keepdim=True).round().to(torch.uint8)
        yield tensor.expand(-1, channels, -1, -1).contiguous()


def _evaluate_masks(model: TrainedModel, data: LabeledData, place: NDArray[np.int64]) -> Evaluation:
    assert data.masks is not None
    if data.masks.shape[1:] != model.shape[1:]:
        raise ValueError(
            f"{data.name}: masks have {data.masks.shape[1]} x {data.masks.shape[2]} pixels, the run's network "
            f"{model.shape[1]} x {model.shape[2]}; folder:PATH brings yours to that size"
        )
    levels = np.arange(256)  # beyond the classes lie pixels without a label
    levels[: len(place)] = place
    known, ignored = len(model.class_names), model.ignored_class
    if ignored is not None:
        levels[levels >= known] = ignored
    counts, start = [], 0
    for images in _fitted(model, data):
        true = torch.from_numpy(levels[data.masks[start : start + len(images)]])
        parts = [model.probabilities(image[None]).argmax(1) for image in images]
        counts.append(dice.count_pixels(torch.cat(parts), true, known, ignored))
        start += len(images)
    together = torch.cat(counts)
    scores = {"dice": dice.pooled(together), "dice_per_image": dice.per_image(together)}
    return Evaluation(data.name, data.split, len(data), scores, {})
