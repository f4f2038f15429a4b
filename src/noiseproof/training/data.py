# SPDX-License-Identifier: Apache-2.0
"""What a run trains and tests on: images on the device, given and true labels, the data set's augmentation."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noiseproof import datasets, noise
from noiseproof.datasets import LabeledData
from noiseproof.datasets.augment import Recipe, recipe_for
from noiseproof.datasets.augment.mirror import RandomMirror
from noiseproof.datasets.augment.normalize import IMAGENET_MEAN, IMAGENET_STD
from noiseproof.datasets.check import check_several_classes
from noiseproof.datasets.decode import Fit, RandomWindow, Squash
from noiseproof.datasets.folders import VOID
from noiseproof.datasets.identity import path_of
from noiseproof.datasets.loader import StreamingLoader
from noiseproof.datasets.tuning import PREFIX as TUNING
from noiseproof.datasets.tuning import SEED as TUNING_SEED
from noiseproof.losses import checks
from noiseproof.models import imagenet
from noiseproof.noise.masks import KINDS
from noiseproof.training import ranks
from noiseproof.training.config import Config
from noiseproof.training.config_checks import MOST
from noiseproof.training.label_noise import certain, draw_noise
from noiseproof.training.masks import absent_classes, check_task, draw_mask_noise
from noiseproof.training.noise_files import file_name, is_in_a_file
from noiseproof.training.streams import generator, order_of_epoch, stream_seed

RESIDENT_SHARE = 0.4
"""Share of the device's free memory that images may take before they are streamed instead."""

HELD_OUT_SHARE = 0.1
"""Share of the training data held out where a data set has no test split."""

MOST_CLASSES_SHOWN = 20
"""Classes up to which a record holds the whole transition matrix; a report draws it."""

HARDLY_ANY = 5
"""Training pictures of a class below which users are told."""

DATA_SEED = 1
"""Draws what is held out and what ``train_size`` keeps: the runs of a pack share their data, not their seeds."""


@dataclass(frozen=True)
class TrainingData:
    """Data of a pack: images are shared, labels belong to a run.

    Attributes:
        name: of the data set.
        train: training samples; images as they are on disk.
        test: test samples, with clean labels where the data set has them.
        images: training images on the device, uint8 (N, C, H, W); ``None`` where they are streamed.
        test_images: likewise.
        test_labels: on the device, (N,), or masks (N, H, W) for segmentation.
        recipe: how images are augmented and normalised.
        device: where it all happens.
        held_out: whether ``test`` was split off from the training data, so that its labels may be wrong too.
        has_void: whether some pixels of the masks have no label: they hold 255, which is no class.
        rows: which samples of the data set's training split ``train`` holds, where not all of them.
        given: labels already drawn, by noise and its seed: runs of a pack that share both share them.
        features: what frozen networks make of these very images, for training and testing, by network, options,
            weights and precision; never another set's, also where it is made from this one.
    """

    name: str
    train: LabeledData
    test: LabeledData
    images: Tensor | None
    test_images: Tensor | None
    test_labels: Tensor
    recipe: Recipe
    device: torch.device
    held_out: bool = False
    has_void: bool = False
    rows: NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    given: "dict[tuple[str, int], GivenLabels]" = field(default_factory=dict, repr=False, compare=False)
    features: dict[tuple[str | None, ...], tuple[Tensor, Tensor]] = field(
        init=False, default_factory=dict, repr=False, compare=False
    )

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self.train.num_classes

    @property
    def has_masks(self) -> bool:
        """Whether every pixel has a label: segmentation, not classification."""
        return self.train.masks is not None

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of what the network sees."""
        if self.train.images is not None:
            height, width, channels = self.train.images.shape[1:]
        else:
            assert self.recipe.train_fit is not None
            height, width, channels = self.recipe.train_fit.shape
        return channels, height, width


@dataclass(frozen=True)
class GivenLabels:
    """Labels of one run, on the device.

    Attributes:
        given: what the run trains on: (N,), or masks (N, H, W), which are bytes.
        flipped: where that is known to be wrong, of the same shape.
        summary: realised rates and how the noise was drawn, for the run's record.
        kinds: of masks, what was done to each, as a position in :data:`noiseproof.noise.masks.KINDS`.
    """

    given: Tensor
    flipped: Tensor
    summary: dict[str, Any]
    kinds: NDArray[np.int64] | None = None


def load_data(config: Config, device: torch.device) -> TrainingData:
    """Load what a config names, from the cache or from the user's folder, onto the device if it fits."""
    train = whole = load_split(config.dataset, "train", config.image_size)
    check_task(config, train)
    check_several_classes(config.dataset, train)
    held_out, rows = _is_own_for_tuning(config.dataset), np.arange(len(train), dtype=np.int64)
    try:
        test = load_split(config.dataset, "test", config.image_size)
    except datasets.NoSuchSplitError:  # a split that is there and broken is told, not replaced
        if not _is_own(config.dataset):
            raise
        if round(HELD_OUT_SHARE * len(train)) < 1:
            raise _too_few(
                config, len(train), "add pictures, or a folder or rows for the test split"
            ) from None
        split = _tenth_of(train)
        train, test = split.apply(train)
        held_out, rows = True, split.train
    if len(test) == 0:
        raise _too_few(config, len(train), "add pictures")
    _check_classes_of_masks(config.dataset, train, test)
    if noise.parse_name(config.noise).kind == "real" and train.uncertain is not None:
        rows = rows[certain(train)]
        train = whole.subset(rows)
    if config.train_size is not None and config.train_size < len(train):
        chosen = np.random.RandomState(DATA_SEED).permutation(len(train))[: config.train_size]
        rows = rows[np.sort(chosen)]
        train = whole.subset(rows)
    if len(train) < 2:
        raise datasets.DataError(f"{config.dataset}: expected at least 2 training samples, got {len(train)}")
    recipe = _recipe(config, train)
    images, test_images = _resident(train, recipe.train_fit, device), _resident(test, recipe.test_fit, device)
    if train.masks is not None and (images is None or test_images is None):
        raise datasets.DataError(
            f"{config.dataset}: pictures with masks are kept in memory while training, and these need more than "
            f"{RESIDENT_SHARE:.0%} of what is free; make them smaller or use fewer (train_size)"
        )
    labels = torch.from_numpy(test.labels if test.masks is None else test.masks.copy()).to(device)
    has_void = any(each.masks is not None and each.masks.max() >= each.num_classes for each in (train, test))
    return TrainingData(
        config.dataset,
        train,
        test,
        images,
        test_images,
        labels,
        recipe,
        device,
        held_out,
        has_void,
        rows=None if train is whole else rows,
    )


def _too_few(config: Config, count: int, advice: str) -> datasets.DataError:
    return datasets.DataError(
        f"{config.dataset}: {count} pictures are too few to hold out a tenth of them for testing; {advice}"
    )


def _tenth_of(train: LabeledData) -> datasets.Split:
    """Hold a tenth out: of all pictures, or of each class where that would miss one.

    Among few pictures a draw over all of them can take the only pictures of a class, or test none of a class that
    has some to spare.
    """
    of_all, of_each = (
        datasets.tuning_split(train, share=HELD_OUT_SHARE, seed=DATA_SEED, stratified=stratified)
        for stratified in (False, True)
    )
    if train.masks is not None or len(of_each.validation) == 0:
        return of_all
    present = np.unique(train.labels)
    trained, tested = (np.unique(train.labels[rows]) for rows in (of_all.train, of_all.validation))
    spared = np.unique(train.labels[of_each.validation])
    misses_one = len(trained) < len(present) or not np.isin(spared, tested).all()
    return of_each if misses_one else of_all


def remark_on_classes(data: TrainingData) -> str | None:
    """Name classes of the user's own pictures that have hardly any to learn from, or no pixel of masks, if any."""
    if not _is_own(data.name):
        return None
    if data.train.masks is not None:
        return absent_classes(data.train, data.train.masks)
    counts = np.bincount(data.train.labels, minlength=data.num_classes)
    few = [
        f"{name!r} ({count})"
        for name, count in zip(data.train.class_names, counts, strict=True)
        if count < HARDLY_ANY
    ]
    if not few:
        return None
    named = ", ".join(few[:MOST_CLASSES_SHOWN]) + (", …" if len(few) > MOST_CLASSES_SHOWN else "")
    return f"Too few images to learn from: {named}. Add some, or leave out such classes."


def load_split(dataset: str, split: str, side: int | None = None) -> LabeledData:
    """Load a split; pictures with masks of the user's own are brought to the side, whatever their sizes."""
    if side is None:
        return datasets.load(dataset, split)
    checks.positive_integer("image_size", side)
    if _is_own_for_tuning(dataset) and split in ("train", "test"):
        return _part_for_tuning(dataset, split, side)
    return datasets.load(dataset, split, side=min(side, MOST["image_size"]))


def _part_for_tuning(dataset: str, split: str, side: int) -> LabeledData:
    """What :mod:`noiseproof.datasets.tuning` reads, of pictures brought to the side."""
    data = load_split(dataset.removeprefix(TUNING), "train", side)
    train, held_out = datasets.tuning_split(data, seed=TUNING_SEED).apply(data)
    return replace(train if split == "train" else held_out, name=dataset, split=split)


def _is_own(dataset: str) -> bool:
    """Whether it is the user's own data, all of it or as it is split for tuning."""
    return path_of(dataset) is not None


def _is_own_for_tuning(dataset: str) -> bool:
    return dataset.startswith(TUNING) and _is_own(dataset)


def _check_classes_of_masks(dataset: str, train: LabeledData, test: LabeledData) -> None:
    """Refuse masks for testing of classes that no mask for training has and nobody named."""
    if train.masks is not None and test.num_classes > train.num_classes:
        raise datasets.DataError(
            f"{dataset}: masks of the test split hold {test.num_classes} classes, those of the training split "
            f"{train.num_classes}, so that nothing could be learnt of the others. Correct the masks, or name all "
            "classes in classes.txt, one a line"
        )


def of_given_labels(config: Config, train: LabeledData, device: torch.device) -> TrainingData:
    """Samples at hand with the labels that they have: all are trained on, and the test is on the same ones."""
    check_task(config, train)
    recipe = _recipe(config, train)
    images = _resident(train, recipe.train_fit, device)
    test = replace(train, split="test")
    labels = torch.tensor(train.labels).to(device)
    return TrainingData(config.dataset, train, test, images, images, labels, recipe, device, held_out=True)


def _recipe(config: Config, train: LabeledData) -> Recipe:
    """How pictures are prepared; without augmentation, training pictures as those for testing."""
    recipe = _usual_recipe(config, train)
    if config.augment == "none":
        return replace(recipe, train=(), train_fit=recipe.test_fit)
    return recipe if config.augment is None else replace(recipe, train=recipe_for(config.augment).train)


def _usual_recipe(config: Config, train: LabeledData) -> Recipe:
    """The data set's own recipe; for users' data a plain one: squashed to one size, mirrored at random."""
    if not _is_own(config.dataset):
        if config.image_size is not None:
            raise ValueError(f"image_size: the images of {config.dataset} have a fixed size; leave it out")
        return recipe_for(config.dataset)
    side = config.image_size or 64
    fit = None if train.images is not None else Squash(side, side)
    mean, std = imagenet.normalization(config.model) or (IMAGENET_MEAN, IMAGENET_STD)
    return Recipe(config.dataset, (RandomMirror(left_right=0.5),), mean, std, fit, fit)


def _resident(data: LabeledData, fit: Fit | None, device: torch.device) -> Tensor | None:
    """Images of a data set on the device, or ``None`` if they would not leave room for training."""
    if data.images is not None:
        pixels = data.images.size
    else:
        assert fit is not None
        pixels = len(data) * int(np.prod(fit.shape))
    if pixels > RESIDENT_SHARE * _free_bytes(device):
        return None
    if data.images is not None:
        return torch.from_numpy(data.images.transpose(0, 3, 1, 2).copy()).to(device)
    if fit is None or not _is_deterministic(fit):
        return None
    with StreamingLoader(data, fit, 256, shuffle=False) as loader:
        return torch.cat([batch.images for batch in loader]).to(device)


def _is_deterministic(fit: Fit) -> bool:
    """Whether a picture always becomes the same pixels, so that it need be decoded once only."""
    return not isinstance(fit, RandomWindow)


def _free_bytes(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    import os

    return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def give_labels(config: Config, data: TrainingData) -> GivenLabels:
    """Draw the labels that a run trains on, or take those that a run with the same noise has drawn."""
    key = config.noise, config.drawn_with
    if key not in data.given:
        data.given[key] = _give_masks(config, data) if data.has_masks else _give_classes(config, data)
    return data.given[key]


def _drawn_for(config: Config, data: TrainingData) -> tuple[LabeledData, NDArray[np.int64] | None]:
    """Samples that noise is made for: those trained on; or, in a file, the whole split, with the rows of these."""
    if data.rows is None or not is_in_a_file(config.noise):
        return data.train, None
    return load_split(config.dataset, "train", config.image_size), data.rows


def _give_classes(config: Config, data: TrainingData) -> GivenLabels:
    """Labels of a run, and what was done to them."""
    source, rows = _drawn_for(config, data)
    noisy = draw_noise(config, source)
    if noisy is not None and rows is not None:
        noisy = noisy.subset(rows)
    clean = data.train.labels
    given = clean if noisy is None else noisy.labels
    flipped = given != clean
    summary: dict[str, Any] = {
        "name": noise.short_name(config.noise),
        "realised_rate": float(flipped.mean()),
    }
    if noisy is not None:
        summary |= {"kind": noisy.kind, "seed": noisy.seed, "generator": noisy.generator}
        summary["class_rates"] = [round(float(rate), 6) for rate in noisy.class_rates]
        summary |= file_name(config.noise)
        if data.num_classes <= MOST_CLASSES_SHOWN:
            summary["transition"] = noisy.transition.round(4).tolist()
    if data.num_classes <= MOST_CLASSES_SHOWN:
        summary["class_names"] = list(data.train.class_names)
    return GivenLabels(
        torch.tensor(given).to(data.device),
        torch.from_numpy(flipped).to(data.device),
        summary,
    )


def _give_masks(config: Config, data: TrainingData) -> GivenLabels:
    """Masks of a run, and what was done to them."""
    source, rows = _drawn_for(config, data)
    noisy = draw_mask_noise(config, source)
    if noisy is not None and rows is not None:
        noisy = noisy.subset(rows)
    clean = data.train.masks
    assert clean is not None
    given = clean if noisy is None else noisy.masks
    labelled = clean.size
    if data.has_void:
        void = clean == VOID
        given, labelled = np.where(void, clean, given), clean.size - int(np.count_nonzero(void))
    flipped = given != clean
    summary: dict[str, Any] = {
        "name": noise.short_name(config.noise),
        "realised_rate": 0.0,
        "wrong_pixels": int(np.count_nonzero(flipped)) / max(1, labelled),
    }
    if noisy is not None:
        counts = np.bincount(noisy.kinds, minlength=len(KINDS)).tolist()
        summary |= {"kind": "masks", "seed": noisy.seed, "share": noisy.share, "strength": noisy.strength}
        summary |= file_name(config.noise)
        summary |= {"realised_rate": noisy.realised_share, "kinds": dict(zip(KINDS, counts, strict=True))}
    return GivenLabels(
        torch.tensor(given).to(data.device),
        torch.from_numpy(flipped).to(data.device),
        summary,
        None if noisy is None else noisy.kinds,
    )


class Batches:
    """Batches of one run: which samples a step sees, and their augmented images."""

    def __init__(self, config: Config, data: TrainingData, dtype: torch.dtype = torch.float32) -> None:
        self.config, self.data, self.dtype = config, data, dtype
        count, size = len(data.train), config.batch_size
        # A process with one sample, or none, has no statistics for batch-norm: such a last batch is left out.
        self.steps = count // size + (count % size >= 2 * ranks.count())
        self._loader: _InOurOrder | None = None

    def epoch(self, epoch: int, first_step: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        """``(step, images, sample indices)`` of an epoch, from ``first_step`` on."""
        source = (
            self._resident(epoch, first_step)
            if self.data.images is not None
            else self._streamed(epoch, first_step)
        )
        for step, images, indices in source:
            random = generator(self.data.device, self.config.seed, "augmentation", epoch, step)
            yield step, self.data.recipe.for_training(images, random, dtype=self.dtype), indices

    def _resident(self, epoch: int, first_step: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        assert self.data.images is not None
        size = self.config.batch_size
        order = order_of_epoch(len(self.data.train), self.config.seed, epoch).to(self.data.device)
        for step in range(first_step, self.steps):
            indices = order[step * size : (step + 1) * size]
            yield step, self.data.images[indices], indices

    def _streamed(self, epoch: int, first_step: int) -> Iterator[tuple[int, Tensor, Tensor]]:
        device = self.data.device
        if self._loader is None:
            self._loader = _InOurOrder(self.config, self.data)
        if first_step >= self.steps:
            return  # stopped after the last step of the epoch
        state = self._loader.state_dict()
        self._loader.load_state_dict({**state, "epoch": epoch, "step": first_step})
        for step, batch in enumerate(self._loader, first_step):
            if step < self.steps:
                indices = torch.as_tensor(batch.indices).to(device, non_blocking=True)
                yield step, batch.images.to(device, non_blocking=True), indices

    def close(self) -> None:
        """Stop the workers, if there are any."""
        if self._loader is not None:
            self._loader.close()


class _InOurOrder(StreamingLoader):
    """Takes the samples as the resident path does: whether images fit into memory must not change a result."""

    def __init__(self, config: Config, data: TrainingData) -> None:
        super().__init__(
            data.train,
            data.recipe.train_fit,
            config.batch_size,
            seed=stream_seed(config.seed, "order"),
            num_workers=config.workers,
            pin_memory=data.device.type == "cuda",
        )
        self._run_seed = config.seed

    def _order(self, epoch: int) -> NDArray[np.int64]:
        return order_of_epoch(len(self.data), self._run_seed, epoch).numpy()


def test_batches(data: TrainingData, size: int, workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    """``(normalised images, labels)`` of the test samples, in their order."""
    if data.test_images is not None:
        for start in range(0, len(data.test), size):
            rows = slice(start, start + size)
            yield data.recipe.for_testing(data.test_images[rows]), data.test_labels[rows]
        return
    with StreamingLoader(data.test, data.recipe.test_fit, size, shuffle=False, num_workers=workers) as loader:
        for batch in loader:
            labels = torch.as_tensor(batch.labels).to(data.device)
            yield data.recipe.for_testing(batch.images.to(data.device)), labels


def label_marginals(labels: Tensor, num_classes: int) -> list[float]:
    """Share of each class among the labels; void pixels, whose label is no class, are none of them."""
    counts = np.bincount(labels.flatten().cpu().numpy(), minlength=num_classes)[:num_classes]
    return [round(float(share), 5) for share in counts / max(1, counts.sum())]
