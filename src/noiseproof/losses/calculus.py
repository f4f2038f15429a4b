# SPDX-License-Identifier: Apache-2.0
"""The calculus of robust losses, written once for any active loss.

Given an active loss ``L(k)`` that can be evaluated for every class ``k``, with ``A`` its value at the
smallest probability ``p_min``:

=====================  ======================================  =======================================
term                   formula                                 robust because
=====================  ======================================  =======================================
Normalized             ``L(y) / Σ_k L(k)``                     it sums to 1 over the labels
Negative               ``Σ_{k≠y} (A − L(k))``                  (not by itself: it is an intermediate)
NormalizedNegative     ``1 − (A − L(y)) / Σ_k (A − L(k))``     it sums to K − 1 over the labels
=====================  ======================================  =======================================

A term turns log-probabilities (N, K, d1, …) and labels into one loss a sample (N, d1, …). Terms are frozen
values: they compare, hash, print and pickle.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.labels import Labels, PerClass
from noiseproof.losses.per_class import P_MIN


class Term(ABC):
    """A loss of log-probabilities, or a part of one."""

    rowwise: bool = True
    """Whether a sample's loss depends on that sample alone, so that rows may be taken apart."""

    @abstractmethod
    def per_sample(self, log_p: Tensor, labels: Labels) -> Tensor:
        """Loss of each sample (N, d1, …) from its log-probabilities (N, K, d1, …)."""


@dataclass(frozen=True)
class Active(Term):
    """An active loss as it is: ``L(y)``."""

    loss: PerClass

    def per_sample(self, log_p: Tensor, labels: Labels) -> Tensor:
        """``L(y)``."""
        return labels.expected(self.loss, log_p)


@dataclass(frozen=True)
class Normalized(Term):
    """An active loss as a share of what all labels would cost: ``L(y) / Σ_k L(k)``, in [0, 1]."""

    loss: PerClass

    def per_sample(self, log_p: Tensor, labels: Labels) -> Tensor:
        """``L(y) / Σ_k L(k)``."""
        return labels.expected(self.loss, log_p) / self.loss(log_p).sum(1)


@dataclass(frozen=True)
class _Flipped(Term):
    """What both negative losses share: ``A − L(k)``, for probabilities of at least ``p_min``."""

    loss: PerClass
    p_min: float = P_MIN

    def __post_init__(self) -> None:
        checks.probability_floor("p_min", self.p_min)

    def flipped(self, log_p: Tensor) -> Tensor:
        """``A − L(k)`` of every class, at least zero for a loss that falls as p rises."""
        floor = math.log(self.p_min)
        # A comes from the same arithmetic as L(k), so that the two cancel exactly at p_min.
        maximum = self.loss(log_p.new_full((), floor))
        return maximum - self.loss(log_p.clamp(min=floor))

    def _check_room_above_floor(self, num_classes: int) -> None:
        if self.p_min * num_classes >= 1:
            raise ValueError(
                f"p_min: expected less than 1/K = {1 / num_classes:g} for {num_classes} classes, got "
                f"{self.p_min:g}; at or above it every probability may be cut off and nothing is learned"
            )


@dataclass(frozen=True)
class Negative(_Flipped):
    """The flipped loss of every class but the labelled one: ``Σ_{k≠y} (A − L(k))``."""

    def per_sample(self, log_p: Tensor, labels: Labels) -> Tensor:
        """``Σ_{k≠y} (A − L(k))``."""
        self._check_room_above_floor(log_p.shape[1])
        return labels.mass * self.flipped(log_p).sum(1) - labels.expected(self.flipped, log_p)


@dataclass(frozen=True)
class NormalizedNegative(_Flipped):
    """The negative loss, normalised: ``1 − (A − L(y)) / Σ_k (A − L(k))``, in [0, 1]."""

    def per_sample(self, log_p: Tensor, labels: Labels) -> Tensor:
        """``1 − (A − L(y)) / Σ_k (A − L(k))``."""
        self._check_room_above_floor(log_p.shape[1])
        return labels.mass - labels.expected(self.flipped, log_p) / self.flipped(log_p).sum(1)


@dataclass(frozen=True)
class WeightedSum(Term):
    """``Σ_i w_i L_i``; a weight of zero is legal."""

    parts: tuple[tuple[float, Term], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rowwise", all(term.rowwise for _, term in self.parts))

    def per_sample(self, log_p: Tensor, labels: Labels) -> Tensor:
        """``Σ_i w_i L_i``."""
        total = torch.zeros((), dtype=log_p.dtype, device=log_p.device)
        for weight, term in self.parts:
            total = total + weight * term.per_sample(log_p, labels)
        return total


def active_passive(active: Term, passive: Term, alpha: float, beta: float) -> WeightedSum:
    """``α·active + β·passive``, the shape that APL, ALF, ANL and JAL share."""
    return WeightedSum(
        ((checks.non_negative("alpha", alpha), active), (checks.non_negative("beta", beta), passive))
    )


def anl(loss: PerClass, alpha: float, beta: float, p_min: float) -> WeightedSum:
    """ANL of any active loss: ``α·Normalized + β·NormalizedNegative``."""
    return active_passive(Normalized(loss), NormalizedNegative(loss, p_min), alpha, beta)
