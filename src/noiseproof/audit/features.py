# SPDX-License-Identifier: Apache-2.0
"""Features of pictures that no label had a part in: responses to whitened random patches, pooled over a grid.

A network that is trained on wrong labels has features made of wrong labels. These need no training: patches are
drawn from the pictures themselves, whitened and used as filters, as in A. Coates and A. Y. Ng, *The Importance of
Encoding Versus Training with Sparse Coding and Vector Quantization* (ICML 2011). A linear model on top of them is
fitted in closed form, in minutes on one core.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from noiseproof.datasets import LabeledData
from noiseproof.datasets.decode import Squash
from noiseproof.datasets.loader import StreamingLoader

LARGEST_SIDE = 32
"""Larger pictures are reduced to this: filters of six pixels see no more of them."""

PATCH = 6
SMALL_PATCH = 3
SMALL_SIDE = 16
"""Pictures of a shorter side than this have the small patches."""

PATCHES_DRAWN = 60_000
PICTURES_DRAWN = 4_000
PICTURES_AT_A_TIME = 256
LEAST_CONTRAST = 10 / 255**2
LEAST_VARIANCE = 0.01
THRESHOLD = 0.5


class PatchFeatures:
    """Makes features of pictures: ``(N, C, H, W)`` of bytes to ``(N, dimensions)``, of zero mean and unit variance.

    Args:
        pictures: some thousand of them, uint8 (N, C, H, W), from which filters and means are taken.
        filters: how many patches.
        grid: the responses of each filter are averaged over so many rows and columns.
        stride: pixels between two places where patches are compared.
        seed: draws the patches.

    Example:
        >>> from noiseproof import datasets
        >>> images = torch.from_numpy(datasets.load("digits").images).permute(0, 3, 1, 2)
        >>> PatchFeatures(images[:500], filters=20)(images[:7]).shape
        torch.Size([7, 160])
    """

    side = LARGEST_SIDE

    def __init__(
        self, pictures: Tensor, *, filters: int = 512, grid: int = 2, stride: int = 2, seed: int = 0
    ) -> None:
        height, width = pictures.shape[2:]
        small = min(height, width) < SMALL_SIDE
        self._side = min(SMALL_PATCH if small else PATCH, height, width)
        self._stride, self._grid = 1 if small else stride, grid
        random = torch.Generator().manual_seed(seed)
        self._make_filters(pictures, filters, random)
        self._mean, self._deviation = torch.zeros(()), torch.ones(())
        sample = self(pictures[:PICTURES_DRAWN])
        self._mean, self._deviation = sample.mean(0), sample.std(0) + 1e-3
        self.dimensions = sample.shape[1]

    def _make_filters(self, pictures: Tensor, filters: int, random: torch.Generator) -> None:
        patches = _contrast_normalized(_patches(pictures, self._side, random))
        mean = patches.mean(0)
        spread, directions = torch.linalg.eigh((patches - mean).T @ (patches - mean) / len(patches))
        whitening = directions @ torch.diag((spread.clamp(min=0) + LEAST_VARIANCE).rsqrt()) @ directions.T
        whitened = (patches - mean) @ whitening
        whitened = whitened[whitened.norm(dim=1) > 1e-3]
        if not len(whitened):
            raise ValueError("images: expected some that are not of a single colour, got none")
        chosen = whitened[torch.randperm(len(whitened), generator=random)[:filters]]
        directions_of_patches = chosen / chosen.norm(dim=1, keepdim=True) @ whitening
        channels = pictures.shape[1]
        self._filters = directions_of_patches.view(-1, channels, self._side, self._side)
        self._sums = directions_of_patches.sum(1)[None, :, None, None]
        self._shift = -(directions_of_patches @ mean)[None, :, None, None]
        self._box = torch.full((1, channels, self._side, self._side), 1 / (channels * self._side**2))

    @torch.no_grad()
    def __call__(self, pictures: Tensor) -> Tensor:
        """Features of pictures (N, C, H, W)."""
        parts = [self._of_few(part) for part in torch.split(pictures, PICTURES_AT_A_TIME)]
        return (torch.cat(parts) - self._mean) / self._deviation

    def _of_few(self, pictures: Tensor) -> Tensor:
        pixels = (pictures.float() / 255).contiguous(memory_format=torch.channels_last)
        mean = functional.conv2d(pixels, self._box, stride=self._stride)
        variance = functional.conv2d(pixels.square(), self._box, stride=self._stride) - mean.square()
        # Each patch loses its mean and contrast; done after the filters, for they are linear.
        responses = functional.conv2d(pixels, self._filters, stride=self._stride).sub_(mean * self._sums)
        responses.mul_((variance.clamp(min=0) + LEAST_CONTRAST).rsqrt()).add_(self._shift)
        above = functional.adaptive_avg_pool2d((responses - THRESHOLD).clamp_(min=0), self._grid)
        below = functional.adaptive_avg_pool2d((-responses - THRESHOLD).clamp_(min=0), self._grid)
        return torch.cat([above, below], 1).flatten(1).sqrt()


def _patches(pictures: Tensor, side: int, random: torch.Generator) -> Tensor:
    count, _, height, width = pictures.shape
    which = torch.randint(count, (PATCHES_DRAWN,), generator=random).tolist()
    tops = torch.randint(height - side + 1, (PATCHES_DRAWN,), generator=random).tolist()
    lefts = torch.randint(width - side + 1, (PATCHES_DRAWN,), generator=random).tolist()
    taken = [
        pictures[picture, :, top : top + side, left : left + side]
        for picture, top, left in zip(which, tops, lefts, strict=True)
    ]
    return torch.stack(taken).float().flatten(1) / 255


def _contrast_normalized(patches: Tensor) -> Tensor:
    centred = patches - patches.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + LEAST_CONTRAST).sqrt()


def picture_blocks(
    data: LabeledData, workers: int = 0, *, side: int = LARGEST_SIDE, enlarge: bool = False
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """``(indices, pictures)`` of a data set in its order, a few hundred at a time.

    Args:
        data: pictures.
        workers: processes that decode files.
        side: none is larger than so many pixels in height and width.
        enlarge: nor smaller.
    """
    size = 2 * PICTURES_AT_A_TIME
    if data.images is None:
        fit = Squash(side, side)
        with StreamingLoader(data, fit, size, shuffle=False, num_workers=workers) as loader:
            for batch in loader:
                yield batch.indices.numpy(), batch.images
        return
    for start in range(0, len(data), size):
        indices = np.arange(start, min(start + size, len(data)))
        pictures = torch.from_numpy(np.ascontiguousarray(data.images[indices])).permute(0, 3, 1, 2)
        yield indices, _resized(pictures, side, enlarge)


def some_pictures(
    data: LabeledData,
    count: int = PICTURES_DRAWN,
    seed: int = 0,
    *,
    side: int = LARGEST_SIDE,
    enlarge: bool = False,
) -> Tensor:
    """Pictures drawn at random, in the sizes of :func:`picture_blocks`."""
    chosen = np.sort(np.random.RandomState(seed).permutation(len(data))[:count])
    blocks = picture_blocks(data.subset(chosen), side=side, enlarge=enlarge)
    return torch.cat([pictures for _, pictures in blocks])


def _resized(pictures: Tensor, side: int, enlarge: bool) -> Tensor:
    height, width = pictures.shape[2:]
    shape = (side, side) if enlarge else (min(height, side), min(width, side))
    if shape == (height, width):
        return pictures
    resized = functional.interpolate(pictures.float(), shape, mode="bilinear", antialias=True)
    return resized.round().clamp(0, 255).to(torch.uint8)
