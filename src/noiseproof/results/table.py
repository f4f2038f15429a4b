# SPDX-License-Identifier: Apache-2.0
"""A table: methods × noises, each cell a mean over seeds beside the paper's, with ranks and verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from noiseproof.noise import parse_name, short_name
from noiseproof.results.agreement import Agreement, agreement_of
from noiseproof.results.lost_classes import lost_classes, note_on_lost_classes
from noiseproof.results.published import published
from noiseproof.results.result import Result
from noiseproof.results.statistics import (
    EQUAL,
    Comparison,
    Summary,
    compare,
    is_within_published_spread,
    published_tolerance,
    ranks,
    summarise,
)

if TYPE_CHECKING:
    from noiseproof.grids import Grid
    from noiseproof.results.gather import Gathered

Verdict = Literal["within", "outside"]

PUBLISHED_RULE = (
    "Within the published spread: |ours − paper| ≤ max(2·√(s₁²/n₁ + s₂²/n₂), 0.5) points, with deviation s₁ over "
    "our n₁ seeds and s₂ over the paper's n₂. With one seed, s₁ is the published deviation; where neither has one, "
    "the bound is 0.5 alone."
)
BOLD_RULE = (
    "Bold: the highest mean in a column, and every mean that it is not shown to beat, because the 95% interval of "
    "the paired differences over three shared seeds or more (bootstrap, or Student's where wider) leaves the sign "
    "open. Only methods with three seeds or more can be bold, and nothing is bold where a method with fewer has a "
    "higher mean."
)
FEWEST_SEEDS_IN_BOLD = 3
"""Two seeds hardly support anything: by the rule nearly every method would be bold."""
CELL_RULES = {
    "test_accuracy": "Test accuracy in percent at the last epoch",
    "test_dice": "Dice in percent, pooled over the test set, mean over the last ten epochs",
}
SPREAD_RULE = "mean ± sample standard deviation (number of seeds)."


@dataclass(frozen=True)
class TableCell:
    """One cell.

    Attributes:
        method: its row.
        noise: its column.
        ours: mean over our seeds; None where nothing is recorded.
        published: the paper's number, where it has one.
        results: the runs behind ``ours``.
        rank: place of the method in its column, 1 the best.
        is_bold: see :data:`BOLD_RULE`.
    """

    method: str
    noise: str
    ours: Summary | None
    published: Summary | None
    results: tuple[Result, ...] = ()
    rank: float | None = None
    is_bold: bool = False

    @property
    def difference(self) -> float | None:
        """Ours − paper, of the means as printed."""
        if self.ours is None or self.published is None:
            return None
        return round(round(self.ours.mean, 2) - round(self.published.mean, 2), 2)

    @property
    def tolerance(self) -> float | None:
        """What :data:`PUBLISHED_RULE` allows."""
        if self.ours is None or self.published is None:
            return None
        return published_tolerance(self.ours, self.published)

    @property
    def verdict(self) -> Verdict | None:
        """Whether ours is within the published spread."""
        if self.ours is None or self.published is None:
            return None
        return "within" if is_within_published_spread(self.ours, self.published) else "outside"


@dataclass(frozen=True)
class ResultTable:
    """Methods × noises.

    Attributes:
        name: the grid's.
        title: the grid's.
        methods: rows.
        noises: columns.
        cells: by method and noise; every pair has one.
        notes: what a reader must know about these runs.
    """

    name: str
    title: str
    methods: tuple[str, ...]
    noises: tuple[str, ...]
    cells: Mapping[tuple[str, str], TableCell]
    notes: tuple[str, ...] = ()

    @property
    def has_published(self) -> bool:
        """Whether the paper has any of these numbers."""
        return any(cell.published is not None for cell in self.cells.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is recorded."""
        return all(cell.ours is None for cell in self.cells.values())

    @property
    def verdicts(self) -> tuple[int, int]:
        """How many cells are within the published spread, of how many that can be compared."""
        judged = [cell.verdict for cell in self.cells.values() if cell.verdict is not None]
        return judged.count("within"), len(judged)

    @property
    def agreement(self) -> Agreement | None:
        """How the cells together lie to the paper's; None where too few can be compared."""
        return _agreement(self.cells.values())

    @property
    def agreement_where_classes_are_kept(self) -> Agreement | None:
        """The same over the cells in which no run of ours lost a class; None where those are all, or too few.

        The others lie whole steps apart, and a few of them decide the mean of all.
        """
        kept = [cell for cell in self.cells.values() if not any(map(lost_classes, cell.results))]
        return _agreement(kept) if len(kept) < len(self.cells) else None

    @property
    def agreement_of_repeated_cells(self) -> Agreement | None:
        """The same over the cells that have more than one seed of ours; None where those are all, or too few.

        A seed alone is judged with the published deviation, which is often a small one by luck.
        """
        repeated = [cell for cell in self.cells.values() if cell.ours is not None and cell.ours.n > 1]
        return _agreement(repeated) if len(repeated) < len(self.cells) else None

    @property
    def agreement_in_words(self) -> tuple[str, ...]:
        """How the cells together lie to the paper's, and how those do in which no run of ours lost a class."""
        whole, kept = self.agreement, self.agreement_where_classes_are_kept
        if whole is None:
            return ()
        if kept is None or kept.cells == whole.cells:
            return (str(whole),)
        count, text = whole.cells - kept.cells, str(kept)
        left_out = f"the {count} cells" if count > 1 else "the cell"
        apart = (
            f"Without {left_out} in which one of our runs lost a class, a choice by our own outcome, since the "
            f"paper's runs may have lost some too: {text[0].lower()}{text[1:]}"
        )
        return str(whole), apart

    @property
    def lost_by_method(self) -> dict[str, tuple[int, int]]:
        """How many runs of each method lost a class, of how many; of those that have any run."""
        runs = {
            method: [run for noise in self.noises for run in self.cells[method, noise].results]
            for method in self.methods
        }
        return {
            method: (sum(1 for run in found if lost_classes(run)), len(found))
            for method, found in runs.items()
            if found
        }

    @property
    def whole_columns(self) -> tuple[str, ...]:
        """Noises under which every method has a result."""
        return tuple(
            noise
            for noise in self.noises
            if all(self.cells[method, noise].ours is not None for method in self.methods)
        )

    def mean_rank(self, method: str) -> float | None:
        """Mean place of a method over the columns that every method has; None where there is no such column."""
        places = [self.cells[method, noise].rank for noise in self.whole_columns]
        known = [place for place in places if place is not None]
        return sum(known) / len(known) if known else None

    def values(self, method: str) -> dict[tuple[str, int], float]:
        """Accuracies of a method by noise and seed."""
        return {
            (noise, result.seed): result.score
            for noise in self.noises
            for result in self.cells[method, noise].results
        }

    def reference(self) -> str | None:
        """The method that others are compared with: the best by mean rank, or else by most columns won."""
        ranked = [(rank, method) for method in self.methods if (rank := self.mean_rank(method)) is not None]
        if ranked:
            return min(ranked, key=lambda each: each[0])[1]
        won = {
            method: sum(self.cells[method, noise].rank == 1 for noise in self.noises)
            for method in self.methods
        }
        best = max(won, key=lambda method: won[method], default=None)
        return best if best is not None and won[best] else None

    def comparisons(self, reference: str) -> dict[str, Comparison]:
        """Paired comparison of ``reference`` with every other method, over shared noises and seeds."""
        own = self.values(reference)
        found = {method: compare(own, self.values(method)) for method in self.methods if method != reference}
        return {method: comparison for method, comparison in found.items() if comparison is not None}

    def rules(self, with_published: bool = True) -> tuple[str, ...]:
        """What the numbers, colours and bold type mean, for the caption; without the paper's if it is not shown."""
        metrics = dict.fromkeys(result.metric for cell in self.cells.values() for result in cell.results)
        what = "; ".join(CELL_RULES[metric] for metric in metrics) or CELL_RULES["test_accuracy"]
        rules = [f"{what}: {SPREAD_RULE}"]
        if with_published and self.has_published:
            rules += [PUBLISHED_RULE, *self.agreement_in_words]
        if any(cell.is_bold for cell in self.cells.values()):
            rules.append(BOLD_RULE)
        elif not self.is_empty:
            rules.append("Nothing is bold: that takes at least two methods with three seeds or more.")
        return (*rules, *self.notes)


def _agreement(cells: Iterable[TableCell]) -> Agreement | None:
    cells = list(cells)
    both = ((cell.ours, cell.published) for cell in cells)
    pairs = [(ours, paper) for ours, paper in both if ours is not None and paper is not None]
    return agreement_of(pairs, sum(cell.verdict == "outside" for cell in cells))


def table_of(gathered: "Gathered") -> ResultTable:
    """Make the table of a grid's recorded runs."""
    return build_table(gathered.grid, gathered.results, notes_on(gathered))


def build_table(grid: "Grid", results: Iterable[Result], notes: Sequence[str] = ()) -> ResultTable:
    """Make a table of results that carry their method's label; methods and noises beyond the grid's come last."""
    by_cell: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_cell.setdefault((result.method, result.noise), []).append(result)
    methods = _in_order([method.label for method in grid.methods], (method for method, _ in by_cell))
    columns = {short_name(str(parse_name(noise))): grid.column(noise) for noise in grid.noises}
    noises = _in_order(list(columns), (noise for _, noise in by_cell))
    cells: dict[tuple[str, str], TableCell] = {}
    for noise in noises:
        column = {method: tuple(by_cell.get((method, noise), ())) for method in methods}
        summaries = {
            method: summarise([result.score for result in runs]) for method, runs in column.items() if runs
        }
        places = dict(zip(summaries, ranks([each.mean for each in summaries.values()]), strict=True))
        bold = _bold(column, summaries)
        for method in methods:
            cells[method, noise] = TableCell(
                method,
                noise,
                summaries.get(method),
                published(grid.published, method, columns.get(noise, noise)),
                column[method],
                places.get(method),
                method in bold,
            )
    return ResultTable(grid.name, grid.title, tuple(methods), tuple(noises), cells, tuple(notes))


def notes_on(gathered: "Gathered") -> tuple[str, ...]:
    """What is missing or out of the ordinary about a grid's recorded runs."""
    notes = []
    if settings := _other_settings(gathered.grid):
        notes.append(f"Settings that replace the grid's own: {settings}.")
    if gathered.missing:
        recorded = gathered.expected - gathered.missing
        notes.append(f"{recorded} of {gathered.expected} runs of the grid are recorded.")
    if gathered.failures:
        notes.append(f"{len(gathered.failures)} runs failed.")
    if gathered.other_config:
        notes.append(
            f"{gathered.other_config} runs were recorded with a config that differs from the grid's current one "
            "(another version or other settings); each run is shown with its own."
        )
    if (lost := note_on_lost_classes(gathered.results)) is not None:
        notes.append(lost)
    if gathered.left_out:
        notes.append(
            f"{gathered.left_out} records are not shown: they are of other data or other settings, or repeat a "
            "method, noise and seed."
        )
    return tuple(notes)


def _other_settings(grid: "Grid") -> str:
    """What was said over the grid's own settings, as far as it decides results."""
    from noiseproof.training.config import NOT_PART_OF_THE_RESULT

    said = {key: value for key, value in grid.overrides.items() if key not in NOT_PART_OF_THE_RESULT}
    return ", ".join(f"{key} = {value}" for key, value in said.items())


def _in_order(first: Sequence[str], others: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *others]))


def _bold(column: Mapping[str, Sequence[Result]], summaries: Mapping[str, Summary]) -> set[str]:
    """Methods in bold type: the best, and those that it is not shown to be better than."""
    candidates = [method for method, summary in summaries.items() if summary.n >= FEWEST_SEEDS_IN_BOLD]
    if len(candidates) < 2:
        return set()
    highest = max(summaries[method].mean for method in candidates)
    if any(summary.mean > highest + EQUAL for summary in summaries.values()):
        return set()  # fewer seeds stand higher: the best of the others is not the best of the column
    best = {method for method in candidates if summaries[method].mean >= highest - EQUAL}
    return best | {method for method in candidates if _is_not_beaten(method, best, column)}


def _is_not_beaten(method: str, best: Iterable[str], column: Mapping[str, Sequence[Result]]) -> bool:
    """Whether it shares enough seeds with one of the best to compare, and none of those is shown to be better."""
    own = _by_seed(column[method])
    found = [compare(_by_seed(column[each]), own) for each in best]
    compared = [each for each in found if each is not None and each.pairs >= FEWEST_SEEDS_IN_BOLD]
    return bool(compared) and not any(each.low > 0 for each in compared)


def _by_seed(results: Sequence[Result]) -> dict[tuple[str, int], float]:
    return {("", result.seed): result.score for result in results}
