# SPDX-License-Identifier: Apache-2.0
"""T-Loss: the errors of an image's pixels as one draw of a Student-t, whose heavy tails forgive a wrong mask.

An image whose mask is far off costs the logarithm of its squared error, so that it pulls less the further off it
is. How much less is learned: ν, the logarithm of the degrees of freedom, is a parameter.
"""

import math
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from noiseproof.losses import checks
from noiseproof.losses.image_loss import ImageLoss, read_shares, reduced
from noiseproof.losses.module import Options

SMALLEST_FREEDOM = 1e-8
"""Added to e^ν, so that a very negative ν is no division by zero."""

PUBLISHED_LAMBDA = 1.0
"""The published code scales squared errors by e^λ and subtracts λ·D/2, with λ fixed at 1."""


def t_loss(
    logits: Tensor,
    target: Tensor,
    weight: None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    *,
    nu: Tensor | float = 1.0,
    background: bool = False,
    published: bool = False,
    check_labels: bool | None = None,
) -> Tensor:
    """Negative log-likelihood of a Student-t over the errors of each image. See :class:`TLoss`.

    Shapes: logits (N, K, d1, …); target indices (N, d1, …) or probabilities of the logits' shape.

    >>> import torch
    >>> t_loss(torch.zeros(1, 2, 4, 4), torch.ones(1, 4, 4, dtype=torch.long))
    tensor(14.1292)
    """
    checks.reduction(reduction)
    _refuse_weight(weight)
    shares = read_shares(logits, target, ignore_index, check_labels, background=background)
    squares = shares.over_pixels((shares.predicted - shares.given).square()).sum(1)
    count = shares.pixels() * shares.predicted.shape[1]
    freedom = nu if isinstance(nu, Tensor) else torch.full((), nu, device=logits.device)
    per_image = _negative_log_likelihood(squares.double(), count.double(), freedom.double(), published)
    return reduced(per_image, reduction).to(squares.dtype)


def _negative_log_likelihood(squares: Tensor, count: Tensor, nu: Tensor, published: bool) -> Tensor:
    """The formula, in float64: its parts are as large as D·log D and cancel but for a few units."""
    freedom = nu.exp() + SMALLEST_FREEDOM
    half = (freedom + count) / 2
    loss = torch.lgamma(freedom / 2) - torch.lgamma(half) + count / 2 * (math.log(math.pi) + nu)
    if published:
        squares = squares * math.exp(PUBLISHED_LAMBDA)
        loss = loss - PUBLISHED_LAMBDA * count / 2
    return loss + half * torch.log1p(squares / freedom)


class TLoss(ImageLoss):
    """T-Loss: with D errors δ of an image and ``ν̃ = e^ν + 1e-8``,
    ``lnΓ(ν̃/2) − lnΓ((ν̃+D)/2) + (D/2)(ln π + ν) + ((ν̃+D)/2)·ln(1 + Σδ²/ν̃)``.

    δ is the probability of the foreground less the mask. With more than two classes each but the background has an
    error a pixel, so D = (K − 1)·H·W. ν is learned together with the network, as a parameter group of its own:
    ``optimizer.add_param_group(group)`` for each of :meth:`parameter_groups`. The value is a log-likelihood and
    grows with the image's size: it may be negative, and says nothing beside that of another loss.

    Shapes: logits (N, K, d1, …), or (N, 1, d1, …) for a sigmoid; target indices (N, d1, …) or probabilities of the
    logits' shape. Ignored pixels count neither in Σδ² nor in D. Class weights are not taken.
    Range: (−∞, ∞), bounded below for a given ν. Not symmetric.

    Args:
        nu: where ν starts.
        nu_learning_rate: of ν; the network's schedule leaves it alone.
        background: whether class 0 has errors too.
        published: what the published code does: δ² times e, and D/2 subtracted.

    Gonzalez-Jimenez et al., Robust T-Loss for Medical Image Segmentation, MICCAI 2023.

    Example:
        >>> import torch
        >>> loss = TLoss()
        >>> round(loss(torch.zeros(1, 2, 4, 4), torch.ones(1, 4, 4, dtype=torch.long)).item(), 4)
        14.1292
        >>> loss.parameter_groups()[0]["lr"]
        0.001
    """

    nu: nn.Parameter

    def __init__(
        self,
        nu: float = 1.0,
        *,
        nu_learning_rate: float = 1e-3,
        background: bool = False,
        published: bool = False,
        **options: Unpack[Options],
    ) -> None:
        _refuse_weight(options.get("weight"))
        super().__init__(**options)
        self.nu = nn.Parameter(torch.tensor(checks.number("nu", nu)))
        self.nu_learning_rate = checks.non_negative("nu_learning_rate", nu_learning_rate)
        self.background, self.published = background, published

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What an optimiser needs to learn ν: without weight decay, which would pull it to 0."""
        return [{"params": [self.nu], "lr": self.nu_learning_rate, "weight_decay": 0.0}]

    @property
    def degrees_of_freedom(self) -> float:
        """``ν̃ = e^ν + 1e-8``, as learned so far."""
        return math.exp(float(self.nu.detach())) + SMALLEST_FREEDOM

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of logits (N, K, d1, …) against indices or probabilities."""
        return t_loss(
            logits,
            target,
            None,
            self.ignore_index,
            self.reduction,
            nu=self.nu,
            background=self.background,
            published=self.published,
            check_labels=self.check_labels,
        )

    def extra_repr(self) -> str:
        """Show ν as it stands, and every option that is not the default."""
        shown = [f"nu={float(self.nu.detach()):g}" if not self.nu.is_meta else "nu=?"]
        shown += [f"{name}=True" for name in ("background", "published") if getattr(self, name)]
        return ", ".join([*shown, super().extra_repr()])


def _refuse_weight(weight: Tensor | None) -> None:
    if weight is not None:
        raise ValueError("weight: T-Loss takes no class weights; leave it out")
