# SPDX-License-Identifier: Apache-2.0
"""How well masks are found: Dice, pooled over all images and mean over them, from the same counts.

``Dice = 2·|P ∩ T| / (|P| + |T|)`` of the pixels P that were predicted and the pixels T that are true, of each class
but the background. A mask may be empty, which the formula leaves open:

* pooled over the test set, a class that is neither predicted nor true anywhere counts as found: 1;
* of one image, classes that are neither predicted nor true in it are left out of its mean; if that leaves none (an
  empty mask, rightly predicted to be empty) the image counts 1. Where just one of the two is empty Dice is 0.

Pixels without a label, such as those of level 255 beside class indices, count nowhere. Where it is a class that is
ignored, its pixels count nowhere and it has no Dice.

All functions are of counts, so that a GPU need hold three numbers an image and class and the host does the rest.
"""

import torch
from torch import Tensor

IN_BOTH, IN_PREDICTION, IN_TRUTH = range(3)
"""What the last dimension of counts holds."""


def classes_that_count(num_classes: int, ignored: int | None = None) -> list[int]:
    """Classes that have a Dice: all but the background and the one that is ignored.

    >>> classes_that_count(4), classes_that_count(4, 2), classes_that_count(4, 255)
    ([1, 2, 3], [1, 3], [1, 2, 3])
    """
    return [k for k in range(1, num_classes) if k != ignored]


def count_pixels(predicted: Tensor, true: Tensor, num_classes: int, ignored: int | None = None) -> Tensor:
    """Count pixels of each image and each of the C classes that count: (N, C, 3), int64.

    Args:
        predicted: class indices (N, …).
        true: class indices (N, …), of the same shape.
        num_classes: K, with the background.
        ignored: of ``true``, the index of pixels without a label; by default all from K on.

    Example:
        >>> count_pixels(torch.tensor([[0, 1, 1, 1]]), torch.tensor([[0, 0, 1, 1]]), 2)
        tensor([[[2, 3, 2]]])
        >>> count_pixels(torch.tensor([[0, 1, 1, 1]]), torch.tensor([[0, 0, 1, 255]]), 2)
        tensor([[[1, 2, 1]]])
    """
    if predicted.shape != true.shape:
        raise ValueError(
            f"predicted: expected the masks' shape {tuple(true.shape)}, got {tuple(predicted.shape)}"
        )
    labelled = (true < num_classes if ignored is None else true != ignored).flatten(1)
    counts = []
    for k in classes_that_count(num_classes, ignored):
        ours, theirs = (predicted == k).flatten(1) & labelled, (true == k).flatten(1)
        counts.append(torch.stack([(ours & theirs).sum(1), ours.sum(1), theirs.sum(1)], 1))
    return torch.stack(counts, 1)


def pooled(counts: Tensor) -> float:
    """Dice in percent over the pixels of all images together, mean over the classes.

    Example:
        >>> pooled(torch.tensor([[[2, 3, 2]], [[0, 0, 5]]]))  # 2·2 / (3 + 2 + 0 + 5)
        40.0
    """
    totals = counts.sum(0).double()
    sizes = totals[:, IN_PREDICTION] + totals[:, IN_TRUTH]
    by_class = torch.where(sizes > 0, 2 * totals[:, IN_BOTH] / sizes.clamp(min=1), 1.0)
    return 100 * by_class.mean().item()


def of_each_image(counts: Tensor) -> Tensor:
    """Dice of each image in percent (N,), mean over the classes that are in it.

    Example:
        >>> of_each_image(torch.tensor([[[2, 3, 2]], [[0, 0, 5]], [[0, 0, 0]]]))
        tensor([ 80.,   0., 100.], dtype=torch.float64)
    """
    sizes = (counts[..., IN_PREDICTION] + counts[..., IN_TRUTH]).double()
    present = sizes > 0
    by_class = torch.where(present, 2 * counts[..., IN_BOTH] / sizes.clamp(min=1), 0.0)
    number = present.sum(1)
    return 100 * torch.where(number > 0, by_class.sum(1) / number.clamp(min=1), 1.0)


def per_image(counts: Tensor) -> float:
    """Mean of :func:`of_each_image`."""
    return float(of_each_image(counts).mean())
