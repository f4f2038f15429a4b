# SPDX-License-Identifier: Apache-2.0
"""Negative losses (NLF) and normalised negative losses (NNLF), the passive half of ANL."""

from typing import Unpack

from torch import Tensor

from noiseproof.losses.calculus import Negative, NormalizedNegative
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import CE, FL, P_MIN


def negative_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    p_min: float = P_MIN,
    check_labels: bool | None = None,
) -> Tensor:
    """``Σ_{k≠y} (A + log p_k)``. See :class:`NegativeCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> negative_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(27.7571)
    """
    term = Negative(CE(), p_min)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NegativeCrossEntropy(RobustLoss):
    """NLF of cross-entropy: ``Σ_{k≠y} (A + log p_k)`` with ``A = −log p_min`` and log p no smaller than −A.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, (K−1)·A]. Not symmetric: the normalised version is.

    Args:
        p_min: smaller probabilities count as this one, and teach nothing.

    Ye et al., Active Negative Loss Functions for Learning with Noisy Labels, NeurIPS 2023.

    Example:
        >>> import torch
        >>> NegativeCrossEntropy()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(44.1954)
    """

    def __init__(
        self,
        *,
        p_min: float = P_MIN,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(Negative(CE(), p_min), **options)


def negative_focal(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    gamma: float = 0.5,
    detach_modulator: bool = True,
    p_min: float = P_MIN,
    check_labels: bool | None = None,
) -> Tensor:
    """``Σ_{k≠y} (A − FL(k))``. See :class:`NegativeFocal`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> negative_focal(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(28.0023)
    """
    term = Negative(FL(gamma, detach_modulator), p_min)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NegativeFocal(RobustLoss):
    """NLF of focal loss: ``Σ_{k≠y} (A − FL(k))`` with A the focal loss at p_min.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, (K−1)·A]. Not symmetric: the normalised version is.

    Args:
        gamma: focal parameter; 0 is the cross-entropy version.
        detach_modulator: keep ``(1 − p)^γ`` out of the gradient, as the published code does.
        p_min: smaller probabilities count as this one, and teach nothing.

    Ye et al., Active Negative Loss Functions for Learning with Noisy Labels, NeurIPS 2023.

    Example:
        >>> import torch
        >>> NegativeFocal()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(44.7526)
    """

    def __init__(
        self,
        gamma: float = 0.5,
        *,
        detach_modulator: bool = True,
        p_min: float = P_MIN,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(Negative(FL(gamma, detach_modulator), p_min), **options)


def normalized_negative_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    p_min: float = P_MIN,
    check_labels: bool | None = None,
) -> Tensor:
    """``1 − (A + log p_y) / Σ_k (A + log p_k)``. See :class:`NormalizedNegativeCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> normalized_negative_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.6361)
    """
    term = NormalizedNegative(CE(), p_min)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NormalizedNegativeCrossEntropy(RobustLoss):
    """NNCE: ``1 − (A + log p_y) / Σ_k (A + log p_k)`` with ``A = −log p_min``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, 1]. Symmetric: the sum over labels is K − 1.

    Args:
        p_min: smaller probabilities count as this one, and teach nothing.

    Unlike MAE it pulls harder on the samples and classes that are already well learned (the paper's theorems
    5 and 6), which early in training are the correctly labelled ones.

    Ye et al., Active Negative Loss Functions for Learning with Noisy Labels, NeurIPS 2023.

    Example:
        >>> import torch
        >>> NormalizedNegativeCrossEntropy()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(
        self,
        *,
        p_min: float = P_MIN,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(NormalizedNegative(CE(), p_min), **options)


def normalized_negative_focal(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    gamma: float = 0.5,
    detach_modulator: bool = True,
    p_min: float = P_MIN,
    check_labels: bool | None = None,
) -> Tensor:
    """``1 − (A − FL(y)) / Σ_k (A − FL(k))``. See :class:`NormalizedNegativeFocal`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> normalized_negative_focal(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.6363)
    """
    term = NormalizedNegative(FL(gamma, detach_modulator), p_min)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NormalizedNegativeFocal(RobustLoss):
    """NNFL: ``1 − (A − FL(y)) / Σ_k (A − FL(k))`` with A the focal loss at p_min.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, 1]. Symmetric: the sum over labels is K − 1.

    Args:
        gamma: focal parameter; 0 is the cross-entropy version.
        detach_modulator: keep ``(1 − p)^γ`` out of the gradient, as the published code does.
        p_min: smaller probabilities count as this one, and teach nothing.

    Ye et al., Active Negative Loss Functions for Learning with Noisy Labels, NeurIPS 2023.

    Example:
        >>> import torch
        >>> NormalizedNegativeFocal()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(
        self,
        gamma: float = 0.5,
        *,
        detach_modulator: bool = True,
        p_min: float = P_MIN,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(NormalizedNegative(FL(gamma, detach_modulator), p_min), **options)
