# SPDX-License-Identifier: Apache-2.0
"""What the losses of whole images share: Dice and T-Loss, whose value for a pixel depends on all the others.

Such a loss has one value an image, not one a pixel, so ``reduction`` is over images: ``"mean"`` counts each image
alike, ``"none"`` gives (N,). It takes logits (N, K, d1, …), and (N, 1, d1, …) for one logit a pixel.
"""

from typing import NamedTuple, Unpack

import torch
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.calculus import Term, WeightedSum
from noiseproof.losses.labels import IndexLabels, read_labels
from noiseproof.losses.module import Options, RobustLoss

NO_PIXEL_LOSS = WeightedSum(())
"""The loss of single pixels of a loss that has none."""


class ImageLoss(RobustLoss):
    """A loss that looks at whole images, alone or beside a loss of their pixels.

    Args:
        pixels: the loss of single pixels that is a part of it, if there is one.
        **options: those of every loss.
    """

    def __init__(self, pixels: Term = NO_PIXEL_LOSS, **options: Unpack[Options]) -> None:
        super().__init__(pixels, **options)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of logits (N, K, d1, …) against indices or probabilities."""
        raise NotImplementedError(f"{type(self).__name__} must say what an image costs")

    def label_weight(self, target: Tensor) -> Tensor:
        """Return the number of images, which count alike."""
        return torch.tensor(len(target), device=target.device)


class Shares(NamedTuple):
    """How much of each pixel belongs to each class that counts: predicted and given.

    Attributes:
        predicted: probabilities (N, C, d1, …).
        given: the masks, as zeros and ones or as probabilities (N, C, d1, …); zero where ignored.
        valid: pixels with a label (N, 1, d1, …); ``None`` where all have one.
    """

    predicted: Tensor
    given: Tensor
    valid: Tensor | None

    def over_pixels(self, values: Tensor) -> Tensor:
        """Sum of (N, C, d1, …) over the pixels that have a label: (N, C)."""
        if self.valid is not None:
            values = torch.where(self.valid, values, 0.0)
        return values.flatten(2).sum(2)

    def pixels(self) -> Tensor:
        """Number of pixels with a label in each image (N,)."""
        if self.valid is not None:
            return self.valid.flatten(1).sum(1)
        count = self.predicted[0, 0].numel() if len(self.predicted) else 0
        return torch.full((len(self.predicted),), count, device=self.predicted.device)


def read_shares(
    logits: Tensor,
    target: Tensor,
    ignore_index: int = -100,
    check_labels: bool | None = None,
    *,
    background: bool = False,
) -> Shares:
    """Compare logits with masks, class by class, in at least float32.

    Args:
        logits: (N, K, d1, …), or (N, 1, d1, …) for one logit a pixel, whose sigmoid is the foreground.
        target: class indices (N, d1, …), or probabilities of the logits' shape.
        ignore_index: the index that marks pixels without a label.
        check_labels: whether to check that indices lie in 0…K−1; by default on the CPU only.
        background: whether class 0 counts. Without it two classes are one channel, the softmax's foreground.
    """
    check_images(logits, target)
    dtype = torch.float32 if logits.element_size() < 4 else logits.dtype
    wide = logits.to(dtype)
    channels = logits.shape[1]
    if channels == 1:
        predicted = wide.sigmoid()
    elif channels == 2:
        predicted = (wide[:, 1:] - wide[:, :1]).sigmoid()
    else:
        predicted = wide.softmax(1)[:, 0 if background else 1 :]
    given, valid = _given(logits, target, ignore_index, check_labels, dtype)
    if background and channels < 3:
        predicted, given = torch.cat([1 - predicted, predicted], 1), torch.cat([1 - given, given], 1)
    elif background:
        first = _background(logits, target, dtype)
        given = torch.cat([first, given], 1)
    return Shares(predicted, given if valid is None else torch.where(valid, given, 0.0), valid)


def _given(
    logits: Tensor, target: Tensor, ignore_index: int, check_labels: bool | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Shares of the classes from 1 on, and which pixels have a label."""
    if logits.shape[1] == 1 and target.is_floating_point():
        if target.shape != logits.shape:
            raise ValueError(
                f"target: expected probabilities of the logits' shape {tuple(logits.shape)}, got "
                f"{tuple(target.shape)}"
            )
        return target.to(dtype), None
    # One logit is two classes to the checks; expanding copies nothing.
    classes = max(2, logits.shape[1])
    as_classes = logits.expand(-1, 2, *logits.shape[2:]) if logits.shape[1] == 1 else logits
    labels = read_labels(as_classes, target, None, ignore_index, check_labels, dtype)
    if not isinstance(labels, IndexLabels):
        return labels.probabilities[:, 1:], None
    if classes == 2:
        return labels.indices.unsqueeze(1).to(dtype), labels.valid.unsqueeze(1)
    numbers = torch.arange(1, classes, device=logits.device).view(-1, *[1] * (logits.ndim - 2))
    return (labels.indices.unsqueeze(1) == numbers).to(dtype), labels.valid.unsqueeze(1)


def _background(logits: Tensor, target: Tensor, dtype: torch.dtype) -> Tensor:
    return target[:, :1].to(dtype) if target.is_floating_point() else (target == 0).unsqueeze(1).to(dtype)


def check_images(logits: Tensor, target: Tensor) -> None:
    """Refuse what is no batch of images: such a loss has no meaning for single labels."""
    for name, value in (("logits", logits), ("target", target)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")
    if not logits.is_floating_point():
        raise TypeError(f"logits: expected a floating-point tensor, got {logits.dtype}")
    if logits.ndim < 3 or logits.shape[1] < 1:
        raise ValueError(
            f"logits: expected those of images, (N, K, height, width), got shape {tuple(logits.shape)}; for "
            "single labels use a loss of labels, such as cross-entropy"
        )


def reduced(per_image: Tensor, reduction: str) -> Tensor:
    """Mean or sum over images, or the images' own values."""
    checks.reduction(reduction)
    if reduction == "none":
        return per_image
    return per_image.sum() if reduction == "sum" else per_image.mean()
