# SPDX-License-Identifier: Apache-2.0
"""Random resized crop: a window of random area and shape, brought to one size.

Resizing is two products with small matrices of weights, one for the columns and one for the rows. Each sample
has its own window and so its own weights, yet the whole batch is two batched matrix products. The weights are
those of Pillow's ``BILINEAR``: a triangle that widens with the reduction (antialiasing), cut at the window.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from noiseproof.datasets.augment.pixels import take_pixels
from noiseproof.datasets.augment.steps import (
    Augmentation,
    Drawn,
    as_dtype_of,
    as_unit_float,
    check_images,
    check_range,
    uniform,
)

_TRIES = 10  # the common convention: after ten windows that do not fit, a central one


def resized_crop(images: Tensor, windows: Tensor, size: tuple[int, int], *, antialias: bool = True) -> Tensor:
    """Cut a window from each image and bring it to ``size`` bilinearly.

    Args:
        images: shape (N, C, H, W), uint8 or float.
        windows: whole numbers of shape (N, 4): first row, first column, number of rows, number of columns.
        size: (rows, columns) of the result.
        antialias: average over the input pixels that fall on an output pixel when reducing; ``False`` mixes
            only the two nearest in each direction.

    Example:
        >>> image = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4) * 10
        >>> resized_crop(image, torch.tensor([[0, 0, 4, 4]]), size=(2, 2))[0, 0]
        tensor([[ 36,  51],
                [ 99, 114]], dtype=torch.uint8)
    """
    unit = as_unit_float(images)
    top, left, height, width = windows.unbind(dim=1)
    across = _weights(left, width, size[1], images.shape[3], antialias).to(unit.dtype)
    along = _weights(top, height, size[0], images.shape[2], antialias).to(unit.dtype)
    narrowed = torch.bmm(unit.flatten(1, 2), across.transpose(1, 2)).view(*images.shape[:3], size[1])
    return as_dtype_of(images, torch.matmul(along.unsqueeze(1), narrowed))


def _weights(start: Tensor, length: Tensor, size: int, extent: int, antialias: bool) -> Tensor:
    """Return (N, size, extent): how much of each input pixel goes into each output pixel; rows sum to one."""
    start, length = start.to(torch.float32)[:, None], length.to(torch.float32)[:, None]
    reduction = length / size
    reach = (reduction.clamp(min=1.0) if antialias else torch.ones_like(reduction)).unsqueeze(2)
    centre = start + (torch.arange(size, device=start.device) + 0.5) * reduction
    pixel = torch.arange(extent, device=start.device) + 0.5
    weights = (1 - (pixel - centre.unsqueeze(2)).abs() / reach).clamp(min=0)
    inside = (pixel > start) & (pixel < start + length)
    weights = weights * inside.unsqueeze(1)
    return weights / weights.sum(dim=2, keepdim=True)


def nearest_resized_crop(masks: Tensor, windows: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut the same windows from masks of shape (N, H, W) by the nearest pixel: no class is invented."""
    top, left, height, width = windows.unbind(dim=1)
    rows = _nearest(top, height, size[0])
    columns = _nearest(left, width, size[1])
    return take_pixels(masks.unsqueeze(1), rows.unsqueeze(2), columns.unsqueeze(1)).squeeze(1)


def _nearest(start: Tensor, length: Tensor, size: int) -> Tensor:
    # Whole-number arithmetic, so that no rounding of a product can step to the neighbour.
    steps = 2 * torch.arange(size, device=start.device) + 1
    return start.long()[:, None] + (steps * length.long()[:, None]) // (2 * size)


def resize(images: Tensor, size: tuple[int, int], *, antialias: bool = True) -> Tensor:
    """Bring whole images to ``size``, proportions not kept; the arithmetic of :func:`resized_crop`.

    Example:
        >>> resize(torch.zeros(2, 3, 40, 30), (20, 20)).shape
        torch.Size([2, 3, 20, 20])
    """
    check_images(images)
    unit = as_unit_float(images)
    zero = torch.zeros(1, device=images.device)
    across = _weights(zero, zero + images.shape[3], size[1], images.shape[3], antialias).to(unit.dtype)
    along = _weights(zero, zero + images.shape[2], size[0], images.shape[2], antialias).to(unit.dtype)
    return as_dtype_of(images, along[0] @ (unit @ across[0].T))


def resize_shorter_side(images: Tensor, length: int, *, antialias: bool = True) -> Tensor:
    """Bring the shorter side to ``length`` and the other one along, rounded down as is the convention.

    Example:
        >>> resize_shorter_side(torch.zeros(1, 3, 300, 401), 256).shape
        torch.Size([1, 3, 256, 342])
    """
    height, width = images.shape[2:]
    shorter = min(height, width)
    return resize(images, (length * height // shorter, length * width // shorter), antialias=antialias)


def center_crop(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut the middle; where the margin is odd, the extra row or column stays at the bottom or right.

    Example:
        >>> center_crop(torch.arange(5).expand(1, 1, 5, 5), (1, 2))[0, 0]
        tensor([[1, 2]])
    """
    height, width = images.shape[2:]
    if size[0] > height or size[1] > width:
        raise ValueError(f"size must fit into the images of {height}x{width}, got {size[0]}x{size[1]}")
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    return images[:, :, top : top + size[0], left : left + size[1]]


@dataclass(frozen=True)
class RandomResizedCrop(Augmentation):
    """Cut a window of random area and shape at a random place and bring it to ``size`` × ``size``.

    The share of the image's area is drawn evenly from ``area``, width over height log-evenly from ``ratio``.
    Ten windows are drawn for each sample and the first that fits is taken; if none fits, the largest central
    window of an allowed shape. That is the common convention, here for the whole batch at once and without
    asking the device for an answer.

    Args:
        size: rows and columns of the result.
        area: smallest and largest share of the area.
        ratio: smallest and largest width over height.
        antialias: see :func:`resized_crop`.

    Example:
        >>> images = torch.zeros(2, 3, 256, 320, dtype=torch.uint8)
        >>> RandomResizedCrop(224)(images, torch.Generator().manual_seed(1)).shape
        torch.Size([2, 3, 224, 224])
    """

    size: int = 224
    area: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    antialias: bool = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size must be 1 or more, got {self.size}")
        check_range("area", self.area, lowest=0.0)
        check_range("ratio", self.ratio, lowest=0.0)

    def draw(self, images: Tensor, generator: torch.Generator) -> Drawn:
        """Draw each sample's window."""
        count, rows, columns = len(images), images.shape[2], images.shape[3]
        area = uniform((count, _TRIES), *self.area, images, generator) * (rows * columns)
        log_ratio = tuple(math.log(bound) for bound in self.ratio)
        ratio = uniform((count, _TRIES), log_ratio[0], log_ratio[1], images, generator).exp()
        place = uniform((2, count), 0.0, 1.0, images, generator)

        widths, heights = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
        fits = (widths >= 1) & (widths <= columns) & (heights >= 1) & (heights <= rows)
        first = fits.to(torch.uint8).argmax(dim=1, keepdim=True)
        found = fits.any(dim=1)
        central_height, central_width = _largest_window(rows, columns, self.ratio)
        height = heights.gather(1, first).squeeze(1).where(found, float(central_height))
        width = widths.gather(1, first).squeeze(1).where(found, float(central_width))
        # A float just below 1 times the number of places can round up to it: hence the second bound.
        top = (place[0] * (rows - height + 1)).floor().minimum(rows - height)
        left = (place[1] * (columns - width + 1)).floor().minimum(columns - width)
        top = top.where(found, float((rows - central_height) // 2))
        left = left.where(found, float((columns - central_width) // 2))
        return (torch.stack((top, left, height, width), dim=1).long(),)

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """Cut and resize as drawn, bilinearly."""
        return resized_crop(images, drawn[0], size=(self.size, self.size), antialias=self.antialias)

    def apply_to_masks(self, masks: Tensor, drawn: Drawn) -> Tensor:
        """Cut and resize the masks by the nearest pixel."""
        return nearest_resized_crop(masks, drawn[0], size=(self.size, self.size))


def _largest_window(rows: int, columns: int, ratio: tuple[float, float]) -> tuple[int, int]:
    if columns < ratio[0] * rows:
        return min(rows, round(columns / ratio[0])), columns
    if columns > ratio[1] * rows:
        return rows, min(columns, round(rows * ratio[1]))
    return rows, columns
