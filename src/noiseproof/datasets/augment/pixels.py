# SPDX-License-Identifier: Apache-2.0
"""Moving pixels: one gather for any map from output to input pixels, with zeros outside."""

import torch.nn.functional as F
from torch import Tensor


def take_pixels(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Build images whose pixel (i, j) is the input's at (rows[n, i, j], columns[n, i, j]), or zero outside.

    The channels share one index, so a whole epoch of crops is one gather. Zeros outside come from one extra
    row and column of zeros to which every outside position points, not from padding each image on all sides.

    Args:
        images: shape (N, C, H, W), any type.
        rows: whole numbers that broadcast with ``columns`` to (N, h, w).
        columns: likewise.

    Returns:
        Shape (N, C, h, w), in the type of ``images``.

    Example:
        >>> import torch
        >>> image = torch.arange(1, 5).view(1, 1, 2, 2)
        >>> rows, columns = torch.tensor([[[0], [1]]]), torch.tensor([[[1, 2]]])
        >>> take_pixels(image, rows, columns)[0, 0]
        tensor([[2, 0],
                [4, 0]])
    """
    count, channels, height, width = images.shape
    bordered = F.pad(images, (0, 1, 0, 1)).flatten(2)
    rows = rows.where((rows >= 0) & (rows < height), height)
    columns = columns.where((columns >= 0) & (columns < width), width)
    index = rows * (width + 1) + columns
    taken = bordered.gather(2, index.flatten(1).unsqueeze(1).expand(count, channels, -1))
    return taken.view(count, channels, *index.shape[1:])
