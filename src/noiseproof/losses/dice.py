# SPDX-License-Identifier: Apache-2.0
"""Soft Dice, alone and beside a loss of pixels: what segmentation is usually trained with.

Dice is a ratio of sums over an image, so that a small lesion counts as much as a large one.
"""

from typing import Unpack

import torch
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.calculus import Active, Term
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.image_loss import ImageLoss, check_images, read_shares, reduced
from noiseproof.losses.module import Options, RobustLoss, evaluates_its_term
from noiseproof.losses.per_class import CE

SMOOTH = 1e-5
"""nnU-Net's: an empty prediction of an empty mask costs nothing, and nothing is divided by zero."""


def soft_dice(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    smooth: float = SMOOTH,
    squared: bool = False,
    background: bool = False,
    pooled: bool = False,
    check_labels: bool | None = None,
) -> Tensor:
    """``1 − (2Σpq + s)/(Σp + Σq + s)``, mean over classes. See :class:`SoftDice`.

    Shapes: logits (N, K, d1, …); target indices (N, d1, …) or probabilities of the logits' shape.

    >>> import torch
    >>> soft_dice(torch.zeros(1, 2, 4, 4), torch.ones(1, 4, 4, dtype=torch.long))
    tensor(0.3333)
    """
    checks.reduction(reduction)
    shares = read_shares(logits, target, ignore_index, check_labels, background=background)
    p, q = shares.predicted, shares.given
    both = shares.over_pixels(p * q)
    sizes = shares.over_pixels((p.square() + q.square()) if squared else p + q)
    if pooled:
        both, sizes = both.sum(0, keepdim=True), sizes.sum(0, keepdim=True)
    by_class = 1 - (2 * both + smooth) / (sizes + smooth)
    weights = _class_weights(logits, weight, by_class, background)
    per_image = (by_class * weights).sum(1) / weights.sum()
    # A pooled batch has one value, which counts for each of its images.
    return reduced(per_image.expand(len(logits)) if pooled else per_image, reduction)


def _class_weights(logits: Tensor, weight: Tensor | None, by_class: Tensor, background: bool) -> Tensor:
    if weight is None:
        return torch.ones_like(by_class[0])
    classes = max(2, logits.shape[1])
    if not weight.is_floating_point():
        raise TypeError(f"weight: expected a floating-point tensor, got {weight.dtype}")
    if tuple(weight.shape) != (classes,):
        raise ValueError(f"weight: expected one weight a class, ({classes},), got {tuple(weight.shape)}")
    return weight.to(by_class.dtype)[0 if background else 1 :]


class SoftDice(ImageLoss):
    """Soft Dice: ``1 − (2Σpq + s)/(Σp + Σq + s)`` over an image's pixels, mean over all classes but the background.

    Shapes: logits (N, K, d1, …), or (N, 1, d1, …) for a sigmoid; target indices (N, d1, …) or probabilities of the
    logits' shape. ``reduction`` is over images. Ignored pixels count in no sum.
    Range: [0, 1). Not symmetric.

    Args:
        smooth: s, over 0.
        squared: V-Net's form, with ``Σp² + Σq²`` below.
        background: whether class 0 counts too.
        pooled: take the sums over the whole batch, as if it were one image.

    Milletari et al., V-Net: Fully Convolutional Neural Networks for Volumetric Medical Image Segmentation,
    3DV 2016.

    Example:
        >>> import torch
        >>> SoftDice()(torch.zeros(1, 2, 4, 4), torch.ones(1, 4, 4, dtype=torch.long))
        tensor(0.3333)
    """

    def __init__(
        self,
        smooth: float = SMOOTH,
        *,
        squared: bool = False,
        background: bool = False,
        pooled: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(**options)
        self.smooth = checks.above("smooth", smooth, 0)
        self.squared, self.background, self.pooled = squared, background, pooled

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of logits (N, K, d1, …) against indices or probabilities."""
        return soft_dice(
            logits,
            target,
            self.weight,
            self.ignore_index,
            self.reduction,
            smooth=self.smooth,
            squared=self.squared,
            background=self.background,
            pooled=self.pooled,
            check_labels=self.check_labels,
        )


def pixels_and_dice(
    pixels: Term,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    smooth: float = SMOOTH,
    pooled: bool = False,
    check_labels: bool | None = None,
) -> Tensor:
    """``α`` times the mean of a loss over an image's labelled pixels, plus ``β`` times its soft Dice."""
    checks.reduction(reduction)
    check_images(logits, target)
    each = evaluate(pixels, logits, target, weight, ignore_index, "none", check_labels).flatten(1)
    if target.is_floating_point():
        total = each.new_full((len(each),), each.shape[1])
    else:
        classes = target.long()  # in a narrow type ignore_index would wrap around to a class
        labelled = classes != ignore_index
        weights = labelled.to(each.dtype)
        if weight is not None:
            weights = weights * weight.to(each.dtype)[torch.where(labelled, classes, 0)]
        total = weights.flatten(1).sum(1)
    mean = each.sum(1) / torch.where(total > 0, total, 1.0)
    dice = soft_dice(
        logits,
        target,
        weight,
        ignore_index,
        "none",
        smooth=smooth,
        pooled=pooled,
        check_labels=False,  # looked at already
    )
    return reduced(alpha * mean + beta * dice, reduction)


def cross_entropy_dice(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    smooth: float = SMOOTH,
    pooled: bool = False,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·CE + β·Dice``. See :class:`CrossEntropyAndDice`.

    Shapes: logits (N, K, d1, …); target indices (N, d1, …) or probabilities of the logits' shape.

    >>> import torch
    >>> cross_entropy_dice(torch.zeros(1, 2, 4, 4), torch.ones(1, 4, 4, dtype=torch.long))
    tensor(1.0265)
    """
    return pixels_and_dice(
        Active(CE()),
        logits,
        target,
        weight,
        ignore_index,
        reduction,
        alpha=alpha,
        beta=beta,
        smooth=smooth,
        pooled=pooled,
        check_labels=check_labels,
    )


class PixelsAndDice(ImageLoss):
    """``α`` times any loss of pixels plus ``β`` times soft Dice, each image counting alike.

    Shapes: logits (N, K, d1, …); target indices (N, d1, …) or probabilities of the logits' shape.
    Range: [0, α·(the pixels' largest) + β).

    Args:
        pixels: a loss of labels, such as ``create("anl-ce")``; its formula is taken over, its options are not.
        alpha: weight of the pixels' loss.
        beta: weight of Dice.
        smooth: Dice's s, over 0.
        pooled: take Dice over the whole batch, as if it were one image.

    Example:
        >>> import torch
        >>> from noiseproof.losses import create
        >>> loss = PixelsAndDice(create("anl-ce"), beta=2.0)
        >>> loss(torch.zeros(1, 2, 4, 4), torch.ones(1, 4, 4, dtype=torch.long))
        tensor(5.6667)
    """

    def __init__(
        self,
        pixels: RobustLoss,
        alpha: float = 1.0,
        beta: float = 1.0,
        *,
        smooth: float = SMOOTH,
        pooled: bool = False,
        **options: Unpack[Options],
    ) -> None:
        if not isinstance(pixels, RobustLoss) or not evaluates_its_term(type(pixels)):
            raise TypeError(
                "pixels: expected a loss of labels (but not of clipped logits, and without a forward of its own), "
                f"got {type(pixels).__name__}"
            )
        super().__init__(pixels.term, **options)
        self.alpha = checks.non_negative("alpha", alpha)
        self.beta = checks.non_negative("beta", beta)
        self.smooth, self.pooled = checks.above("smooth", smooth, 0), pooled

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of logits (N, K, d1, …) against indices or probabilities."""
        return pixels_and_dice(
            self.term,
            logits,
            target,
            self.weight,
            self.ignore_index,
            self.reduction,
            alpha=self.alpha,
            beta=self.beta,
            smooth=self.smooth,
            pooled=self.pooled,
            check_labels=self.check_labels,
        )


class CrossEntropyAndDice(PixelsAndDice):
    """CE+Dice: ``α·CE + β·Dice``, what nnU-Net trains with.

    Shapes: logits (N, K, d1, …); target indices (N, d1, …) or probabilities of the logits' shape. ``reduction`` is
    over images.
    Range: [0, ∞). Not symmetric.

    Args:
        alpha: weight of cross-entropy.
        beta: weight of soft Dice.
        smooth: Dice's s, over 0.
        pooled: take Dice over the whole batch, as if it were one image.

    Isensee et al., nnU-Net: A Self-Configuring Method for Deep Learning-Based Biomedical Image Segmentation,
    Nature Methods 2021.

    Example:
        >>> import torch
        >>> CrossEntropyAndDice()(torch.zeros(1, 2, 4, 4), torch.ones(1, 4, 4, dtype=torch.long))
        tensor(1.0265)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        *,
        smooth: float = SMOOTH,
        pooled: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(RobustLoss(Active(CE())), alpha, beta, smooth=smooth, pooled=pooled, **options)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of logits (N, K, d1, …) against indices or probabilities."""
        return super().forward(logits, target)
