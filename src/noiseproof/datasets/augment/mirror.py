# SPDX-License-Identifier: Apache-2.0
"""Mirroring without a crop: left to right, top to bottom, or both."""

from dataclasses import dataclass

import torch
from torch import Tensor

from noiseproof.datasets.augment.steps import Augmentation, Drawn, check_probability, uniform


def mirror(images: Tensor, left_right: Tensor, top_bottom: Tensor) -> Tensor:
    """Mirror each image left to right and top to bottom where asked.

    Args:
        images: shape (N, C, H, W), any type.
        left_right: bool of shape (N,).
        top_bottom: bool of shape (N,).

    Example:
        >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
        >>> mirror(image, torch.tensor([True]), torch.tensor([True]))[0, 0]
        tensor([[4, 3],
                [2, 1]])
    """
    images = torch.where(left_right[:, None, None, None], images.flip(3), images)
    return torch.where(top_bottom[:, None, None, None], images.flip(2), images)


@dataclass(frozen=True)
class RandomMirror(Augmentation):
    """Mirror at random, each direction on its own.

    Args:
        left_right: probability of mirroring left to right ("horizontal flip").
        top_bottom: probability of mirroring top to bottom ("vertical flip").

    Example:
        >>> images = torch.rand(4, 3, 8, 8)
        >>> RandomMirror(left_right=0.5, top_bottom=0.5)(images, torch.Generator().manual_seed(1)).shape
        torch.Size([4, 3, 8, 8])
    """

    left_right: float = 0.5
    top_bottom: float = 0.0

    def __post_init__(self) -> None:
        check_probability("left_right", self.left_right)
        check_probability("top_bottom", self.top_bottom)

    def draw(self, images: Tensor, generator: torch.Generator) -> Drawn:
        """Draw the two directions of each sample."""
        drawn = uniform((2, len(images)), 0.0, 1.0, images, generator)
        return drawn[0] < self.left_right, drawn[1] < self.top_bottom

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """Mirror as drawn."""
        return mirror(images, *drawn)

    def apply_to_masks(self, masks: Tensor, drawn: Drawn) -> Tensor:
        """Mirror the masks with their images."""
        return mirror(masks.unsqueeze(1), *drawn).squeeze(1)
