# SPDX-License-Identifier: Apache-2.0
"""LogitClip: logits scaled down to a bounded norm before the loss sees them."""

from typing import Unpack

import torch
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.calculus import Active
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.module import Options, RobustLoss
from noiseproof.losses.per_class import CE


def clip_logits(logits: Tensor, bound: float, *, published: bool = False) -> Tensor:
    """Scale each sample's logits so that their Euclidean norm over the classes is at most ``bound``.

    A class that is ruled out, with a logit of −∞, has no part in the norm and stays ruled out.

    Args:
        logits: (N, K), (N, K, d1, …) or (K,).
        bound: δ, over 0.
        published: what public code does instead: wherever the norm exceeds ``1/bound``, rescale it to
            ``bound``, up or down. The constants of the recipes are of a code that does so. The authors' own code
            follows the same rule, but is told 1/δ: there, 1.5 stands for ``bound=1/1.5``.

    Example:
        >>> import torch
        >>> clip_logits(torch.tensor([[3.0, 4.0]]), bound=1.0)
        tensor([[0.6000, 0.8000]])
    """
    checks.above("bound", bound, 0)
    if not isinstance(logits, Tensor) or not logits.is_floating_point() or logits.ndim == 0:
        return logits  # the loss that comes next says what is wrong with these
    if logits.element_size() < 4:
        logits = logits.float()
    ruled_out = logits.isneginf()
    finite = logits.masked_fill(ruled_out, 0.0)
    norm: Tensor = torch.linalg.vector_norm(finite, dim=min(1, logits.ndim - 1), keepdim=True)
    if published:
        threshold = 1 / bound
        scale = torch.where(norm > threshold, bound / norm.clamp(min=threshold), 1.0)
    else:
        scale = bound / norm.clamp(min=bound)
    return (finite * scale).masked_fill(ruled_out, -torch.inf)


def logit_clipped_cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    bound: float = 1.0,
    published: bool = False,
    check_labels: bool | None = None,
) -> Tensor:
    """``CE`` of ``z·min(1, bound/‖z‖)``. See :class:`LogitClippedCrossEntropy`.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.

    >>> import torch
    >>> logit_clipped_cross_entropy(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
    tensor(0.5514)
    """
    clipped = clip_logits(logits, bound, published=published)
    return evaluate(Active(CE()), clipped, target, weight, ignore_index, reduction, check_labels)


class LogitClippedCrossEntropy(RobustLoss):
    """LogitClip-CE: cross-entropy of ``z·min(1, bound/‖z‖)``, which bounds cross-entropy from both sides.

    Shapes: logits (N, K), (N, K, d1, …) or (K,); target indices without K, or probabilities with it.
    Range: [0, log K + 2·bound], with max(bound, 1/bound) for bound if ``published``. Not symmetric. Unlike all
    other losses here it is not invariant when a constant is added to the logits.

    Args:
        bound: δ, the largest norm; with ``published`` the norm that is scaled to.
        published: rescale as public code does, see :func:`clip_logits`. The recipes say so: whoever changes their
            bound changes that of this rule.

    Wei et al., Mitigating Memorization of Noisy Labels by Clipping the Model Prediction, ICML 2023.

    Example:
        >>> import torch
        >>> LogitClippedCrossEntropy(bound=1.0)(torch.tensor([[30.0, 40.0]]), torch.tensor([0]))
        tensor(0.7981)
    """

    def __init__(self, bound: float = 1.0, *, published: bool = False, **options: Unpack[Options]) -> None:
        super().__init__(Active(CE()), **options)
        self.bound = checks.above("bound", bound, 0)
        self.published = published

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of the clipped logits."""
        return super().forward(clip_logits(logits, self.bound, published=self.published), target)

    def extra_repr(self) -> str:
        """Show the bound before what every loss shows."""
        return f"bound={self.bound:g}, published={self.published}, {super().extra_repr()}"
