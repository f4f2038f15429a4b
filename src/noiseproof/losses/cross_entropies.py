# SPDX-License-Identifier: Apache-2.0
"""Cross-entropy and the losses between it and the mean absolute error: GCE, SCE, PHCE, TCE."""

from typing import Unpack

from torch import Tensor

from noiseproof.losses.calculus import Active, WeightedSum, active_passive
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import CE, GCE, LABEL_FLOOR, P_MIN, PHCE, RCE, TCE


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    check_labels: bool | None = None,
) -> Tensor:
    """``−log p_y``, torch's cross-entropy. See :class:`CrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.2395)
    """
    return evaluate(Active(CE()), logits, target, weight, ignore_index, reduction, check_labels)


class CrossEntropy(RobustLoss):
    """Cross-entropy, the baseline that learns wrong labels by heart: ``−log p_y``.

    Equal to :class:`torch.nn.CrossEntropyLoss`, except that a batch without any label costs 0, not NaN.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, ∞). Not symmetric.

    Example:
        >>> import torch
        >>> CrossEntropy()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.3863)
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__(Active(CE()), **options)


def generalized_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    q: float = 0.7,
    p_min: float = P_MIN,
    check_labels: bool | None = None,
) -> Tensor:
    """``(1 − p_y^q) / q``. See :class:`GeneralizedCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> generalized_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.2205)
    """
    return evaluate(Active(GCE(q, p_min)), logits, target, weight, ignore_index, reduction, check_labels)


class GeneralizedCrossEntropy(RobustLoss):
    """GCE: ``(1 − p_y^q) / q``, cross-entropy for q → 0 and the mean absolute error for q = 1.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, 1/q]. Not symmetric.

    Args:
        q: the larger, the more robust and the slower to fit.
        p_min: smaller probabilities count as this one, and teach nothing.

    Zhang and Sabuncu, Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels,
    NeurIPS 2018.

    Example:
        >>> import torch
        >>> GeneralizedCrossEntropy(q=0.5)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.)
    """

    def __init__(self, q: float = 0.7, *, p_min: float = P_MIN, **options: Unpack[Options]) -> None:
        super().__init__(Active(GCE(q, p_min)), **options)


def _sce(alpha: float, beta: float, label_floor: float) -> WeightedSum:
    return active_passive(Active(CE()), Active(RCE(label_floor)), alpha, beta)


def symmetric_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 0.1,
    beta: float = 1.0,
    label_floor: float = LABEL_FLOOR,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·CE + β·RCE``. See :class:`SymmetricCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> symmetric_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(1.9859)
    """
    term = _sce(alpha, beta, label_floor)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class SymmetricCrossEntropy(RobustLoss):
    """SCE: ``α·CE + β·RCE``, fitting from the first part and robustness from the second.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, ∞). Not symmetric, in spite of its name, unless α = 0.

    Args:
        alpha: weight of cross-entropy.
        beta: weight of reverse cross-entropy.
        label_floor: what stands for the zeros of the label inside the logarithm.

    Wang et al., Symmetric Cross Entropy for Robust Learning with Noisy Labels, ICCV 2019.

    Example:
        >>> import torch
        >>> SymmetricCrossEntropy(alpha=0.1, beta=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(7.0464)
    """

    def __init__(
        self,
        alpha: float = 0.1,
        beta: float = 1.0,
        *,
        label_floor: float = LABEL_FLOOR,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(_sce(alpha, beta, label_floor), **options)


def partially_huberised_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    tau: float = 2.0,
    check_labels: bool | None = None,
) -> Tensor:
    """``−log p_y`` above 1/τ, its tangent below. See :class:`PartiallyHuberisedCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> partially_huberised_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.2395)
    """
    return evaluate(Active(PHCE(tau)), logits, target, weight, ignore_index, reduction, check_labels)


class PartiallyHuberisedCrossEntropy(RobustLoss):
    """PHCE: ``−log p_y`` if ``p_y > 1/τ``, else ``−τ·p_y + log τ + 1``, so that no sample's pull exceeds τ.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, log τ + 1]. Not symmetric.

    Args:
        tau: the largest slope in p, over 1.

    Menon et al., Can Gradient Clipping Mitigate Label Noise?, ICLR 2020.

    Example:
        >>> import torch
        >>> PartiallyHuberisedCrossEntropy(tau=2.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.1931)
    """

    def __init__(self, tau: float = 2.0, **options: Unpack[Options]) -> None:
        super().__init__(Active(PHCE(tau)), **options)


def taylor_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    t: int = 2,
    check_labels: bool | None = None,
) -> Tensor:
    """``Σ_{i=1..t} (1 − p_y)^i / i``. See :class:`TaylorCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> taylor_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.2357)
    """
    return evaluate(Active(TCE(t)), logits, target, weight, ignore_index, reduction, check_labels)


class TaylorCrossEntropy(RobustLoss):
    """TCE: ``Σ_{i=1..t} (1 − p_y)^i / i``, the first t terms of cross-entropy's series around p = 1.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, 1 + 1/2 + … + 1/t]. Symmetric only for t = 1, where it is the mean absolute error.

    Args:
        t: number of terms; cross-entropy for t → ∞.

    Feng et al., Can Cross Entropy Loss Be Robust to Label Noise?, IJCAI 2020.

    Example:
        >>> import torch
        >>> TaylorCrossEntropy(t=2)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.0312)
    """

    def __init__(self, t: int = 2, **options: Unpack[Options]) -> None:
        super().__init__(Active(TCE(t)), **options)
