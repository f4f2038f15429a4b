# SPDX-License-Identifier: Apache-2.0
"""Wrong labels that follow what the model itself confuses: whose mistakes are they?

Where a model cannot tell two classes apart, labels that seem to be flipped between them may be right, and the model
wrong. Or people confuse the same two classes; then more of their mistakes are hidden, for on the very pictures that
the model cannot tell apart it agrees with the wrong label as often as with the right one. Labels and predictions of
a picture do not say which it is. The pattern over all pairs of classes hints at it: people's mistakes follow
resemblance everywhere, in both directions; labels that were flipped by a rule or at random do not, and what little
seems to follow it is the model's.

So the wrong labels of each pair of classes, (true k, given j), are explained by three parts,

    J_kj = u·π_k·π_j + s·O_kj + rest,    O_kj = mean of q_k(x)·q_j(x),

where the first is what blind chance does and the second what resemblance does; u and s ≥ 0 leave the smallest sum
of absolute rests, so that a few pairs with many flips do not bend them. Of all wrong labels, s·ΣO_kj follow
resemblance, a share ψ. That share is taken for the probability that they are people's.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

MODELS_SHARE = 0.7
"""Of what follows resemblance, so much is the model's mistakes where nothing speaks for people's (ψ = 0)."""

HIDDEN_SHARE = 0.4
"""As a share of what follows resemblance, so much more is hidden where everything speaks for people's (ψ = 1).

Both shares are a judgement, made on some two hundred sets whose true labels are known. It matters little: the
mean error changes by less than 0.2 points from 0.5 to 0.75 of the one and from 0.25 to 0.5 of the other.
"""

LEAST_EXPLAINED = 0.02
"""Where resemblance takes less than this share of the wrong labels out of the rest, it is believed in proportion:
between classes that are all alike, nobody can tell resemblance from chance."""

FITTED = 2
"""Numbers that are fitted: u and s."""

STEPS = 40
"""Of the search for s; each makes the range 0.62 times as wide."""


def corrected_rate(rate: float, joint: NDArray[np.float64], overlap: NDArray[np.float64]) -> float:
    """A noise rate, less what is rather the model's mistakes, or with what people's mistakes hide.

    Args:
        rate: mean probability that a label is wrong.
        joint: J (K, K), rows = true class: share of all labels, as estimated.
        overlap: O (K, K); its rows sum to the share π of each class.

    Example:
        >>> overlap = np.array([[0.30, 0.02, 0.00, 0.01], [0.02, 0.20, 0.01, 0.00],
        ...                     [0.00, 0.01, 0.20, 0.03], [0.01, 0.00, 0.03, 0.16]])
        >>> by_people = overlap - np.diag(np.diag(overlap))
        >>> by_rule = 0.14 * np.eye(4)[[1, 0, 2, 3]] * (np.arange(4) == 0)[:, None]  # all 0 → 1
        >>> [round(corrected_rate(0.14, joint, overlap), 3) for joint in (by_people, by_rule)]
        [0.177, 0.14]
    """
    found = float(joint.sum() - np.trace(joint))
    pairs = len(joint) * (len(joint) - 1) / 2
    if found <= 0 or pairs <= FITTED:
        return rate
    following, explained = following_resemblance(joint, overlap)
    people = following / found
    change = HIDDEN_SHARE * people - MODELS_SHARE * (1 - people)
    # Two numbers fit a few pairs of classes well even where nothing follows anything.
    belief = (1 - FITTED / pairs) * min(1.0, explained / found / LEAST_EXPLAINED)
    return float(np.clip(rate + belief * following * change, 0, 1))


def following_resemblance(joint: NDArray[np.float64], overlap: NDArray[np.float64]) -> tuple[float, float]:
    """Wrong labels that follow resemblance, s·ΣO_kj over pairs of different classes, as a share of all labels;
    and how much less rest there is with them than by chance alone."""
    different = ~np.eye(len(joint), dtype=bool)
    classes = overlap.sum(1)
    wrong = joint[different]
    by_chance = np.maximum(np.outer(classes, classes)[different], 1e-15)
    alike = overlap[different]
    if wrong.sum() <= 0 or alike.sum() <= 0:
        return 0.0, 0.0

    def rest(slope: float) -> float:
        left = wrong - slope * alike
        level = max(_weighted_median(left / by_chance, by_chance), 0.0)
        return float(np.abs(left - level * by_chance).sum())

    slope = _lowest(rest, float(wrong.sum() / alike.sum()))
    return slope * float(alike.sum()), max(rest(0.0) - rest(slope), 0.0)


def _weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2)])


def _lowest(function: Callable[[float], float], end: float) -> float:
    """Where a convex function is lowest between 0 and ``end``: golden section search."""
    start, golden = 0.0, (5**0.5 - 1) / 2
    lower, upper = end - golden * (end - start), start + golden * (end - start)
    at_lower, at_upper = function(lower), function(upper)
    for _ in range(STEPS):
        if at_lower < at_upper:
            end, upper, at_upper = upper, lower, at_lower
            lower = end - golden * (end - start)
            at_lower = function(lower)
        else:
            start, lower, at_lower = lower, upper, at_upper
            upper = start + golden * (end - start)
            at_upper = function(upper)
    return (start + end) / 2
