# SPDX-License-Identifier: Apache-2.0
"""Several yes-or-no labels a sample: any loss, through a two-class view of each logit."""

import torch
from torch import Tensor, nn

from noiseproof.losses.module import RobustLoss


class Binary(nn.Module):
    """Use a loss where each label has one logit, as :class:`torch.nn.BCEWithLogitsLoss` does.

    A logit z is seen as the two-class logits ``(−z/2, z/2)``, whose softmax is ``(1 − σ(z), σ(z))``. Value
    and gradient are those of the loss on two classes; for cross-entropy, those of binary cross-entropy.

    Shapes: logits of any shape, one a label, e.g. (N, L); target of the same shape, either integers 0 and 1
    (or the loss's ``ignore_index`` where a label is missing), or floating-point probabilities of "yes".

    Args:
        loss: a loss of this package. Its class weights, if any, are those of "no" and "yes".

    Example:
        >>> import torch
        >>> from noiseproof.losses import ANLCrossEntropy
        >>> loss = Binary(ANLCrossEntropy(alpha=1.0, beta=1.0))
        >>> loss(torch.tensor([[4.0, -4.0, 0.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.6224)
    """

    def __init__(self, loss: RobustLoss) -> None:
        super().__init__()
        if not isinstance(loss, RobustLoss):
            raise TypeError(f"loss: expected a loss of noiseproof.losses, got {type(loss).__name__}")
        self.loss = loss

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss over all labels of all samples, each label counting as one sample."""
        if target.shape != logits.shape:
            raise ValueError(
                f"target: expected one entry a logit, shape {tuple(logits.shape)}, got {tuple(target.shape)}"
            )
        half = logits.flatten() / 2
        if target.is_floating_point():
            yes = target.flatten()
            loss: Tensor = self.loss(torch.stack([-half, half], 1), torch.stack([1 - yes, yes], 1))
        else:
            loss = self.loss(torch.stack([-half, half], 1), target.flatten())
        return loss.view(logits.shape) if self.loss.reduction == "none" else loss
