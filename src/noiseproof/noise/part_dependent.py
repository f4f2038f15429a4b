# SPDX-License-Identifier: Apache-2.0
r"""The published instance-dependent labels (``pdn``), fast and the same on every machine.

The published loop draws sample by sample, in single precision: scores :math:`s = x W_y`, probabilities
:math:`p = r \cdot \mathrm{softmax}_{k \ne y}(s)` with :math:`p_y = 1 - r`, and the first class whose running
sum of p exceeds one uniform number u. Done for all samples of a class in one matrix product the scores round
otherwise than one by one, and otherwise again on another processor, which may turn a label. So the work is
cut in three:

1. Whatever the scores are, the classes below y have probability r together at most, and so have those above.
   Where u lies beyond both, the label stays: no product is needed.
2. The rest take a fast product. Pixels of 0–255 make scores of thousands, whose largest nearly always leads
   by so much that its softmax is one under any rounding. Then the label is settled by u against r alone.
3. What is left (a few in a hundred) is computed with every step rounded correctly: scores in double
   precision, then rounded to single, and the softmax likewise. That does not depend on the processor.
"""

import math

import numpy as np
import scipy  # its parts are imported when they are used
from numpy.typing import NDArray

from noiseproof.noise.checks import Labels
from noiseproof.noise.projections import largest_magnitude, projected
from noiseproof.noise.randomness import published_stream

SINGLE_ROUNDING = 2.0**-24
"""The relative error of one rounding to single precision."""

SCORE_DEVIATIONS = 8.0
"""Every partial sum of a score is Gaussian with deviation |x| at most; none of them passes so many."""

DECISIVE_LEAD = 20.0
"""A lead that leaves each other class a softmax of e⁻²⁰ = 2e-9, below the rounding of the running sums."""


def part_dependent_labels(
    images: NDArray[np.generic],
    clean: Labels,
    rate: float,
    rate_deviation: float,
    num_classes: int,
    seed: int,
) -> Labels:
    """Draw in the published order: all rates, then W class by class, then one uniform number per sample."""
    if not np.can_cast(images.dtype, np.float32):
        images = images.astype(np.float32)
    stream = published_stream(seed)
    rates = truncated_normal(stream.random_sample(clean.size), rate, rate_deviation)
    weights = np.empty((num_classes, images.shape[1], num_classes), dtype=np.float32)
    for class_weights in weights:
        class_weights[...] = stream.randn(*class_weights.shape)
    numbers = stream.random_sample(clean.size)

    slack = (num_classes + 4) * 2 * SINGLE_ROUNDING  # of running sums of single-precision probabilities
    given = clean.copy()
    open_rows = np.flatnonzero(~_surely_kept(clean, rates, numbers, num_classes, slack))
    scores = projected(images, open_rows, clean, weights.__getitem__, num_classes, np.float32)
    labels, settled = _settled_by_lead(
        scores,
        clean[open_rows],
        rates[open_rows],
        numbers[open_rows],
        slack,
        DECISIVE_LEAD + 2.0 * _score_error(images),
    )
    given[open_rows] = labels

    doubtful_rows = open_rows[~settled]
    exact_scores = projected(
        images, doubtful_rows, clean, lambda c: weights[c].astype(np.float64), num_classes
    )
    given[doubtful_rows] = _one_by_one(
        exact_scores.astype(np.float32), clean[doubtful_rows], rates[doubtful_rows], numbers[doubtful_rows]
    )
    return given


def truncated_normal(numbers: NDArray[np.float64], mean: float, deviation: float) -> NDArray[np.float64]:
    r"""Uniform numbers turned into a normal truncated to [0, 1] by the inverse of its distribution function.

    What SciPy's ``truncnorm.rvs`` does, each half from its own end so that no digits are lost in a tail.

    Examples:
        >>> truncated_normal(np.array([0.0, 0.5, 1.0 - 2.0**-53]), mean=0.4, deviation=0.1).round(4)
        array([0. , 0.4, 1. ])
    """
    low, high = -mean / deviation, (1.0 - mean) / deviation
    below_low, above_high = scipy.special.ndtr(low), scipy.special.ndtr(-high)
    mass = scipy.special.ndtr(high) - below_low
    from_below = scipy.special.ndtri(below_low + numbers * mass)
    from_above = -scipy.special.ndtri(above_high + (1.0 - numbers) * mass)
    standard = np.where(numbers < 0.5, from_below, from_above)
    truncated: NDArray[np.float64] = np.clip(mean + deviation * standard, 0.0, 1.0)
    return truncated


def _surely_kept(
    clean: Labels,
    rates: NDArray[np.float64],
    numbers: NDArray[np.float64],
    num_classes: int,
    slack: float,
) -> NDArray[np.bool_]:
    largest_flip = rates + slack
    clear_of_lower = (clean == 0) | (numbers >= largest_flip)
    clear_of_higher = (clean == num_classes - 1) | (numbers < 1.0 - largest_flip)
    kept: NDArray[np.bool_] = clear_of_lower & clear_of_higher
    return kept


def _score_error(images: NDArray[np.generic]) -> float:
    """How far a score may stray in single precision, whatever the order of its sum."""
    features = int(images.shape[1])
    longest_image = largest_magnitude(images) * math.sqrt(features)
    return features * SINGLE_ROUNDING * SCORE_DEVIATIONS * longest_image


def _settled_by_lead(
    scores: NDArray[np.floating],
    clean: Labels,
    rates: NDArray[np.float64],
    numbers: NDArray[np.float64],
    slack: float,
    decisive_lead: float,
) -> tuple[Labels, NDArray[np.bool_]]:
    """Labels as if the softmax were one for the best class, and where that is certain. Uses ``scores`` up."""
    rows = np.arange(len(scores))
    scores[rows, clean] = -np.inf
    best = scores.argmax(axis=1)
    best_score = scores[rows, best]
    scores[rows, best] = -np.inf
    lead = best_score - scores.max(axis=1)
    # The best class holds [0, r) of the unit interval where it is below y, and [1 - r, 1) where it is above.
    border = np.where(best < clean, rates, 1.0 - rates)
    flips = (numbers < border) == (best < clean)
    settled = (lead > decisive_lead) & (np.abs(numbers - border) > slack)
    return np.where(flips, best, clean), settled


def _one_by_one(
    scores: NDArray[np.float32], clean: Labels, rates: NDArray[np.float64], numbers: NDArray[np.float64]
) -> Labels:
    """The published arithmetic, each operation rounded correctly to single precision."""
    rows = np.arange(len(scores))
    scores[rows, clean] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    powers = np.exp(scores.astype(np.float64)).astype(np.float32)
    probabilities = powers / powers.sum(axis=1, dtype=np.float64, keepdims=True).astype(np.float32)
    probabilities *= rates.astype(np.float32)[:, np.newaxis]
    probabilities[rows, clean] = (1.0 - rates).astype(np.float32)
    sums = np.cumsum(probabilities, axis=1, dtype=np.float64)
    sums /= sums[:, -1:]
    labels: Labels = np.count_nonzero(sums <= numbers[:, np.newaxis], axis=1).astype(np.int64, copy=False)
    return labels
