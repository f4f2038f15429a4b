# SPDX-License-Identifier: Apache-2.0
"""Active losses: what one class costs, given its log-probability and nothing else.

Each is a small frozen object called with log-probabilities of any shape; it returns losses of that shape.
They are the raw material of :mod:`noiseproof.losses.calculus`. A user's own active loss is any function of
that kind, for instance ``lambda log_p: -log_p`` for cross-entropy.

>>> import torch
>>> GCE(q=1.0)(torch.tensor([0.25]).log())
tensor([0.7500])
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.labels import PerClass

P_MIN = 1e-7
"""Smallest probability of the paper; below it, flipped losses and GCE are flat."""

LABEL_FLOOR = 1e-4
"""What the published code puts in place of the zeros of a one-hot label, so that its logarithm exists."""


def one_minus_p(log_p: Tensor) -> Tensor:
    """``1 − p`` without the cancellation that ``1 - log_p.exp()`` suffers near ``p = 1``."""
    return -torch.expm1(log_p)


def of_probability(loss: Callable[[Tensor], Tensor]) -> PerClass:
    """Turn a per-class loss of probabilities into one of log-probabilities.

    >>> import torch
    >>> of_probability(lambda p: (1 - p) ** 2)(torch.tensor([0.5]).log())
    tensor([0.2500])
    """
    return lambda log_p: loss(log_p.exp())


@dataclass(frozen=True)
class CE:
    """Cross-entropy: ``−log p``."""

    def __call__(self, log_p: Tensor) -> Tensor:
        return -log_p


@dataclass(frozen=True)
class FL:
    """Focal loss: ``−(1−p)^γ log p``.

    ``detach_modulator`` keeps ``(1−p)^γ`` out of the gradient, as the published code does.
    """

    gamma: float = 0.5
    detach_modulator: bool = True

    def __post_init__(self) -> None:
        checks.non_negative("gamma", self.gamma)

    def __call__(self, log_p: Tensor) -> Tensor:
        base = one_minus_p(log_p.detach() if self.detach_modulator else log_p)
        # For γ < 1 the slope of base^γ is infinite at 0; below the smallest float it is cut to zero.
        modulator = base.clamp(min=torch.finfo(log_p.dtype).tiny) ** self.gamma
        return -modulator * log_p


@dataclass(frozen=True)
class MAE:
    """Mean absolute error: ``scale·(1−p)``; scale 1 in the published code, 2 in the paper's derivation."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        checks.non_negative("scale", self.scale)

    def __call__(self, log_p: Tensor) -> Tensor:
        return self.scale * one_minus_p(log_p)


@dataclass(frozen=True)
class RCE:
    """Reverse cross-entropy: ``−log(label_floor)·(1−p)``, 9.2103·(1−p) for a floor of 1e-4."""

    label_floor: float = LABEL_FLOOR

    def __post_init__(self) -> None:
        checks.probability_floor("label_floor", self.label_floor)

    def __call__(self, log_p: Tensor) -> Tensor:
        return -math.log(self.label_floor) * one_minus_p(log_p)


@dataclass(frozen=True)
class GCE:
    """Generalised cross-entropy: ``(1−p^q)/q``, with p no smaller than ``p_min``."""

    q: float = 0.7
    p_min: float = P_MIN

    def __post_init__(self) -> None:
        checks.above("q", self.q, 0)
        checks.probability_floor("p_min", self.p_min)

    def __call__(self, log_p: Tensor) -> Tensor:
        return -torch.expm1(self.q * log_p.clamp(min=math.log(self.p_min))) / self.q


@dataclass(frozen=True)
class PHCE:
    """Partially Huberised cross-entropy: ``−log p`` above ``p = 1/τ``, its tangent below."""

    tau: float = 2.0

    def __post_init__(self) -> None:
        checks.above("tau", self.tau, 1)

    def __call__(self, log_p: Tensor) -> Tensor:
        tangent = math.log(self.tau) + 1 - self.tau * log_p.exp()
        return torch.where(log_p > -math.log(self.tau), -log_p, tangent)


@dataclass(frozen=True)
class TCE:
    """Taylor cross-entropy: ``Σ_{i=1..t} (1−p)^i / i``."""

    t: int = 2

    def __post_init__(self) -> None:
        checks.positive_integer("t", self.t)

    def __call__(self, log_p: Tensor) -> Tensor:
        base = one_minus_p(log_p)
        series = base / self.t
        for i in range(self.t - 1, 0, -1):  # Horner's scheme, from the highest power down
            series = base * (series + 1 / i)
        return series


@dataclass(frozen=True)
class AGCE:
    """Asymmetric generalised cross-entropy: ``((a+1)^q − (a+p)^q)/q``."""

    a: float = 6.0
    q: float = 1.5

    def __post_init__(self) -> None:
        checks.above("a", self.a, 0)
        checks.above("q", self.q, 0)

    def __call__(self, log_p: Tensor) -> Tensor:
        return (math.pow(self.a + 1, self.q) - (self.a + log_p.exp()) ** self.q) / self.q


@dataclass(frozen=True)
class AUL:
    """Asymmetric unhinged loss: ``((a−p)^q − (a−1)^q)/q``."""

    a: float = 6.3
    q: float = 1.5

    def __post_init__(self) -> None:
        checks.above("a", self.a, 1)
        checks.above("q", self.q, 0)

    def __call__(self, log_p: Tensor) -> Tensor:
        return ((self.a - log_p.exp()) ** self.q - math.pow(self.a - 1, self.q)) / self.q


@dataclass(frozen=True)
class AEL:
    """Asymmetric exponential loss: ``exp(−p/a)``."""

    a: float = 5.0

    def __post_init__(self) -> None:
        checks.above("a", self.a, 0)

    def __call__(self, log_p: Tensor) -> Tensor:
        return torch.exp(-log_p.exp() / self.a)
