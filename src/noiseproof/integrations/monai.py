# SPDX-License-Identifier: Apache-2.0
"""MONAI: any loss of the catalogue with the signature of MONAI's losses."""

import torch
from torch import Tensor
from torch.nn.modules.loss import _Loss

from noiseproof.losses import Binary, ImageLoss, RobustLoss


class MonaiLoss(_Loss):
    """A loss called like ``monai.losses.DiceLoss``: input (B, N, H, W[, D]), target with a channel dimension.

    Args:
        loss: a loss of this package; its reduction, class weights and ``ignore_index`` hold.

    Shape:
        Input: logits (B, N, …). Target: class indices (B, 1, …), or one-hot or soft labels (B, N, …). With N = 1
        the logit is that of the foreground, and the target 0 or 1, or probabilities of the foreground. The result
        has the loss's reduction; with ``"none"`` it is (B, …), (B, 1, …) for N = 1, and (B,) for losses of whole
        images.

    Example:
        >>> import torch
        >>> from noiseproof.losses import create
        >>> loss = MonaiLoss(create("anl-ce"))
        >>> loss(torch.zeros(2, 4, 8, 8), torch.zeros(2, 1, 8, 8))
        tensor(5.)
    """

    def __init__(self, loss: RobustLoss) -> None:
        binary = Binary(loss)  # which checks that it is a loss of this package
        super().__init__(reduction=loss.reduction)
        self.loss, self.binary = loss, binary

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Loss of logits against indices, one-hot or soft labels."""
        if target.ndim != input.ndim or target.shape[1] not in (1, input.shape[1]):
            raise ValueError(
                f"target: expected shape {(len(input), 1, *input.shape[2:])} or {tuple(input.shape)} for input of "
                f"shape {tuple(input.shape)}, got {tuple(target.shape)}"
            )
        if input.shape[1] == 1:
            return self._single(input, _foreground(target, input))
        labels = target.squeeze(1).long() if target.shape[1] == 1 else target.to(input.dtype)
        several: Tensor = self.loss(input, labels)
        return several

    def _single(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Loss of one channel, which is that of two classes with logits ``(−z/2, z/2)``."""
        if not isinstance(self.loss, ImageLoss):
            pixels: Tensor = self.binary(logits, labels)
            return pixels
        soft = labels.is_floating_point()
        labels = torch.cat([1 - labels, labels], 1) if soft else labels.squeeze(1)
        images: Tensor = self.loss(torch.cat([-logits, logits], 1) / 2, labels)
        return images


def _foreground(target: Tensor, input: Tensor) -> Tensor:
    """Labels of one channel: indices, among which ``ignore_index`` is known, or probabilities where some are.

    MONAI's transforms keep masks as floating-point numbers, so the type does not tell.
    """
    indices = target.long()
    if target.is_floating_point() and not bool((indices == target).all()):
        return target.to(input.dtype)
    return indices
