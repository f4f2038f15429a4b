# SPDX-License-Identifier: Apache-2.0
"""Zero-padded random crop with a horizontal flip: the paper's augmentation of CIFAR, one gather for both."""

from dataclasses import dataclass

import torch
from torch import Tensor

from noiseproof.datasets.augment.pixels import take_pixels
from noiseproof.datasets.augment.steps import Augmentation, Drawn, check_probability, uniform, whole_numbers


def crop_flip(images: Tensor, down: Tensor, right: Tensor, mirrored: Tensor) -> Tensor:
    """Cut a window of the image's own size that lies ``down`` and ``right`` of it, and mirror it where asked.

    What the window shows beyond the image is zero: black before normalisation, as the paper pads.

    Args:
        images: shape (N, C, H, W), any type.
        down: whole numbers of shape (N,); -4 shows four zero rows above the image.
        right: likewise for columns.
        mirrored: bool of shape (N,); the window's columns run from right to left.

    Example:
        >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
        >>> crop_flip(image, torch.tensor([1]), torch.tensor([0]), torch.tensor([True]))[0, 0]
        tensor([[4, 3],
                [0, 0]])
    """
    height, width = images.shape[2:]
    rows = down[:, None] + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(len(images), width)
    columns = right[:, None] + columns.where(~mirrored[:, None], width - 1 - columns)
    return take_pixels(images, rows[:, :, None], columns[:, None, :])


@dataclass(frozen=True)
class RandomCropFlip(Augmentation):
    """Pad by ``padding`` zeros on every side, cut a window of the old size at random, mirror it at random.

    Args:
        padding: how far the window may leave the image; every whole offset is equally likely.
        flip_probability: how often the window is mirrored left to right.

    Example:
        >>> images = torch.ones(50, 3, 32, 32, dtype=torch.uint8)
        >>> augmented = RandomCropFlip()(images, torch.Generator().manual_seed(1))
        >>> augmented.shape, augmented.dtype
        (torch.Size([50, 3, 32, 32]), torch.uint8)
    """

    padding: int = 4
    flip_probability: float = 0.5

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise ValueError(f"padding must be 0 or more, got {self.padding}")
        check_probability("flip_probability", self.flip_probability)

    def draw(self, images: Tensor, generator: torch.Generator) -> Drawn:
        """Draw how far down and right each window lies, and whether it is mirrored."""
        offsets = whole_numbers((2, len(images)), -self.padding, self.padding, images, generator)
        mirrored = uniform((len(images),), 0.0, 1.0, images, generator) < self.flip_probability
        return offsets[0], offsets[1], mirrored

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """Cut and mirror as drawn."""
        return crop_flip(images, *drawn)

    def apply_to_masks(self, masks: Tensor, drawn: Drawn) -> Tensor:
        """Cut and mirror the masks; outside is class 0."""
        return crop_flip(masks.unsqueeze(1), *drawn).squeeze(1)
