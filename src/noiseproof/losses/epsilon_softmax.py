# SPDX-License-Identifier: Apache-2.0
"""ε-softmax: predictions pushed towards one-hot before the loss sees them, plus the mean absolute error."""

import math
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.calculus import Active, Term, WeightedSum, active_passive
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.labels import Labels, PerClass
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import CE, FL, MAE

P_FLOOR = 1e-8
"""Smallest probability after ε-softmax, in its authors' code."""


@dataclass(frozen=True)
class AfterEpsilonSoftmax(Term):
    """An active loss of ``p' = (p + m·onehot(argmax p)) / (m + 1)``, with p' no smaller than ``p_floor``."""

    loss: PerClass
    m: float
    p_floor: float = P_FLOOR

    def __post_init__(self) -> None:
        checks.non_negative("m", self.m)
        checks.probability_floor("p_floor", self.p_floor)

    def per_sample(self, log_p: Tensor, labels: Labels) -> Tensor:
        """``L(y)`` of p'."""
        return labels.expected(self.loss, self.transformed(log_p))

    def transformed(self, log_p: Tensor) -> Tensor:
        """``log p'``. The top class is ``1 − (1−p)/(m+1)``: m + p itself would lose p to rounding."""
        top = log_p.argmax(1, keepdim=True)
        # Of the top class alone: another's p may be 0, where for m = 0 this logarithm has no finite slope.
        log_top = torch.log1p(torch.expm1(log_p.gather(1, top)) / (self.m + 1))
        log_other = log_p - math.log1p(self.m)
        return log_other.scatter(1, top, log_top).clamp(min=math.log(self.p_floor))


def _with_mae(loss: PerClass, alpha: float, beta: float, m: float, p_floor: float) -> WeightedSum:
    # The authors' MAE is Σ_k |p_k − q_k|, and it looks at the plain softmax.
    return active_passive(AfterEpsilonSoftmax(loss, m, p_floor), Active(MAE(scale=2.0)), alpha, beta)


def epsilon_softmax_cross_entropy_mae(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 0.01,
    beta: float = 5.0,
    m: float = 1e5,
    p_floor: float = P_FLOOR,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·CE(p') + β·2(1 − p_y)``. See :class:`EpsilonSoftmaxCrossEntropyAndMAE`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> epsilon_softmax_cross_entropy_mae(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(2.1301)
    """
    term = _with_mae(CE(), alpha, beta, m, p_floor)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class EpsilonSoftmaxCrossEntropyAndMAE(RobustLoss):
    """``α·CE(p') + β·2(1 − p_y)`` with ``p' = (p + m·onehot(argmax p)) / (m + 1)``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, −α·log p_floor + 2β]. Not symmetric.

    Args:
        alpha: weight of the cross-entropy of p'.
        beta: weight of the mean absolute error, which looks at p.
        m: how far p' is pushed towards one-hot; 0 leaves p as it is.
        p_floor: smallest probability of p'.

    Wang et al., ε-Softmax: Approximating One-Hot Vectors for Mitigating Label Noise, NeurIPS 2024.

    Example:
        >>> import torch
        >>> EpsilonSoftmaxCrossEntropyAndMAE(alpha=0.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(7.5000)
    """

    def __init__(
        self,
        alpha: float = 0.01,
        beta: float = 5.0,
        m: float = 1e5,
        *,
        p_floor: float = P_FLOOR,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(_with_mae(CE(), alpha, beta, m, p_floor), **options)


def epsilon_softmax_focal_mae(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 0.01,
    beta: float = 5.0,
    m: float = 1e5,
    gamma: float = 0.1,
    detach_modulator: bool = True,
    p_floor: float = P_FLOOR,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·FL(p') + β·2(1 − p_y)``. See :class:`EpsilonSoftmaxFocalAndMAE`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> epsilon_softmax_focal_mae(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(2.1301)
    """
    term = _with_mae(FL(gamma, detach_modulator), alpha, beta, m, p_floor)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class EpsilonSoftmaxFocalAndMAE(RobustLoss):
    """``α·FL(p') + β·2(1 − p_y)`` with ``p' = (p + m·onehot(argmax p)) / (m + 1)``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, −α·log p_floor + 2β]. Not symmetric.

    Args:
        alpha: weight of the focal loss of p'.
        beta: weight of the mean absolute error, which looks at p.
        m: how far p' is pushed towards one-hot; 0 leaves p as it is.
        gamma: focal parameter.
        detach_modulator: keep ``(1 − p')^γ`` out of the gradient, as the published code does.
        p_floor: smallest probability of p'.

    Wang et al., ε-Softmax: Approximating One-Hot Vectors for Mitigating Label Noise, NeurIPS 2024.

    Example:
        >>> import torch
        >>> EpsilonSoftmaxFocalAndMAE(alpha=0.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(7.5000)
    """

    def __init__(
        self,
        alpha: float = 0.01,
        beta: float = 5.0,
        m: float = 1e5,
        gamma: float = 0.1,
        *,
        detach_modulator: bool = True,
        p_floor: float = P_FLOOR,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(_with_mae(FL(gamma, detach_modulator), alpha, beta, m, p_floor), **options)
