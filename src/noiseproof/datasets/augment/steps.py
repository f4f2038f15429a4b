# SPDX-License-Identifier: Apache-2.0
"""What every augmentation is: a draw of random numbers, and a pure function that applies them.

The two halves are apart so that images and masks can be moved by the same draw, and so that the second half
can be tested at known offsets and angles. Random numbers come from the ``torch.Generator`` given with each
call and from nowhere else.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Drawn = tuple[Tensor, ...]


class Augmentation(ABC):
    """One random change of a batch of images, in the shape and on the device in which they come.

    A subclass says what it draws and how it applies it. The element type is kept: uint8 (0..255) in, uint8
    out; float (0..1 where colours matter) in, float out. Only normalisation turns the one into the other.
    """

    @abstractmethod
    def draw(self, images: Tensor, generator: torch.Generator) -> Drawn:
        """Return this call's random numbers, one row a sample, on the device of ``images``."""

    @abstractmethod
    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """Change the images as drawn; no randomness of its own."""

    def apply_to_masks(self, masks: Tensor, drawn: Drawn) -> Tensor:
        """Move masks of shape (N, H, W) as the images were; colours leave them as they are."""
        return masks

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Draw and apply."""
        check_images(images)
        return self.apply(images, self.draw(images, generator))

    def together(self, images: Tensor, masks: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Change images of shape (N, C, H, W) and move their masks of shape (N, H, W) with them."""
        check_images(images)
        check_masks(masks, images)
        drawn = self.draw(images, generator)
        return self.apply(images, drawn), self.apply_to_masks(masks, drawn)


@dataclass(frozen=True)
class Chain:
    """Several augmentations one after the other, drawn in that order from one generator.

    Example:
        >>> from noiseproof.datasets.augment import Chain, RandomCropFlip, RandomRotation
        >>> chain = Chain((RandomCropFlip(), RandomRotation(20.0)))
        >>> images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
        >>> chain(images, torch.Generator().manual_seed(1)).shape
        torch.Size([2, 3, 32, 32])
    """

    steps: tuple[Augmentation, ...]

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Apply every step to the images."""
        for step in self.steps:
            images = step(images, generator)
        return images

    def together(self, images: Tensor, masks: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Apply every step to the images and move the masks with them."""
        for step in self.steps:
            images, masks = step.together(images, masks, generator)
        return images, masks


def check_images(images: Tensor) -> None:
    """Refuse anything but (N, C, H, W) of uint8 or float."""
    if not isinstance(images, Tensor):
        raise TypeError(f"images must be a torch.Tensor of shape (N, C, H, W), got {type(images).__name__}")
    if images.ndim != 4:
        raise ValueError(f"images must have the shape (N, C, H, W), got {tuple(images.shape)}")
    if images.dtype != torch.uint8 and not images.dtype.is_floating_point:
        raise TypeError(f"images must be uint8 (0..255) or float, got {images.dtype}")


def check_masks(masks: Tensor, images: Tensor) -> None:
    """Refuse masks that are not whole numbers of shape (N, H, W) fitting the images."""
    if not isinstance(masks, Tensor):
        raise TypeError(f"masks must be a torch.Tensor of shape (N, H, W), got {type(masks).__name__}")
    expected = (images.shape[0], *images.shape[2:])
    if tuple(masks.shape) != expected:
        raise ValueError(f"masks must have the shape {expected} of their images, got {tuple(masks.shape)}")
    if masks.dtype.is_floating_point or masks.dtype.is_complex:
        raise TypeError(f"masks must hold class indices (an integer type), got {masks.dtype}")


def check_probability(name: str, value: float) -> None:
    """Refuse a probability outside 0..1."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be between 0 and 1, got {value}")


def check_range(name: str, value: Sequence[float], *, lowest: float) -> None:
    """Refuse a pair that is not ``lowest < first <= second``."""
    if len(value) != 2 or not lowest < value[0] <= value[1]:
        raise ValueError(f"{name} must be a pair with {lowest} < first <= second, got {tuple(value)}")


def uniform(
    shape: Sequence[int], low: float, high: float, like: Tensor, generator: torch.Generator
) -> Tensor:
    """Draw float32 numbers from [low, high) with the generator and give them on the device of ``like``.

    With a generator on that device nothing crosses to the host. With a CPU generator the same numbers come on
    every device, at the price of one small copy.
    """
    drawn = torch.rand(tuple(shape), generator=generator, device=generator.device)
    return (drawn * (high - low) + low).to(like.device, non_blocking=True)


def whole_numbers(
    shape: Sequence[int], low: int, high: int, like: Tensor, generator: torch.Generator
) -> Tensor:
    """Draw whole numbers from low..high, both included; devices as in :func:`uniform`."""
    drawn = torch.randint(low, high + 1, tuple(shape), generator=generator, device=generator.device)
    return drawn.to(like.device, non_blocking=True)


def as_unit_float(images: Tensor) -> Tensor:
    """Return images as float in 0..1, of at least 32 bits: half precision is too coarse to place pixels."""
    if images.dtype == torch.uint8:
        return images.to(torch.float32) / 255.0
    return images if images.dtype == torch.float64 else images.to(torch.float32)


def as_dtype_of(images: Tensor, unit: Tensor) -> Tensor:
    """Return float images in 0..1 in the type of ``images``; uint8 is rounded to the nearest level."""
    if images.dtype == torch.uint8:
        return (unit * 255.0).round().clamp(0, 255).to(torch.uint8)
    return unit.to(images.dtype)
