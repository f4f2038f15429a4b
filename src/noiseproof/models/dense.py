# SPDX-License-Identifier: Apache-2.0
"""What networks for segmentation share: how often they halve an image, and images that do not halve evenly."""

import torch.nn.functional as F
from torch import Tensor

from noiseproof.models import checks

PAPER_SIZE, PAPER_POOLINGS = (256, 256), 5
"""The paper states its network for this size; nnU-Net's own rule would pool once more."""

SMALLEST_MAP = 4
"""nnU-Net's: no side of a feature map is made shorter than this."""

Halvings = tuple[tuple[int, int], ...]
"""For each pooling whether it halves the height (2) or keeps it (1), and the width."""


def poolings_by_nnunet(image_size: tuple[int, int]) -> Halvings:
    """Return how nnU-Net would pool images of this size, pixels being square.

    A side is halved, rounding up, as long as at least :data:`SMALLEST_MAP` is left of it. Both sides are halved
    together while both can be; a side that is left alone must still have three times that much.

    Example:
        >>> len(poolings_by_nnunet((128, 128))), len(poolings_by_nnunet((512, 512)))
        (5, 7)
        >>> poolings_by_nnunet((48, 20))
        ((2, 2), (2, 2), (2, 1))
    """
    poolings: list[tuple[int, int]] = []
    sides = list(image_size)
    spacing = [1.0, 1.0]
    while True:
        able = [axis for axis in (0, 1) if sides[axis] >= 2 * SMALLEST_MAP]
        # An axis whose pixels have become twice as wide as the other's waits for it.
        able = [axis for axis in able if spacing[axis] / min(spacing[a] for a in able) < 2]
        if not able or (len(able) == 1 and sides[able[0]] < 3 * SMALLEST_MAP):
            return tuple(poolings)
        poolings.append((2 if 0 in able else 1, 2 if 1 in able else 1))
        for axis in able:
            sides[axis] = -(-sides[axis] // 2)
            spacing[axis] *= 2


def chosen_poolings(image_size: tuple[int, int], poolings: int | None) -> Halvings:
    """So many poolings of both sides; without a number the paper's for its size, else nnU-Net's.

    Example:
        >>> len(chosen_poolings((256, 256), None)), len(chosen_poolings((256, 256), 6))
        (5, 6)
    """
    if poolings is None and image_size == PAPER_SIZE:
        poolings = PAPER_POOLINGS
    if poolings is None:
        return poolings_by_nnunet(image_size)
    return ((2, 2),) * checks.integer("poolings", poolings, largest=min(image_size).bit_length() - 1)


def multiple_of(poolings: Halvings) -> tuple[int, int]:
    """What height and width must be multiples of, to be halved so often."""
    return 2 ** sum(down == 2 for down, _ in poolings), 2 ** sum(right == 2 for _, right in poolings)


def stage_widths(base: int, poolings: Halvings, largest: int = 480) -> tuple[int, ...]:
    """Channels of each stage: twice as many after each pooling, up to ``largest``, nnU-Net's limit in 2-D.

    Example:
        >>> stage_widths(32, ((2, 2),) * 5)
        (32, 64, 128, 256, 480, 480)
    """
    return tuple(min(base * 2**stage, largest) for stage in range(len(poolings) + 1))


def padded(images: Tensor, multiple: tuple[int, int]) -> Tensor:
    """Repeat the last row and column until height and width are multiples, as halving needs.

    Example:
        >>> import torch
        >>> padded(torch.zeros(1, 3, 30, 64), (32, 32)).shape
        torch.Size([1, 3, 32, 64])
    """
    height, width = images.shape[2:]
    below, right = -height % multiple[0], -width % multiple[1]
    return F.pad(images, (0, right, 0, below), mode="replicate") if below or right else images
