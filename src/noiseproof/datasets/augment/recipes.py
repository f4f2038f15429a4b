# SPDX-License-Identifier: Apache-2.0
"""The paper's preparation of each data set: how files are brought to one size, augmented and normalised.

A recipe is a frozen record, looked up by the data set's name. ``for_training`` and ``for_testing`` take
batches of uint8 images of shape (N, C, H, W) and give what the network sees.

Where the paper and its code leave something open, ``our_choice`` says what we chose.
"""

import difflib
from dataclasses import dataclass

import torch
from torch import Tensor

from noiseproof.datasets.augment.colour import ColourJitter
from noiseproof.datasets.augment.crop_flip import RandomCropFlip
from noiseproof.datasets.augment.gamma import RandomGamma
from noiseproof.datasets.augment.mirror import RandomMirror
from noiseproof.datasets.augment.normalize import (
    CIFAR10_MEAN,
    CIFAR10_STD,
    CIFAR100_MEAN,
    CIFAR100_STD,
    IMAGENET_MEAN,
    IMAGENET_STD,
    MNIST_MEAN,
    MNIST_STD,
    normalize,
)
from noiseproof.datasets.augment.rotate import RandomRotation
from noiseproof.datasets.augment.steps import Augmentation, Chain
from noiseproof.datasets.decode import CentreAfterResize, Fit, RandomWindow, Squash


@dataclass(frozen=True)
class Recipe:
    """How one data set is prepared.

    Attributes:
        name: of the data set.
        train: the augmentations of a training batch, in their order.
        mean: by channel, on the scale 0..1.
        std: likewise.
        train_fit: how image files are brought to one size for training; ``None`` where images lie in memory.
        test_fit: likewise for testing.
        our_choice: what the paper leaves open and we chose.
    """

    name: str
    train: tuple[Augmentation, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    train_fit: Fit | None = None
    test_fit: Fit | None = None
    our_choice: str = ""

    def for_training(
        self, images: Tensor, generator: torch.Generator, *, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Augment and normalise a batch."""
        return normalize(Chain(self.train)(images, generator), self.mean, self.std, dtype=dtype)

    def for_training_with_masks(
        self, images: Tensor, masks: Tensor, generator: torch.Generator, *, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Augment and normalise a batch and move its masks of shape (N, H, W) with it."""
        images, masks = Chain(self.train).together(images, masks, generator)
        return normalize(images, self.mean, self.std, dtype=dtype), masks

    def for_testing(self, images: Tensor, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """Only normalise."""
        return normalize(images, self.mean, self.std, dtype=dtype)


_RECIPES = (
    Recipe("cifar10", (RandomCropFlip(padding=4),), CIFAR10_MEAN, CIFAR10_STD),
    Recipe(
        "cifar100",
        (RandomCropFlip(padding=4), RandomRotation(20.0, resampling="nearest")),
        CIFAR100_MEAN,
        CIFAR100_STD,
    ),
    Recipe("mnist-like", (), MNIST_MEAN, MNIST_STD),
    Recipe(
        "webvision-mini",
        (RandomMirror(left_right=0.5), ColourJitter(0.4, 0.4, 0.4, 0.2)),
        IMAGENET_MEAN,
        IMAGENET_STD,
        train_fit=RandomWindow(224),
        test_fit=CentreAfterResize(shorter_side=256, size=224),
        our_choice="the random resized crop is cut while decoding, from the whole picture; flip and colour "
        "follow on the batch",
    ),
    Recipe(
        "animal10n",
        (RandomMirror(left_right=0.5),),
        IMAGENET_MEAN,
        IMAGENET_STD,
        train_fit=Squash(64, 64),
        test_fit=Squash(64, 64),
        our_choice="the paper names no constants for normalising; ImageNet's are used",
    ),
    Recipe(
        "clothing1m",
        (RandomMirror(left_right=0.5),),
        IMAGENET_MEAN,
        IMAGENET_STD,
        train_fit=Squash(256, 256, centre=224),
        test_fit=Squash(256, 256, centre=224),
        our_choice="the paper subtracts a mean it does not state; ImageNet's mean and std are used, as "
        "the pre-trained network expects",
    ),
    Recipe(
        "isic2017",
        (RandomMirror(left_right=0.5, top_bottom=0.5), RandomGamma((0.7, 1.5), probability=0.5)),
        IMAGENET_MEAN,
        IMAGENET_STD,
        train_fit=Squash(256, 256),
        test_fit=Squash(256, 256),
        our_choice="the paper names mirroring, flipping and gamma without numbers: each direction half of "
        "the time; gamma half of the time, log-evenly from 0.7 to 1.5 as in nnU-Net; ImageNet's constants",
    ),
)

_BY_NAME = {recipe.name: recipe for recipe in _RECIPES}
_SAME_AS = {
    "cifar10n": "cifar10",
    "cifar100n": "cifar100",
    "fashion-mnist": "mnist-like",
    "mnist": "mnist-like",
    "digits": "mnist-like",
    "isic2017-128px": "isic2017",
    "blobs": "isic2017",
}


def recipes() -> tuple[Recipe, ...]:
    """Every recipe, in the paper's order."""
    return _RECIPES


def recipe_for(name: str) -> Recipe:
    """Return the recipe of a data set; an unknown name is an error that offers the nearest.

    Example:
        >>> recipe_for("cifar10n").name
        'cifar10'
        >>> recipe_for("cifar100").train[1]
        RandomRotation(degrees=20.0, resampling='nearest')
    """
    name = name.removeprefix("tuning:")
    name = _SAME_AS.get(name, name)
    if name in _BY_NAME:
        return _BY_NAME[name]
    known = [*_BY_NAME, *_SAME_AS]
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are: {', '.join(sorted(known))}"
    raise KeyError(f"no augmentation recipe for {name!r}; {hint}")
