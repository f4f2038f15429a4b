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
        spread_chance: how probable so large a spread would then be, were the cells independent. They share seeds,
            so that it is more probable than this.
        outside: cells that are not within the published spread.
        by_chance: how many would be if ours had the paper's distribution: the published deviation as the true one,
            and every printed deviation an estimate of it from few seeds. A lower bound, about: a published
            deviation that came out small by luck leaves more outside.
    """

    cells: int
    difference: float
    standard_error: float
    distance: float
    spread: float | None
    spread_by_chance: float | None
    spread_chance: float | None
    outside: int
    by_chance: float

    def __str__(self) -> str:
        text = (
            f"Over {self.cells} cells, our results differ from the paper's by {self.difference:+.2f} ± "
            f"{self.standard_error:.2f} points (mean and its standard error), half of them by at most "
            f"{self.distance:.2f}"
        )
        if self.spread is None or self.spread_chance is None:
            return f"{text}; {self.outside} are outside the published spread."
        chance = "less than 0.001" if self.spread_chance < 0.001 else f"{self.spread_chance:.2g}"
        return (
            f"{text}. In units of the standard error that the published deviations give, half differ by at most "
            f"{self.spread:.2f}; chance alone would give {self.spread_by_chance:.2f}, and so much with probability "
            f"{chance} if the cells were independent. {self.outside} are outside the published spread; by chance "
            f"it would be {self.by_chance:.1f}, since deviations of a few seeds are uncertain themselves."
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
        differ by at most 0.09; chance alone would give 0.82, and so much with probability 1 if the cells were
        independent. 0 are outside the published spread; by chance it would be 1.5, since deviations of a few
        seeds are uncertain themselves.
    """
    pairs = list(pairs)
    if len(pairs) < FEWEST_CELLS:
        return None
    differences = [ours.mean - paper.mean for ours, paper in pairs]
    spread, spread_by_chance, spread_chance = _spread(pairs) or (None, None, None)
    return Agreement(
        len(pairs),
        mean(differences),
        stdev(differences) / math.sqrt(len(differences)),
        median(map(abs, differences)),
        spread,
        spread_by_chance,
        spread_chance,
        outside,
        sum(chance_of_being_outside(ours.n, paper) for ours, paper in pairs),
    )


def _spread(pairs: Iterable[tuple[Summary, Summary]]) -> tuple[float, float, float] | None:
    """Median of |ours − paper| in standard errors, what it is for runs of the paper's distribution, and how
    probable it then is that at least half of the cells differ by as much."""
    from scipy.special import bdtrc, stdtr, stdtrit

    known = [(ours, paper, paper.std) for ours, paper in pairs if paper.std and paper.n > 1]
    if not known:
        return None
    errors = [
        abs(ours.mean - paper.mean) / (deviation * math.sqrt(1 / ours.n + 1 / paper.n))
        for ours, paper, deviation in known
    ]
    spread, half = median(errors), math.ceil(len(known) / 2)
    beyond = mean(2 * float(stdtr(paper.n - 1, -spread)) for _, paper, _ in known)
    expected = mean(float(stdtrit(paper.n - 1, 0.75)) for _, paper, _ in known)
    return spread, expected, float(bdtrc(half - 1, len(known), beyond))


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
