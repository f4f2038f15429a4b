# SPDX-License-Identifier: Apache-2.0
"""Whether our runs lead to what the paper concludes from its tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from noiseproof.results import Gathered, Summary, table_of
from noiseproof.results.formats import markdown_text
from noiseproof.results.statistics import LEAST_TOLERANCE
from noiseproof.results.table import ResultTable
from writers.evidence.finding import NO, YES, Finding

BASELINES = ("CE", "FL", "MAE", "GCE", "SCE", "PHCE", "TCE", "APL", "ALF")
ON_MASKS = ("GCE", "MAE", "SCE", "APL", "T-Loss")
OURS = ("ANL-CE", "ANL-FL")

WORST = "sym-0.8"
CLOSE = 1.5
"""Points up to which two methods count as very close."""

Column = Mapping[str, Summary]
"""Our summaries under one noise, by method."""


def _column(table: ResultTable, noise: str) -> dict[str, Summary]:
    cells = {method: table.cells[method, noise].ours for method in table.methods}
    return {method: ours for method, ours in cells.items() if ours is not None}


def _columns(gathered: Gathered, *needed: str) -> dict[str, dict[str, Summary]]:
    """Columns by noise, as far as all these methods have runs there."""
    table = table_of(gathered)
    columns = {noise: _column(table, noise) for noise in table.noises}
    return {noise: column for noise, column in columns.items() if column.keys() >= set(needed)}


def _best(column: Column, methods: Iterable[str]) -> str:
    return max(methods, key=lambda method: column[method].mean)


def _named(column: Column, *methods: str) -> str:
    return ", ".join(f"{method} {column[method].mean:.2f} ({column[method].n})" for method in methods)


def ahead_of_all(
    methods: Sequence[str], rivals: Sequence[str] = BASELINES, but: Sequence[str] = ()
) -> Callable[[Gathered], Finding | None]:
    """In how many columns each of these methods has a higher mean than every rival, and by how much."""

    def check(gathered: Gathered) -> Finding | None:
        columns = _columns(gathered, *methods, *rivals)
        columns = {noise: column for noise, column in columns.items() if noise not in but}
        if not columns:
            return None
        others, clearly = [], 0
        for noise, column in columns.items():
            rival = _best(column, rivals)
            last = [method for method in methods if column[method].mean <= column[rival].mean]
            least = min(column[method].mean for method in methods) - column[rival].mean
            clearly += least > LEAST_TOLERANCE
            if last:
                others.append(f"{noise}: {_named(column, *last, rival)}")
        ahead, all_columns = len(columns) - len(others), len(set(gathered.grid.noises) - set(but))
        verdict = YES if ahead == all_columns else f"in {ahead} of {len(columns)} columns"
        numbers = f"by more than {LEAST_TOLERANCE} points in {clearly} of {len(columns)}"
        return Finding(verdict, markdown_text("; ".join([numbers, *others])))

    return check


def behind(noise: str, methods: Sequence[str], rivals: Sequence[str]) -> Callable[[Gathered], Finding | None]:
    """Whether all these methods are behind all of their rivals under one noise."""

    def check(gathered: Gathered) -> Finding | None:
        column = _columns(gathered, *methods, *rivals).get(noise)
        if column is None:
            return None
        highest = max(column[method].mean for method in methods)
        verdict = YES if highest < min(column[rival].mean for rival in rivals) else NO
        return Finding(verdict, markdown_text(_named(column, *methods, *rivals)))

    return check


def leads(
    noise: str, method: str, points: float, rivals: Sequence[str] = BASELINES
) -> Callable[[Gathered], Finding | None]:
    """Whether a method's mean is so far above the best rival's."""

    def check(gathered: Gathered) -> Finding | None:
        column = _columns(gathered, method, *rivals).get(noise)
        if column is None:
            return None
        rival = _best(column, rivals)
        lead = column[method].mean - column[rival].mean
        numbers = markdown_text(f"{_named(column, method, rival)}: {lead:+.2f}")
        return Finding(YES if lead > points else NO, numbers)

    return check


def entropy_helps(*noises: str) -> Callable[[Gathered], Finding | None]:
    """Whether ANL-CE* is ahead of ANL-CE and ANL-FL under these noises."""

    def check(gathered: Gathered) -> Finding | None:
        columns = _columns(gathered, "ANL-CE*", *OURS)
        if not all(noise in columns for noise in noises):
            return None
        ahead = {
            noise: column["ANL-CE*"].mean - max(column[each].mean for each in OURS)
            for noise, column in columns.items()
            if noise in noises
        }
        return Finding(
            YES if min(ahead.values()) > 0 else NO,
            ", ".join(f"{noise} {lead:+.2f}" for noise, lead in ahead.items()),
        )

    return check


def nnce_alone(gathered: Gathered) -> Finding | None:
    """NNCE without NCE is close to both together, but at the highest noise."""
    columns = _columns(gathered, "NNCE", "ANL-CE")
    if set(gathered.grid.noises) - columns.keys():
        return None
    less = {noise: column["ANL-CE"].mean - column["NNCE"].mean for noise, column in columns.items()}
    at_worst = less.pop(WORST)
    furthest = max(map(abs, less.values()))
    numbers = f"ANL-CE is ahead by {at_worst:.2f} at {WORST}; else they differ by {furthest:.2f} at most"
    return Finding(YES if furthest <= CLOSE < at_worst else NO, numbers)
