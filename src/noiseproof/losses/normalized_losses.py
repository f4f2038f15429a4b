# SPDX-License-Identifier: Apache-2.0
"""Normalised losses: NCE and NFL, the active half of APL and ANL."""

from typing import Unpack

from torch import Tensor

from noiseproof.losses.calculus import Normalized
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import CE, FL


def normalized_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    check_labels: bool | None = None,
) -> Tensor:
    """``log p_y / Σ_k log p_k``. See :class:`NormalizedCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> normalized_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.0508)
    """
    term = Normalized(CE())
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NormalizedCrossEntropy(RobustLoss):
    """NCE: ``log p_y / Σ_k log p_k``, robust, but alone it underfits.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, 1]. Symmetric: the sum over labels is 1.

    Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020.

    Example:
        >>> import torch
        >>> NormalizedCrossEntropy()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.2500)
    """

    def __init__(
        self,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(Normalized(CE()), **options)


def normalized_focal(
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
    """``FL(y) / Σ_k FL(k)``. See :class:`NormalizedFocal`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> normalized_focal(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.0254)
    """
    term = Normalized(FL(gamma, detach_modulator))
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NormalizedFocal(RobustLoss):
    """NFL: ``FL(y) / Σ_k FL(k)``, robust, but alone it underfits.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, 1]. Symmetric: the sum over labels is 1.

    Args:
        gamma: focal parameter; 0 is the cross-entropy version.
        detach_modulator: keep ``(1 − p)^γ`` out of the gradient, as the published code does.

    Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020.

    Example:
        >>> import torch
        >>> NormalizedFocal()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.2500)
    """

    def __init__(
        self,
        gamma: float = 0.5,
        *,
        detach_modulator: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(Normalized(FL(gamma, detach_modulator)), **options)
