# SPDX-License-Identifier: Apache-2.0
"""Focal loss."""

from typing import Unpack

from torch import Tensor

from noiseproof.losses.calculus import Active
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import FL


def focal(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    gamma: float = 0.5,
    detach_modulator: bool = True,
    check_labels: bool | None = None,
) -> Tensor:
    """``−(1 − p_y)^γ log p_y``. See :class:`Focal`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> focal(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.1106)
    """
    term = Active(FL(gamma, detach_modulator))
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class Focal(RobustLoss):
    """FL: ``−(1 − p_y)^γ log p_y``, cross-entropy turned down where a sample is already learned.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, ∞). Not symmetric.

    Args:
        gamma: how strongly learned samples are turned down; 0 is cross-entropy.
        detach_modulator: keep ``(1 − p)^γ`` out of the gradient. The code behind the published tables does so
            and it is the default here; ``False`` gives the true gradient of the formula.

    Lin et al., Focal Loss for Dense Object Detection, ICCV 2017.

    Example:
        >>> import torch
        >>> Focal(gamma=0.5)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.2006)
    """

    def __init__(
        self, gamma: float = 0.5, *, detach_modulator: bool = True, **options: Unpack[Options]
    ) -> None:
        super().__init__(Active(FL(gamma, detach_modulator)), **options)
