# SPDX-License-Identifier: Apache-2.0
"""Rotation about the centre, counter-clockwise, with black corners."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from noiseproof.datasets.augment.pixels import take_pixels
from noiseproof.datasets.augment.steps import Augmentation, Drawn, as_dtype_of, as_unit_float, uniform

RESAMPLING = ("nearest", "bilinear")


def rotate(images: Tensor, degrees: Tensor, resampling: str = "nearest") -> Tensor:
    """Rotate each image about its centre; positive angles turn counter-clockwise, what comes in is black.

    ``nearest`` takes for each output pixel the input pixel in which the centre of the output pixel falls, the
    rule of Pillow's ``Image.rotate``. ``bilinear`` mixes the four nearest, black beyond the edge included.

    Args:
        images: shape (N, C, H, W), uint8 or float.
        degrees: float of shape (N,).
        resampling: ``"nearest"`` (any type) or ``"bilinear"``.

    Example:
        >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
        >>> rotate(image, torch.tensor([90.0]))[0, 0]
        tensor([[2, 4],
                [1, 3]])
    """
    if resampling not in RESAMPLING:
        raise ValueError(f"resampling must be one of {', '.join(RESAMPLING)}, got {resampling!r}")
    height, width = images.shape[2:]
    angle = torch.deg2rad(degrees.to(torch.float32))[:, None, None]
    from_centre_down = torch.arange(height, device=images.device)[:, None] + 0.5 - height / 2
    from_centre_right = torch.arange(width, device=images.device) + 0.5 - width / 2
    right = angle.cos() * from_centre_right - angle.sin() * from_centre_down + width / 2
    down = angle.sin() * from_centre_right + angle.cos() * from_centre_down + height / 2
    if resampling == "nearest":
        return take_pixels(images, down.floor().long(), right.floor().long())
    grid = torch.stack((right * (2 / width) - 1, down * (2 / height) - 1), dim=-1)
    unit = as_unit_float(images)
    return as_dtype_of(images, F.grid_sample(unit, grid.to(unit.dtype), align_corners=False))


@dataclass(frozen=True)
class RandomRotation(Augmentation):
    """Rotate by an angle drawn evenly from ±``degrees``; masks always by the nearest pixel.

    Args:
        degrees: the largest angle.
        resampling: ``"nearest"``, as in the CIFAR-100 recipe, or ``"bilinear"``.

    Example:
        >>> images = torch.ones(2, 3, 32, 32, dtype=torch.uint8)
        >>> RandomRotation(20.0)(images, torch.Generator().manual_seed(1)).shape
        torch.Size([2, 3, 32, 32])
    """

    degrees: float = 20.0
    resampling: str = "nearest"

    def __post_init__(self) -> None:
        if not 0.0 <= self.degrees <= 180.0:
            raise ValueError(f"degrees must be between 0 and 180, got {self.degrees}")
        if self.resampling not in RESAMPLING:
            raise ValueError(f"resampling must be one of {', '.join(RESAMPLING)}, got {self.resampling!r}")

    def draw(self, images: Tensor, generator: torch.Generator) -> Drawn:
        """Draw one angle a sample."""
        return (uniform((len(images),), -self.degrees, self.degrees, images, generator),)

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """Rotate as drawn."""
        return rotate(images, drawn[0], self.resampling)

    def apply_to_masks(self, masks: Tensor, drawn: Drawn) -> Tensor:
        """Rotate the masks by the nearest pixel; the corners become class 0."""
        return rotate(masks.unsqueeze(1), drawn[0], "nearest").squeeze(1)
