# SPDX-License-Identifier: Apache-2.0
"""Normalised cross-entropy plus an asymmetric loss: NCE+AGCE ("ALF" in the tables), NCE+AUL, NCE+AEL."""

from typing import Unpack

from torch import Tensor

from noiseproof.losses.calculus import Active, Normalized, active_passive
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import AEL, AGCE, AUL, CE


def nce_agce(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 4.0,
    a: float = 6.0,
    q: float = 1.5,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NCE + β·AGCE``. See :class:`NCEandAGCE`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> nce_agce(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(2.2879)
    """
    term = active_passive(Normalized(CE()), Active(AGCE(a, q)), alpha, beta)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NCEandAGCE(RobustLoss):
    """``α·NCE + β·AGCE``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, α + β·((a+1)^q − a^q)/q]. Not symmetric. This is "ALF" in the paper's tables.

    Args:
        alpha: weight of the active part; more of it fits faster.
        beta: weight of the passive part; more of it resists wrong labels.
        a: offset of AGCE, over 0.
        q: exponent of AGCE, over 0.

    Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021.

    Example:
        >>> import torch
        >>> NCEandAGCE()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(7.9707)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 4.0,
        a: float = 6.0,
        q: float = 1.5,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(active_passive(Normalized(CE()), Active(AGCE(a, q)), alpha, beta), **options)


def nce_aul(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 4.0,
    a: float = 6.3,
    q: float = 1.5,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NCE + β·AUL``. See :class:`NCEandAUL`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> nce_aul(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(2.0319)
    """
    term = active_passive(Normalized(CE()), Active(AUL(a, q)), alpha, beta)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NCEandAUL(RobustLoss):
    """``α·NCE + β·AUL``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, α + β·(a^q − (a−1)^q)/q]. Not symmetric.

    Args:
        alpha: weight of the active part; more of it fits faster.
        beta: weight of the passive part; more of it resists wrong labels.
        a: offset of AUL, over 1.
        q: exponent of AUL, over 0.

    Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021.

    Example:
        >>> import torch
        >>> NCEandAUL()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(7.3954)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 4.0,
        a: float = 6.3,
        q: float = 1.5,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(active_passive(Normalized(CE()), Active(AUL(a, q)), alpha, beta), **options)


def nce_ael(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 4.0,
    a: float = 5.0,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NCE + β·AEL``. See :class:`NCEandAEL`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> nce_ael(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(3.4682)
    """
    term = active_passive(Normalized(CE()), Active(AEL(a)), alpha, beta)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NCEandAEL(RobustLoss):
    """``α·NCE + β·AEL``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [β·exp(−1/a), α + β]. Not symmetric.

    Args:
        alpha: weight of the active part; more of it fits faster.
        beta: weight of the passive part; more of it resists wrong labels.
        a: temperature of AEL, over 0.

    Zhou et al., Asymmetric Loss Functions for Learning with Noisy Labels, ICML 2021.

    Example:
        >>> import torch
        >>> NCEandAEL()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(4.0549)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 4.0,
        a: float = 5.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(active_passive(Normalized(CE()), Active(AEL(a)), alpha, beta), **options)
