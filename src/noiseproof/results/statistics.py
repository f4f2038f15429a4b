# SPDX-License-Identifier: Apache-2.0
"""What several seeds say: spread, paired comparison with a confidence interval, ranks, and the paper's spread."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 10_000
BOOTSTRAP_SEED = 20240

LEAST_TOLERANCE = 0.5
"""Points within which two accuracies count as the same, however small their spread."""

EQUAL = 2e-4
"""Points up to which two means are the same: files round each run to four decimals."""


@dataclass(frozen=True)
class Summary:
    """Mean over seeds, sample standard deviation (divisor n − 1; None for one seed) and their number."""

    mean: float
    std: float | None
    n: int

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {self.std:.2f}"
        return f"{self.mean:.2f}{spread} ({self.n})"


def summarise(values: Sequence[float]) -> Summary:
    """Return mean, sample standard deviation and number of values.

    >>> print(summarise([61.0, 62.0, 63.0]))
    62.00 ± 1.00 (3)
    >>> print(summarise([61.0]))
    61.00 (1)
    """
    if not values:
        raise ValueError("values: expected at least one, got none")
    array = np.asarray(values, dtype=np.float64)
    return Summary(float(array.mean()), float(array.std(ddof=1)) if array.size > 1 else None, array.size)


def published_tolerance(ours: Summary, published: Summary) -> float:
    """How far our mean may lie from the published one and still count as within its spread.

    max(2·√(s₁²/n₁ + s₂²/n₂), 0.5) points. With one seed of ours s₁ is the published standard deviation; a
    deviation that was not published counts as 0; where neither has one, 0.5 alone.

    >>> round(published_tolerance(Summary(62.0, 1.0, 3), Summary(61.27, 0.93, 3)), 4)
    1.5769
    >>> published_tolerance(Summary(62.0, None, 1), Summary(61.27, None, 3))
    0.5
    """
    return max(two_standard_errors(ours, published), LEAST_TOLERANCE)


def two_standard_errors(ours: Summary, published: Summary) -> float:
    """Of the difference between our mean and the published one: the tolerance without its least value."""
    theirs = 0.0 if published.std is None else published.std
    mine = theirs if ours.std is None else ours.std
    return 2 * math.sqrt(mine**2 / ours.n + theirs**2 / published.n)


def is_within_published_spread(ours: Summary, published: Summary) -> bool:
    """Whether |ours − published| is at most :func:`published_tolerance`.

    Means are compared as they are printed, with two decimals, so that a reader can check the verdict.

    >>> is_within_published_spread(Summary(61.77, None, 1), Summary(61.27, None, 3))
    True
    """
    difference = round(abs(round(ours.mean, 2) - round(published.mean, 2)), 2)
    return difference <= published_tolerance(ours, published)


def ranks(values: Sequence[float]) -> list[float]:
    """Rank values, the largest first; those within :data:`EQUAL` share the mean of their places.

    >>> ranks([90.0, 70.0, 80.0, 80.0001])
    [1.0, 4.0, 2.5, 2.5]
    """
    array = np.asarray(values, dtype=np.float64)
    above = (array[None, :] > array[:, None] + EQUAL).sum(axis=1)
    equal = (np.abs(array[None, :] - array[:, None]) <= EQUAL).sum(axis=1)
    return [float(rank) for rank in above + (equal + 1) / 2]


@dataclass(frozen=True)
class Comparison:
    """Mean difference of two methods over what they share, with its confidence interval.

    Attributes:
        difference: mean of first − second, each noise counting alike.
        low: lower end of the interval; −∞ where one value cannot have one.
        high: upper end.
        pairs: runs compared: shared noises and seeds.
        noises: noises among them.
        wins: pairs in which the first is ahead.
    """

    difference: float
    low: float
    high: float
    pairs: int
    noises: int
    wins: int

    @property
    def has_interval(self) -> bool:
        """Whether there was more than one value to tell a spread from."""
        return math.isfinite(self.low)

    @property
    def is_supported(self) -> bool:
        """Whether the interval leaves no doubt about the sign."""
        return self.low > 0 or self.high < 0


def compare(
    first: Mapping[tuple[str, int], float],
    second: Mapping[tuple[str, int], float],
    confidence: float = CONFIDENCE,
) -> Comparison | None:
    """Compare two methods over the noises and seeds that both have; None where there are none.

    The unit that is drawn anew is the noise, whose seeds agree with one another far more than with those of other
    noises; where only one noise is shared, it is the seed.

    Args:
        first: accuracy by (noise, seed).
        second: likewise.
        confidence: of the interval.

    >>> ours = {("sym-0.8", 1): 62.0, ("sym-0.8", 2): 63.0, ("sym-0.8", 3): 63.0}
    >>> theirs = {("sym-0.8", 1): 60.0, ("sym-0.8", 2): 60.5, ("sym-0.8", 3): 61.0}
    >>> found = compare(ours, theirs)
    >>> round(found.difference, 2), round(found.low, 2), round(found.high, 2), found.is_supported
    (2.17, 1.45, 2.88, True)
    """
    shared = sorted(first.keys() & second.keys())
    if not shared:
        return None
    differences: dict[str, list[float]] = {}
    for noise, seed in shared:
        differences.setdefault(noise, []).append(first[noise, seed] - second[noise, seed])
    if len(differences) > 1:
        units = [float(np.mean(each)) for each in differences.values()]
    else:
        (units,) = differences.values()
    low, high = interval_of_mean(units, confidence)
    wins = sum(first[key] > second[key] for key in shared)
    return Comparison(float(np.mean(units)), low, high, len(shared), len(differences), wins)


def interval_of_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return a confidence interval of the mean: the bootstrap's, or Student's where that is wider.

    The bootstrap never leaves the range of the values, which for three of them holds the true mean three times in
    four at best; Student's interval, wider the fewer they are, makes good for it. One value has no interval:
    (−∞, ∞).
    """
    from scipy.special import stdtrit

    array = np.asarray(values, dtype=np.float64)
    if array.size < 2:
        return -math.inf, math.inf
    low, high = bootstrap_interval(array, confidence)
    half = float(stdtrit(array.size - 1, (1 + confidence) / 2) * array.std(ddof=1) / math.sqrt(array.size))
    mean = float(array.mean())
    return min(low, mean - half), max(high, mean + half)


def bootstrap_interval(
    values: NDArray[np.float64], confidence: float = CONFIDENCE, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean; the same values always give the same interval."""
    random = np.random.Generator(np.random.PCG64(BOOTSTRAP_SEED))
    drawn = random.integers(0, values.size, size=(resamples, values.size))
    means = values[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
