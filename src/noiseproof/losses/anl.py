# SPDX-License-Identifier: Apache-2.0
"""Active Negative Loss: a normalised loss plus the normalised negative of the same loss."""

from typing import Unpack

from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.calculus import WeightedSum, anl
from noiseproof.losses.entropy import MarginalEntropy
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import CE, FL, P_MIN


def anl_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 5.0,
    beta: float = 5.0,
    p_min: float = P_MIN,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NCE + β·NNCE``. See :class:`ANLCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> anl_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(3.4344)
    """
    term = anl(CE(), alpha, beta, p_min)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class ANLCrossEntropy(RobustLoss):
    """ANL-CE: ``α·NCE + β·NNCE``, the loss to start with when labels are wrong.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, α + β]. Symmetric: the sum over labels is α + β·(K − 1).

    Args:
        alpha: weight of NCE, the active part; more of it fits faster.
        beta: weight of NNCE, the passive part; more of it resists wrong labels.
        p_min: smaller probabilities count as this one in NNCE, and teach nothing there.

    The defaults are the paper's for ten classes; for a hundred it uses α = 10, β = 1. The paper trains it
    with an L1 penalty in place of weight decay (:class:`~noiseproof.losses.L1`): see the recipes in
    ``record("anl-ce")``. The loss itself never contains that penalty.

    Ye et al., Active Negative Loss Functions for Learning with Noisy Labels, NeurIPS 2023.

    Example:
        >>> import torch
        >>> loss = ANLCrossEntropy(alpha=5.0, beta=5.0)
        >>> loss(torch.zeros(1, 4), torch.tensor([2]))
        tensor(5.)
        >>> loss(torch.zeros(2, 4, 8, 8), torch.zeros(2, 8, 8, dtype=torch.long))
        tensor(5.)
    """

    def __init__(
        self, alpha: float = 5.0, beta: float = 5.0, *, p_min: float = P_MIN, **options: Unpack[Options]
    ) -> None:
        super().__init__(anl(CE(), alpha, beta, p_min), **options)


def anl_focal(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 5.0,
    beta: float = 5.0,
    gamma: float = 0.5,
    detach_modulator: bool = True,
    p_min: float = P_MIN,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NFL + β·NNFL``. See :class:`ANLFocal`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> anl_focal(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(3.3086)
    """
    term = anl(FL(gamma, detach_modulator), alpha, beta, p_min)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class ANLFocal(RobustLoss):
    """ANL-FL: ``α·NFL + β·NNFL``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, α + β]. Symmetric: the sum over labels is α + β·(K − 1).

    Args:
        alpha: weight of NFL, the active part; more of it fits faster.
        beta: weight of NNFL, the passive part; more of it resists wrong labels.
        gamma: focal parameter; 0 is ANL-CE.
        detach_modulator: keep ``(1 − p)^γ`` out of the gradient, as the published code does.
        p_min: smaller probabilities count as this one in NNFL, and teach nothing there.

    Ye et al., Active Negative Loss Functions for Learning with Noisy Labels, NeurIPS 2023.

    Example:
        >>> import torch
        >>> ANLFocal()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(5.)
    """

    def __init__(
        self,
        alpha: float = 5.0,
        beta: float = 5.0,
        gamma: float = 0.5,
        *,
        detach_modulator: bool = True,
        p_min: float = P_MIN,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(anl(FL(gamma, detach_modulator), alpha, beta, p_min), **options)


def _anl_with_entropy(
    alpha: float, beta: float, entropy_weight: float, p_min: float, across_ranks: bool
) -> WeightedSum:
    entropy = (checks.non_negative("entropy_weight", entropy_weight), MarginalEntropy(p_min, across_ranks))
    return WeightedSum((*anl(CE(), alpha, beta, p_min).parts, entropy))


def anl_cross_entropy_with_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 5.0,
    beta: float = 5.0,
    entropy_weight: float = 2.0,
    p_min: float = P_MIN,
    across_ranks: bool = True,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NCE + β·NNCE + λ·(log K + Σ_k π_k log π_k)``. See :class:`ANLCrossEntropyWithEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> anl_cross_entropy_with_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(4.3005)
    """
    term = _anl_with_entropy(alpha, beta, entropy_weight, p_min, across_ranks)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class ANLCrossEntropyWithEntropy(RobustLoss):
    """ANL-CE*: ``α·NCE + β·NNCE + λ·(log K + Σ_k π_k log π_k)``, π the mean prediction of the batch.

    For noise that empties some classes into others (asymmetric, instance-dependent, human): the last part
    keeps the model from following the imbalance. Use it where the true classes are about equally frequent.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, α + β + λ·log K]. Not symmetric: the regulariser depends on the batch.

    Args:
        alpha: weight of NCE, the active part.
        beta: weight of NNCE, the passive part.
        entropy_weight: λ; the paper uses 2 for ten classes and 0.01 for a hundred.
        p_min: smallest probability in NNCE and in the regulariser.
        across_ranks: take π over the batches of all ranks when :mod:`torch.distributed` is initialised. Every
            rank must then evaluate the loss equally often; say ``False`` to evaluate on one rank alone.

    Ye et al., Active Negative Loss: A Robust Framework for Learning with Noisy Labels.

    Example:
        >>> import torch
        >>> ANLCrossEntropyWithEntropy()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(5.)
    """

    def __init__(
        self,
        alpha: float = 5.0,
        beta: float = 5.0,
        entropy_weight: float = 2.0,
        *,
        p_min: float = P_MIN,
        across_ranks: bool = True,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(_anl_with_entropy(alpha, beta, entropy_weight, p_min, across_ranks), **options)
