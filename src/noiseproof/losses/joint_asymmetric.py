# SPDX-License-Identifier: Apache-2.0
"""Joint asymmetric loss (JAL): a normalised active loss plus the asymmetric mean square error (AMSE)."""

from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.calculus import Normalized, Term, active_passive
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.labels import Labels
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import CE, FL


@dataclass(frozen=True)
class AMSE(Term):
    """Asymmetric mean square error: ``mean_k (p_k − a·q_k)² = (Σ_k p_k² − 2a·p_y + a²) / K``."""

    a: float = 30.0

    def __post_init__(self) -> None:
        checks.above("a", self.a, 0)

    def per_sample(self, log_p: Tensor, labels: Labels) -> Tensor:
        """``mean_k (p_k − a·q_k)²``."""
        p_of_label = labels.expected(torch.exp, log_p)
        sum_of_squares = (2 * log_p).exp().sum(1)
        return (labels.mass * (sum_of_squares + self.a**2) - 2 * self.a * p_of_label) / log_p.shape[1]


def jal_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    a: float = 30.0,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NCE + β·AMSE``. See :class:`JALCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> jal_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(284.5250)
    """
    term = active_passive(Normalized(CE()), AMSE(a), alpha, beta)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class JALCrossEntropy(RobustLoss):
    """JAL-CE: ``α·NCE + β·AMSE`` with ``AMSE = mean_k (p_k − a·q_k)²``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: for a ≥ 1, [β·(a − 1)²/K, α + β·(a² + 1)/K]. Not symmetric.

    Args:
        alpha: weight of NCE, the active part.
        beta: weight of AMSE, the passive part.
        a: how far beyond 1 the labelled class is pulled; the larger, the nearer to a multiple of MAE.

    Wang et al., Joint Asymmetric Loss for Learning with Noisy Labels, ICCV 2025.

    Example:
        >>> import torch
        >>> JALCrossEntropy(a=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.4375)
    """

    def __init__(
        self, alpha: float = 1.0, beta: float = 1.0, a: float = 30.0, **options: Unpack[Options]
    ) -> None:
        super().__init__(active_passive(Normalized(CE()), AMSE(a), alpha, beta), **options)


def jal_focal(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    a: float = 30.0,
    gamma: float = 0.5,
    detach_modulator: bool = True,
    check_labels: bool | None = None,
) -> Tensor:
    """``α·NFL + β·AMSE``. See :class:`JALFocal`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> jal_focal(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(284.4997)
    """
    term = active_passive(Normalized(FL(gamma, detach_modulator)), AMSE(a), alpha, beta)
    return evaluate(term, logits, target, weight, ignore_index, reduction, check_labels)


class JALFocal(RobustLoss):
    """JAL-FL: ``α·NFL + β·AMSE``.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: for a ≥ 1, [β·(a − 1)²/K, α + β·(a² + 1)/K]. Not symmetric.

    Args:
        alpha: weight of NFL, the active part.
        beta: weight of AMSE, the passive part.
        a: how far beyond 1 the labelled class is pulled.
        gamma: focal parameter; 0 is JAL-CE.
        detach_modulator: keep ``(1 − p)^γ`` out of the gradient, as the published code does.

    Wang et al., Joint Asymmetric Loss for Learning with Noisy Labels, ICCV 2025.

    Example:
        >>> import torch
        >>> JALFocal(a=1.0)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.4375)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        a: float = 30.0,
        gamma: float = 0.5,
        *,
        detach_modulator: bool = True,
        **options: Unpack[Options],
    ) -> None:
        term = active_passive(Normalized(FL(gamma, detach_modulator)), AMSE(a), alpha, beta)
        super().__init__(term, **options)
