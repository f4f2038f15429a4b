# SPDX-License-Identifier: Apache-2.0
"""Asymmetric losses: AGCE, AUL, AEL. They forgive the smaller share of the labels a sample could have."""

from typing import Unpack

from torch import Tensor

from noiseproof.losses.calculus import Active
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import AEL, AGCE, AUL


def asymmetric_generalized_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    a: float = 6.0,
    q: float = 1.5,
    check_labels: bool | None = None,
) -> Tensor:
    """``((a+1)^q − (a+p_y)^q) / q``. See :class:`AsymmetricGeneralizedCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> asymmetric_generalized_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.5593)
    """
    term = Active(AGCE(a, q))
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class AsymmetricGeneralizedCrossEntropy(RobustLoss):
    """AGCE: ``((a+1)^q − (a+p_y)^q) / q``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, ((a+1)^q − a^q)/q]. Not symmetric, unless q = 1.

    Args:
        a: offset, over 0; the larger, the nearer to a multiple of MAE.
        q: exponent, over 0.

    Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021.

    Example:
        >>> import torch
        >>> AsymmetricGeneralizedCrossEntropy(a=1.0, q=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    def __init__(
        self,
        a: float = 6.0,
        q: float = 1.5,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(Active(AGCE(a, q)), **options)


def asymmetric_unhinged(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    a: float = 6.3,
    q: float = 1.5,
    check_labels: bool | None = None,
) -> Tensor:
    """``((a−p_y)^q − (a−1)^q) / q``. See :class:`AsymmetricUnhinged`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> asymmetric_unhinged(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.4953)
    """
    term = Active(AUL(a, q))
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class AsymmetricUnhinged(RobustLoss):
    """AUL: ``((a−p_y)^q − (a−1)^q) / q``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, (a^q − (a−1)^q)/q]. Not symmetric, unless q = 1.

    Args:
        a: offset, over 1; the larger, the nearer to a multiple of MAE.
        q: exponent, over 0.

    Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021.

    Example:
        >>> import torch
        >>> AsymmetricUnhinged(a=2.0, q=2.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.0312)
    """

    def __init__(
        self,
        a: float = 6.3,
        q: float = 1.5,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(Active(AUL(a, q)), **options)


def asymmetric_exponential(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    a: float = 5.0,
    check_labels: bool | None = None,
) -> Tensor:
    """``exp(−p_y/a)``. See :class:`AsymmetricExponential`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> asymmetric_exponential(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.8544)
    """
    term = Active(AEL(a))
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class AsymmetricExponential(RobustLoss):
    """AEL: ``exp(−p_y/a)``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [exp(−1/a), 1]. Not symmetric.

    Args:
        a: temperature, over 0.

    Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021.

    Example:
        >>> import torch
        >>> AsymmetricExponential(a=2.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.8825)
    """

    def __init__(
        self,
        a: float = 5.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(Active(AEL(a)), **options)
