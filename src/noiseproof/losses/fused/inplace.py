# SPDX-License-Identifier: Apache-2.0
"""A gradient that takes the place of the logits, for when memory is what runs out."""

from torch import Tensor, nn

from noiseproof.losses.fused.gate import fused_or_none
from noiseproof.losses.module import RobustLoss, evaluates_its_term


def with_inplace_gradient(loss: RobustLoss, logits: Tensor, target: Tensor) -> Tensor:
    """Evaluate ``loss``, and let its gradient overwrite ``logits``. See :class:`InplaceGradient`."""
    if logits.is_leaf and logits.requires_grad:
        raise ValueError(
            "logits: expected the output of a model, got a leaf tensor that requires gradients; its values would "
            "be lost to their own gradient"
        )
    if logits.ndim > 1 and evaluates_its_term(type(loss)):
        fused = fused_or_none(
            loss.term,
            logits,
            target,
            loss.weight,
            loss.ignore_index,
            loss.reduction,
            loss.check_labels,
            inplace_gradient=True,
        )
        if fused is not None:
            return fused
    result: Tensor = loss(logits, target)
    return result


class InplaceGradient(nn.Module):
    """A loss whose gradient is written over the logits: no second tensor of their size is ever made.

    From the call on the logits are gone, so predictions must be taken from them before. An operation before the
    loss that needs its output in the backward pass (:func:`torch.relu`, say) makes torch raise an error; a linear
    layer or a convolution does not. Where the fused kernels cannot be used, the loss is evaluated as ever and the
    logits stay what they are.

    Args:
        loss: any loss Module of this package.

    Example:
        >>> import torch
        >>> from noiseproof.losses import ANLCrossEntropy
        >>> from noiseproof.losses.fused import InplaceGradient
        >>> model, loss = torch.nn.Linear(8, 4), InplaceGradient(ANLCrossEntropy())
        >>> loss(model(torch.ones(2, 8)), torch.tensor([0, 3])).backward()
        >>> model.weight.grad.shape
        torch.Size([4, 8])
    """

    def __init__(self, loss: RobustLoss) -> None:
        super().__init__()
        if not isinstance(loss, RobustLoss):
            raise TypeError(f"loss: expected a loss Module of noiseproof.losses, got {type(loss).__name__}")
        self.loss = loss

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of logits (N, K) or (N, K, d1, …) against indices."""
        return with_inplace_gradient(self.loss, logits, target)
