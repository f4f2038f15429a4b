# SPDX-License-Identifier: Apache-2.0
"""MONAI: any loss of the catalogue with the signature of MONAI's losses."""

from torch import Tensor
from torch.nn.modules.loss import _Loss

from noiseproof.losses import Binary, RobustLoss


class MonaiLoss(_Loss):
    """A loss called like ``monai.losses.DiceLoss``: input (B, N, H, W[, D]), target with a channel dimension.

    Args:
        loss: a loss of this package; its reduction, class weights and ``ignore_index`` hold.

    Shape:
        Input: logits (B, N, …). Target: class indices (B, 1, …), or one-hot or soft labels (B, N, …). With N = 1
        the logit is that of the foreground, and the target 0 or 1. The result has the loss's reduction; with
        ``"none"`` it is (B, …), and (B, 1, …) for N = 1.

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
            single: Tensor = self.binary(input, target.to(input.dtype))
            return single
        labels = target.squeeze(1).long() if target.shape[1] == 1 else target.to(input.dtype)
        several: Tensor = self.loss(input, labels)
        return several
