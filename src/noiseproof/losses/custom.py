# SPDX-License-Identifier: Apache-2.0
"""Robust losses from an active loss of one's own.

An active loss is a function that takes log-probabilities and returns the loss of each class by itself,
element by element: ``def my_loss(log_p): return -log_p``. One that is easier to write in probabilities goes
through :func:`~noiseproof.losses.of_probability`.

Each function here returns a Module that is used like :class:`torch.nn.CrossEntropyLoss`. To be pickled, a
Module needs an active loss defined at the top level of a module, not a lambda.
"""

from typing import TypeAlias, Unpack

from torch import nn

from noiseproof.losses import checks
from noiseproof.losses.calculus import (
    Active,
    Negative,
    Normalized,
    NormalizedNegative,
    Term,
    WeightedSum,
    anl,
)
from noiseproof.losses.image_loss import ImageLoss
from noiseproof.losses.labels import PerClass
from noiseproof.losses.logit_clip import LogitClippedCrossEntropy
from noiseproof.losses.module import Options, RobustLoss, evaluates_its_term
from noiseproof.losses.per_class import P_MIN

Part: TypeAlias = RobustLoss | Term | PerClass
"""What :func:`combine` adds up: a loss Module, a term, or a bare active loss."""


def normalized(loss: PerClass, **options: Unpack[Options]) -> RobustLoss:
    """``L(y) / Σ_k L(k)``: symmetric, so robust, whatever the active loss.

    Example:
        >>> import torch
        >>> normalized(lambda log_p: -log_p)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.2500)
    """
    return RobustLoss(Normalized(_active(loss)), **options)


def negative(loss: PerClass, *, p_min: float = P_MIN, **options: Unpack[Options]) -> RobustLoss:
    """``Σ_{k≠y} (A − L(k))`` with A the loss at ``p_min``: passive, but not yet robust.

    Example:
        >>> import torch
        >>> negative(lambda log_p: -log_p)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(44.1954)
    """
    return RobustLoss(Negative(_active(loss), p_min), **options)


def normalized_negative(loss: PerClass, *, p_min: float = P_MIN, **options: Unpack[Options]) -> RobustLoss:
    """``1 − (A − L(y)) / Σ_k (A − L(k))`` with A the loss at ``p_min``: passive and symmetric.

    Example:
        >>> import torch
        >>> normalized_negative(lambda log_p: -log_p)(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """
    return RobustLoss(NormalizedNegative(_active(loss), p_min), **options)


def active_negative(
    loss: PerClass, alpha: float = 1.0, beta: float = 1.0, *, p_min: float = P_MIN, **options: Unpack[Options]
) -> RobustLoss:
    """``α·normalized + β·normalized_negative``: the paper's ANL, of any active loss.

    Args:
        loss: active loss, from log-probabilities to the loss of each class. It should fall as p rises.
        alpha: weight of the active part; more of it fits faster.
        beta: weight of the passive part; more of it resists wrong labels.
        p_min: smaller probabilities count as this one in the passive part.
        **options: weight, ignore_index, reduction, check_labels.

    Example:
        >>> import torch
        >>> def squared(log_p):
        ...     return (1 - log_p.exp()) ** 2
        >>> loss = active_negative(squared, alpha=1, beta=1)
        >>> loss(torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([0]))
        tensor(0.3247)
    """
    return RobustLoss(anl(_active(loss), alpha, beta, p_min), **options)


def combine(*parts: tuple[float, Part], **options: Unpack[Options]) -> RobustLoss:
    """``Σ_i w_i L_i`` of losses from the catalogue, from this module, or bare active losses.

    Only the formulas of the parts are taken over; weight, ignore_index and reduction are those given here.

    Example:
        >>> import torch
        >>> from noiseproof.losses import create
        >>> loss = combine((1.0, create("nce")), (0.5, create("mae")))
        >>> loss(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.6250)
    """
    if not parts:
        raise ValueError("parts: expected at least one (weight, loss) pair, got none")
    terms = tuple((checks.non_negative("weight of a part", weight), _term(part)) for weight, part in parts)
    return RobustLoss(WeightedSum(terms), **options)


def _term(part: Part) -> Term:
    if isinstance(part, LogitClippedCrossEntropy):
        raise TypeError("parts: LogitClip changes the logits of all parts; clip_logits() them first instead")
    if isinstance(part, ImageLoss):
        raise TypeError(
            f"parts: {type(part).__name__} looks at whole images and has no formula of single labels; "
            "PixelsAndDice adds Dice to a loss of labels"
        )
    if isinstance(part, RobustLoss):
        if not evaluates_its_term(type(part)):
            raise TypeError(
                f"parts: {type(part).__name__} has a forward of its own, and so no formula that can be added to "
                "others; add what the losses return instead"
            )
        return part.term
    return part if isinstance(part, Term) else Active(_active(part))


def _active(loss: PerClass) -> PerClass:
    # A Module would be called, but its parameters would be missing from those of the loss.
    if isinstance(loss, nn.Module | Term | type) or not callable(loss):
        came = f"the class {loss.__name__}" if isinstance(loss, type) else type(loss).__name__
        raise TypeError(
            "loss: expected an active loss, a function from log-probabilities to per-class losses and no Module, "
            f"got {came}"
        )
    return loss
