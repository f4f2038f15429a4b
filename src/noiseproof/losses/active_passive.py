# SPDX-License-Identifier: Apache-2.0
"""Active Passive Loss: a normalised active loss plus MAE or RCE."""

from typing import Unpack

from torch import Tensor

from noiseproof.losses.calculus import Active, Normalized, active_passive
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import CE, FL, LABEL_FLOOR, MAE, RCE


def nce_mae(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NCE + β·MAE``. See :class:`NCEandMAE`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> nce_mae(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.2638)
    """
    term = active_passive(Normalized(CE()), Active(MAE()), alpha, beta)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NCEandMAE(RobustLoss):
    """``α·NCE + β·MAE``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, α + β]. Symmetric.

    Args:
        alpha: weight of the active part; more of it fits faster.
        beta: weight of the passive part; more of it resists wrong labels.

    Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020.

    Example:
        >>> import torch
        >>> NCEandMAE()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(active_passive(Normalized(CE()), Active(MAE()), alpha, beta), **options)


def nce_rce(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    label_floor: float = LABEL_FLOOR,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NCE + β·RCE``. See :class:`NCEandRCE`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> nce_rce(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(2.0127)
    """
    term = active_passive(Normalized(CE()), Active(RCE(label_floor)), alpha, beta)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NCEandRCE(RobustLoss):
    """``α·NCE + β·RCE``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, α + 9.2103·β]. Symmetric. This is "APL" in the paper's tables.

    Args:
        alpha: weight of the active part; more of it fits faster.
        beta: weight of the passive part; more of it resists wrong labels.
        label_floor: what stands for the zeros of the label inside RCE's logarithm.

    Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020.

    Example:
        >>> import torch
        >>> NCEandRCE()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(7.1578)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        *,
        label_floor: float = LABEL_FLOOR,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(active_passive(Normalized(CE()), Active(RCE(label_floor)), alpha, beta), **options)


def nfl_mae(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    gamma: float = 0.5,
    detach_modulator: bool = True,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NFL + β·MAE``. See :class:`NFLandMAE`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> nfl_mae(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.2385)
    """
    term = active_passive(Normalized(FL(gamma, detach_modulator)), Active(MAE()), alpha, beta)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NFLandMAE(RobustLoss):
    """``α·NFL + β·MAE``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, α + β]. Symmetric.

    Args:
        alpha: weight of the active part; more of it fits faster.
        beta: weight of the passive part; more of it resists wrong labels.
        gamma: focal parameter; 0 is the cross-entropy version.
        detach_modulator: keep ``(1 − p)^γ`` out of the gradient, as the published code does.

    Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020.

    Example:
        >>> import torch
        >>> NFLandMAE()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(1.)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        *,
        gamma: float = 0.5,
        detach_modulator: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(
            active_passive(Normalized(FL(gamma, detach_modulator)), Active(MAE()), alpha, beta), **options
        )


def nfl_rce(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    gamma: float = 0.5,
    detach_modulator: bool = True,
    label_floor: float = LABEL_FLOOR,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NFL + β·RCE``. See :class:`NFLandRCE`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> nfl_rce(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(1.9874)
    """
    term = active_passive(Normalized(FL(gamma, detach_modulator)), Active(RCE(label_floor)), alpha, beta)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class NFLandRCE(RobustLoss):
    """``α·NFL + β·RCE``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, α + 9.2103·β]. Symmetric.

    Args:
        alpha: weight of the active part; more of it fits faster.
        beta: weight of the passive part; more of it resists wrong labels.
        gamma: focal parameter; 0 is the cross-entropy version.
        detach_modulator: keep ``(1 − p)^γ`` out of the gradient, as the published code does.
        label_floor: what stands for the zeros of the label inside RCE's logarithm.

    Ma et al., Normalized Loss Functions for Deep Learning with Noisy Labels, ICML 2020.

    Example:
        >>> import torch
        >>> NFLandRCE()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(7.1578)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        *,
        gamma: float = 0.5,
        detach_modulator: bool = True,
        label_floor: float = LABEL_FLOOR,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(
            active_passive(Normalized(FL(gamma, detach_modulator)), Active(RCE(label_floor)), alpha, beta),
            **options,
        )
