# SPDX-License-Identifier: Apache-2.0
"""The entropy regulariser of ANL-CE*: predictions that, on average, use all classes alike."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.calculus import Term
from noiseproof.losses.labels import Labels
from noiseproof.losses.per_class import P_MIN


@dataclass(frozen=True)
class MarginalEntropy(Term):
    """``log K + Σ_k π_k log π_k``, where π is the mean prediction of the batch; 0 when π is uniform.

    It counts as a part of every sample's loss, so that all reductions agree: a mean contains it once.

    Args:
        p_min: p and π are kept within [p_min, 1 − p_min], as in the published code.
        across_ranks: when :mod:`torch.distributed` is initialised, take the mean over the batches of all
            ranks. Every rank must then evaluate the loss equally often.
    """

    p_min: float = P_MIN
    across_ranks: bool = True
    rowwise = False

    def __post_init__(self) -> None:
        checks.probability_floor("p_min", self.p_min)

    def per_sample(self, log_p: Tensor, labels: Labels) -> Tensor:
        """Return the same value for every sample: the penalty of the batch as a whole."""
        penalty = self.penalty(log_p, labels.valid)
        return labels.mass * penalty.expand(log_p[:, 0].shape)

    def penalty(self, log_p: Tensor, valid: Tensor | None = None) -> Tensor:
        """Penalty of a batch of log-probabilities (N, K, d1, …), over positions that are ``valid``."""
        num_classes = log_p.shape[1]
        p = log_p.exp().clamp(self.p_min, 1 - self.p_min)
        if valid is None:
            valid = torch.ones_like(log_p[:, 0], dtype=torch.bool)
        p = torch.where(valid.unsqueeze(1), p, 0.0)
        sums = torch.cat([p.transpose(0, 1).flatten(1).sum(1), valid.sum(dtype=p.dtype).view(1)])
        if self.across_ranks and several_ranks():
            sums = _SumOverRanks.apply(sums)  # type: ignore[no-untyped-call]
        totals, count = sums[:num_classes], sums[num_classes]
        marginal = (totals / count.clamp(min=1)).clamp(self.p_min, 1 - self.p_min)
        penalty = math.log(num_classes) + (marginal * marginal.log()).sum()
        return torch.where(count > 0, penalty, 0.0)


def several_ranks() -> bool:
    """Whether this process trains together with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


class _SumOverRanks(torch.autograd.Function):
    """Sum of a tensor over all ranks; its gradient is summed over all ranks too.

    Each of W ranks holds a copy of the penalty, so the summed gradient is W times that of one penalty. The
    averaging of gradients in DistributedDataParallel divides by W again, which leaves exactly the gradient
    that one process would compute on the joined batch.
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        total: Tensor = _SumOverRanks.apply(grad_outputs[0])  # type: ignore[no-untyped-call]
        return total
