# SPDX-License-Identifier: Apache-2.0
"""Augmentation as tensor code: whole batches, on the device of the data, random only through a generator.

Example:
    >>> import torch
    >>> images = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
    >>> recipe_for("cifar10").for_training(images, torch.Generator().manual_seed(1)).shape
    torch.Size([4, 3, 32, 32])
"""

from noiseproof.datasets.augment.colour import ColourJitter
from noiseproof.datasets.augment.crop_flip import RandomCropFlip, crop_flip
from noiseproof.datasets.augment.gamma import RandomGamma, adjust_gamma
from noiseproof.datasets.augment.mirror import RandomMirror, mirror
from noiseproof.datasets.augment.normalize import normalize
from noiseproof.datasets.augment.recipes import Recipe, recipe_for, recipes
from noiseproof.datasets.augment.resized_crop import (
    RandomResizedCrop,
    center_crop,
    resize,
    resize_shorter_side,
    resized_crop,
)
from noiseproof.datasets.augment.rotate import RandomRotation, rotate
from noiseproof.datasets.augment.steps import Augmentation, Chain

__all__ = [
    "Augmentation",
    "Chain",
    "ColourJitter",
    "RandomCropFlip",
    "RandomGamma",
    "RandomMirror",
    "RandomResizedCrop",
    "RandomRotation",
    "Recipe",
    "adjust_gamma",
    "center_crop",
    "crop_flip",
    "mirror",
    "normalize",
    "recipe_for",
    "recipes",
    "resize",
    "resize_shorter_side",
    "resized_crop",
    "rotate",
]
