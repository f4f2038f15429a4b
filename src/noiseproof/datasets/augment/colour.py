# SPDX-License-Identifier: Apache-2.0
"""Colour jitter: brightness, contrast, saturation and hue, each sample its own amounts in its own order."""

from dataclasses import dataclass

import torch
from torch import Tensor

from noiseproof.datasets.augment.steps import Augmentation, Drawn, as_dtype_of, as_unit_float, uniform

BRIGHTNESS, CONTRAST, SATURATION = 0, 1, 2
_RED, _GREEN, _BLUE = 0.299, 0.587, 0.114  # ITU-R BT.601 luma, as in Pillow's conversion to "L"


def blend(unit: Tensor, kind: Tensor, factor: Tensor) -> Tensor:
    """Change brightness, contrast or saturation: each mixes the image with another one, clipped to 0..1.

    That other image is black for brightness, the mean grey for contrast, the grey image for saturation; a
    factor of 0 gives the other image, 1 the image itself, more than 1 moves away from the other.

    Args:
        unit: float RGB images in 0..1, shape (N, 3, H, W).
        kind: shape (N,), ``BRIGHTNESS``, ``CONTRAST`` or ``SATURATION`` for each sample.
        factor: shape (N,).

    Example:
        >>> red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
        >>> blend(red, torch.tensor([SATURATION]), torch.tensor([0.0])).flatten()
        tensor([0.2990, 0.2990, 0.2990])
    """
    kind, factor = kind.view(-1, 1, 1, 1), factor.view(-1, 1, 1, 1).to(unit.dtype)
    grey = _RED * unit[:, 0:1] + _GREEN * unit[:, 1:2] + _BLUE * unit[:, 2:3]
    mean = grey.mean(dim=(2, 3), keepdim=True)
    other = torch.where(kind == SATURATION, grey, mean.where(kind == CONTRAST, 0.0))
    return (factor * unit + (1 - factor) * other).clamp(0, 1)


def shift_hue(unit: Tensor, turns: Tensor) -> Tensor:
    """Turn every colour around the colour circle, lightness and saturation (HSV) kept.

    Args:
        unit: float RGB images in 0..1, shape (N, 3, H, W).
        turns: shape (N,), parts of a full turn; 1/3 takes red to green.

    Example:
        >>> red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
        >>> shift_hue(red, torch.tensor([1 / 3])).flatten().round(decimals=4)
        tensor([0., 1., 0.])
    """
    red, green, blue = unit.unbind(dim=1)
    value, which = unit.max(dim=1)
    chroma = value - unit.amin(dim=1)
    safe = chroma.where(chroma > 0, 1.0)
    sextant = torch.where(
        which == 0,
        (green - blue) / safe,
        torch.where(which == 1, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    sextant = (sextant + 6 * turns.view(-1, 1, 1).to(unit.dtype)) % 6
    # Each channel of a pure hue is a trapezoid over the circle; its offset places the plateau.
    channels = [
        value - chroma * torch.minimum((sextant + offset) % 6, 4 - (sextant + offset) % 6).clamp(0, 1)
        for offset in (5, 3, 1)
    ]
    return torch.stack(channels, dim=1)


@dataclass(frozen=True)
class ColourJitter(Augmentation):
    """Change brightness, contrast, saturation and hue at random, in a random order **for each sample**.

    Brightness, contrast and saturation factors are drawn evenly from [max(0, 1 − x), 1 + x], the hue's turn
    from ±``hue``. All 24 orders are equally likely, at the cost of six blends and one turn of the hue: three
    blends that act where they come before the turn, the turn, three that act where they come after it. The
    statistics of the common per-image jitter are kept, and nothing has to be known on the host.

    Args:
        brightness: the largest change of the factor.
        contrast: likewise.
        saturation: likewise.
        hue: the largest turn, at most 0.5.

    Example:
        >>> images = torch.full((2, 3, 4, 4), 100, dtype=torch.uint8)
        >>> ColourJitter()(images, torch.Generator().manual_seed(1)).dtype
        torch.uint8
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.2

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if not 0 <= self.hue <= 0.5:
            raise ValueError(f"hue must be between 0 and 0.5 of a turn, got {self.hue}")

    def draw(self, images: Tensor, generator: torch.Generator) -> Drawn:
        """Draw three factors, a turn of the hue, the order of the blends and the hue's place among them."""
        count = len(images)
        spans = (self.brightness, self.contrast, self.saturation)
        factors = torch.stack(
            [uniform((count,), max(0.0, 1 - span), 1 + span, images, generator) for span in spans], dim=1
        )
        turns = uniform((count,), -self.hue, self.hue, images, generator)
        order = uniform((count, 3), 0.0, 1.0, images, generator).argsort(dim=1)
        place_of_hue = uniform((count,), 0.0, 4.0, images, generator).floor().clamp(max=3)
        return factors, turns, order, place_of_hue

    def apply(self, images: Tensor, drawn: Drawn) -> Tensor:
        """Change the colours as drawn."""
        if images.shape[1] != 3:
            raise ValueError(f"images must have 3 channels (RGB) for colour jitter, got {images.shape[1]}")
        factors, turns, order, place_of_hue = drawn
        unit = as_unit_float(images)
        for place in range(3):
            unit = _blend_at(unit, factors, order[:, place], active=place_of_hue > place)
        unit = shift_hue(unit, turns)
        for place in range(3):
            unit = _blend_at(unit, factors, order[:, place], active=place_of_hue <= place)
        return as_dtype_of(images, unit)


def _blend_at(unit: Tensor, factors: Tensor, kind: Tensor, active: Tensor) -> Tensor:
    factor = factors.gather(1, kind[:, None]).squeeze(1)
    return blend(unit, kind, factor.where(active, 1.0))
