# SPDX-License-Identifier: Apache-2.0
"""Gamma: brighten or darken by a power, black and white kept."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from noiseproof.datasets.augment.steps import (
    Augmentation,
    Drawn,
    as_dtype_of,
    as_unit_float,
    check_probability,
    check_range,
    uniform,
)


def adjust_gamma(images: Tensor, gamma: Tensor) -> Tensor:
    """Raise each image, on the scale 0..1, to its power: below 1 brightens, above 1 darkens.

    Args:
        images: shape (N, C, H, W), uint8 or float in 0..1.
        gamma: shape (N,), positive.

    Example:
        >>> image = torch.full((1, 1, 1, 1), 0.25)
        >>> adjust_gamma(image, torch.tensor([0.5])).item()
        0.5
    """
    unit = as_unit_float(images)
    return as_dtype_of(images, unit.clamp(min=0) ** gamma.view(-1, 1, 1, 1).to(unit.dtype))


@dataclass(frozen=True)
class RandomGamma(Augmentation):
    """Change the gamma of some samples, the power drawn log-evenly from ``gamma``.

    Args:
        gamma: smallest and largest power; log-evenly, so that 1/2 and 2 would be equally likely.
        probability: of a sample being changed at all.

    Example:
        >>> images = torch.full((4, 3, 8, 8), 128, dtype=torch.uint8)
        >>> RandomGamma()(images, torch.Generator().manual_seed(1)).dtype
        torch.uint8
    """

    gamma: tuple[float, float] = (0.7, 1.5)
    probability: float = 0.5

    def __post_init__(self) -> None:
        check_range("gamma", self.gamma, lowest=0.0)
        check_probability("probability", self.probability)

    def draw(self, images: Tensor, generator: torch.Generator) -> Drawn:
        """Draw each sample's power; 1 for those left alone."""
        low, high = (math.log(bound) for bound in self.gamma)
        power = uniform((len(images),), low, high, images, generator).exp()
        changed = uniform((len(images),), 0.0, 1.0, images, generator) < self.probability
        return (power.where(changed, 1.0),)

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """Change the gamma as drawn."""
        return adjust_gamma(images, drawn[0])
