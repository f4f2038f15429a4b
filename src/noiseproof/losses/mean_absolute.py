# SPDX-License-Identifier: Apache-2.0
"""The mean absolute error and its multiples: MAE, RCE, NMAE, NRCE.

All four are ``c·(1 − p_y)`` with a constant c, which is why the passive half of APL is always MAE.
"""

from typing import Unpack

from torch import Tensor

from noiseproof.losses.calculus import Active, Normalized
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import LABEL_FLOOR, MAE, RCE


def mean_absolute_error(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    scale: float = 1.0,
    check_labels: bool | None = None,
) -> Tensor:
    """``scale·(1 − p_y)``. See :class:`MeanAbsoluteError`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> mean_absolute_error(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.2130)
    """
    return evaluate(Active(MAE(scale)), logits, target, weight, ignore_index, reduction, check_labels)


class MeanAbsoluteError(RobustLoss):
    """MAE: ``scale·(1 − p_y)``, robust but slow, because it treats every sample alike.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, scale]. Symmetric: the sum over labels is scale·(K − 1).

    Args:
        scale: 1 as in the published code; 2 makes it ``Σ_k |p_k − q_k|`` of the paper's derivation.

    Ghosh, Kumar and Sastry, Robust Loss Functions under Label Noise for Deep Neural Networks, AAAI 2017.

    Example:
        >>> import torch
        >>> MeanAbsoluteError()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(self, scale: float = 1.0, **options: Unpack[Options]) -> None:
        super().__init__(Active(MAE(scale)), **options)


def reverse_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    label_floor: float = LABEL_FLOOR,
    check_labels: bool | None = None,
) -> Tensor:
    """``−Σ_k p_k log q_k`` with ``q ≥ label_floor``. See :class:`ReverseCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> reverse_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(1.9619)
    """
    return evaluate(Active(RCE(label_floor)), logits, target, weight, ignore_index, reduction, check_labels)


class ReverseCrossEntropy(RobustLoss):
    """RCE: ``−Σ_k p_k log q_k`` with the label's zeros raised to a floor, so ``−log(floor)·(1 − p_y)``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it (the
    expected loss, as everywhere here, not the logarithm of the soft label).
    Range: [0, −log floor], [0, 9.2103] by default. Symmetric: the sum over labels is −log(floor)·(K − 1).

    Args:
        label_floor: what stands for the zeros of the label. Papers also state it as log 0 = −4, which is
            ``label_floor=math.exp(-4)``.

    Wang et al., Symmetric Cross Entropy for Robust Learning with Noisy Labels, ICCV 2019.

    Example:
        >>> import torch
        >>> ReverseCrossEntropy()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(6.9078)
    """

    def __init__(self, *, label_floor: float = LABEL_FLOOR, **options: Unpack[Options]) -> None:
        super().__init__(Active(RCE(label_floor)), **options)


def normalized_mean_absolute_error(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    check_labels: bool | None = None,
) -> Tensor:
    """``(1 − p_y) / (K − 1)``. See :class:`NormalizedMeanAbsoluteError`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> normalized_mean_absolute_error(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.1065)
    """
    return evaluate(Normalized(MAE()), logits, target, weight, ignore_index, reduction, check_labels)


class NormalizedMeanAbsoluteError(RobustLoss):
    """NMAE: ``MAE(y) / Σ_k MAE(k) = (1 − p_y) / (K − 1)``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, 1/(K − 1)]. Symmetric: the sum over labels is 1.

    Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020.

    Example:
        >>> import torch
        >>> NormalizedMeanAbsoluteError()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.2500)
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__(Normalized(MAE()), **options)


def normalized_reverse_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    label_floor: float = LABEL_FLOOR,
    check_labels: bool | None = None,
) -> Tensor:
    """``RCE(y) / Σ_k RCE(k)``. See :class:`NormalizedReverseCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> normalized_reverse_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.1065)
    """
    term = Normalized(RCE(label_floor))
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NormalizedReverseCrossEntropy(RobustLoss):
    """NRCE: ``RCE(y) / Σ_k RCE(k) = (1 − p_y) / (K − 1)``, the same as NMAE whatever the floor.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, 1/(K − 1)]. Symmetric: the sum over labels is 1.

    Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020.

    Example:
        >>> import torch
        >>> NormalizedReverseCrossEntropy()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.2500)
    """

    def __init__(self, *, label_floor: float = LABEL_FLOOR, **options: Unpack[Options]) -> None:
        super().__init__(Normalized(RCE(label_floor)), **options)
