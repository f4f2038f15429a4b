"""Augmentation as tensor code: whole batches, on the device of the data, random only through a generator."""

from noiseproof.datasets.augment.colour import ColourJitter
from noiseproof.datasets.augment.crop_flip import RandomCropFlip, crop_flip
from noiseproof.datasets.augment.gamma import RandomGamma, adjust_gamma
from noiseproof.datasets.augment.mirror import RandomMirror, mirror
from noiseproof.datasets.augment.normalize import normalize
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
    "adjust_gamma",
    "center_crop",
    "crop_flip",
    "mirror",
    "normalize",
    "resize",
    "resize_shorter_side",
    "resized_crop",
    "rotate",
]
