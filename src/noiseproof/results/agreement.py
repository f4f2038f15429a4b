# SPDX-License-Identifier: Apache-2.0
"""How a whole table agrees with the paper: its mean difference, its spread, and how many cells would be outside by
chance.

A deviation of three seeds is itself uncertain, so that even runs of the very same program leave the published
spread now and then, and more often where the published deviation is small by luck. What counts is whether all cells
together lie further from the paper's than its deviations make them, and whether they lean to one side.

The first is told by ours − paper in standard errors, s₂·√(1/n₁ + 1/n₂). For runs of the paper's distribution that
is Student's t with n₂ − 1 degrees of freedom, whatever the cell's deviation. Its median gives every cell the same
weight; in a mean of squares one cell with a wide deviation would decide. All of this takes published deviations to
have the divisor n − 1; were it n, chance would make that median larger by √(n₂/(n₂ − 1)).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, median, stdev

import numpy as np
from numpy.typing import NDArray

from noiseproof.results.statistics import LEAST_TOLERANCE, Summary

FEWEST_CELLS = 10
"""Cells below which a mean over them says little."""

QUANTILES = 64
"""Of each deviation, over which its distribution is averaged: the chance is right to about three digits."""


@dataclass(frozen=True)
class Agreement:
    """How our means lie to the published ones.

    Attributes:
        cells: that both have.
        difference: mean of ours − paper over them, in points.
        standard_error: of that mean, by its spread over the cells.
        distance: median of |ours − paper|.
        spread: the same in standard errors of each cell, by its published deviation; None where none has one.
        spread_by_chance: what that would be if ours had the paper's distribution.
        outside: cells that are not within the published spread.
        by_chance: how many would be if ours had the paper's distribution, with exactly the published deviation. A
            lower bound, about: a deviation that came out small by luck leaves more outside.
    """

    cells: int
    difference: float
    standard_error: float
    distance: float
    spread: float | None
    spread_by_chance: float | None
    outside: int
    by_chance: float

    def __str__(self) -> str:
        text = (
            f"Over {self.cells} cells, our results differ from the paper's by {self.difference:+.2f} ± "
            f"{self.standard_error:.2f} points (mean and its standard error), half of them by at most "
            f"{self.distance:.2f}"
        )
        if self.spread is None:
            return f"{text}; {self.outside} are outside the published spread."
        return (
            f"{text}. In units of the standard error that the published deviations give, half differ by at most "
            f"{self.spread:.2f}; chance alone would give {self.spread_by_chance:.2f}. {self.outside} are outside "
            f"the published spread; by chance it would be {self.by_chance:.1f}, if those deviations were exact."
        )


def agreement_of(pairs: Iterable[tuple[Summary, Summary]], outside: int) -> Agreement | None:
    """Summarise the cells that both have; None where they are too few.

    Args:
        pairs: ours and the paper's, of each cell.
        outside: how many of them the report's rule finds outside.

    Example:
        >>> paper = Summary(61.0, 0.5, 3)
        >>> print(agreement_of([(Summary(60.9 + 0.02 * i, None, 1), paper) for i in range(10)], 0))
        Over 10 cells, our results differ from the paper's by -0.01 ± 0.02 points (mean and its standard error),
        half of them by at most 0.05. In units of the standard error that the published deviations give, half
        differ by at most 0.09; chance alone would give 0.82. 0 are outside the published spread; by chance it
        would be 1.5, if those deviations were exact.
    """
    pairs = list(pairs)
    if len(pairs) < FEWEST_CELLS:
        return None
    differences = [ours.mean - paper.mean for ours, paper in pairs]
    spread, spread_by_chance = _spread(pairs)
    return Agreement(
        len(pairs),
        mean(differences),
        stdev(differences) / math.sqrt(len(differences)),
        median(map(abs, differences)),
        spread,
        spread_by_chance,
        outside,
        sum(chance_of_being_outside(ours.n, paper) for ours, paper in pairs),
    )


def _spread(pairs: Iterable[tuple[Summary, Summary]]) -> tuple[float | None, float | None]:
    """Median of |ours − paper| in standard errors, and what it is for runs of the paper's distribution."""
    from scipy.special import stdtrit

    known = [(ours, paper, paper.std) for ours, paper in pairs if paper.std and paper.n > 1]
    if not known:
        return None, None
    errors = [
        abs(ours.mean - paper.mean) / (deviation * math.sqrt(1 / ours.n + 1 / paper.n))
        for ours, paper, deviation in known
    ]
    return median(errors), mean(float(stdtrit(paper.n - 1, 0.75)) for _, paper, _ in known)


def chance_of_being_outside(seeds: int, paper: Summary) -> float:
    r"""Chance that a mean over ``seeds`` runs leaves the published spread though it has the paper's distribution.

    The runs are normal with the published deviation σ. With one seed the rule is that of Student's t with n₂ − 1
    degrees of freedom, but for its least tolerance:

    >>> round(chance_of_being_outside(1, Summary(61.0, 100.0, 3)), 2)  # P(|t₂| > 2)
    0.18
    >>> chance_of_being_outside(1, Summary(61.0, None, 3))
    0.0
    """
    from scipy.special import ndtr

    if not paper.std:
        return 0.0
    theirs = paper.std**2 * _chi_square_over_freedom(paper.n - 1)[:, None]
    mine = theirs if seeds < 2 else paper.std**2 * _chi_square_over_freedom(seeds - 1)[None, :]
    tolerance = np.maximum(2 * np.sqrt(mine / seeds + theirs / paper.n), LEAST_TOLERANCE)
    deviation = paper.std * math.sqrt(1 / seeds + 1 / paper.n)
    return float(np.mean(2 * ndtr(-tolerance / deviation)))


def _chi_square_over_freedom(freedom: int) -> NDArray[np.float64]:
    """Quantiles of the sample variance of normal numbers with variance 1, evenly spaced in probability."""
    from scipy.special import gammaincinv

    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    found: NDArray[np.float64] = 2 * gammaincinv(freedom / 2, levels) / freedom
    return found
