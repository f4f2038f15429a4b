# SPDX-License-Identifier: Apache-2.0
"""The opening of docs/reproduce.md: what was rerun, how well it agrees with the paper, and what does not agree."""

from collections.abc import Iterable, Mapping, Sequence

from noiseproof.results import Gathered, lost_classes, table_of
from noiseproof.results.formats import NOTHING, markdown_text
from noiseproof.results.table import PUBLISHED_RULE, ResultTable, TableCell
from writers.evidence.lost import GRID as LOST_CLASSES
from writers.evidence.lost import TABLE as LOST_OF
from writers.evidence.lost import by_seed_in_words
from writers.words import wrapped

ON_LOST_CLASSES = (
    "Losses that are nearly linear in the predicted probability, such as MAE, hardly pull at samples whose class "
    "they find improbable. So a class that falls behind early may be given up for good; how many, depends on the "
    "noise and on the seed."
)

REASONS = {
    ("isic-table", 49): (
        "The data are not the paper's but [a stand-in](segmentation.md) at half the side length, and the "
        "hyperparameters of the losses are our own choice, since only the optimiser's are published. Under "
        "strong noise, GCE, MAE, SCE and APL lose less than in the paper, because our networks hardly learn wrong "
        "masks by heart, whatever the loss. In small runs they do [where the learning rate falls more slowly]"
        "(segmentation.md#learning-rate) than the paper states: these losses then drop nearly as the paper's do, "
        "and less than half as much with stronger L1, be it beside ANL-CE or cross-entropy. T-Loss is lower "
        "everywhere because [it is a likelihood of whole images](segmentation.md#t-loss), which costs it large "
        "lesions; why the paper's is not, we do not know."
    ),
}
"""What is known of the reason why a grid's cells do not agree, where its records do not say: by grid and number of
recorded runs, since with other runs it has to be looked at again."""


def summary(entries: Iterable[tuple[str, str]], gathered: Mapping[str, Gathered]) -> list[str]:
    """A table of what was rerun and how well it agrees, what was not run, and what does not agree.

    Args:
        entries: titles in the paper, and names of grids.
        gathered: the recorded runs of each grid that has any, be it one of the paper's or not.
    """
    entries = list(entries)
    tables = {title: table_of(gathered[name]) for title, name in entries if name in gathered}
    lines = [
        "| in the paper | runs recorded | our seeds | cells within the published spread | "
        "mean difference, points | half of the cells differ by at most |",
        "|---|---|---|---|---|---|",
        *(line for title, table in tables.items() for line in _rows(title, table, gathered[table.name])),
        "",
    ]
    if missing := [title for title, name in entries if name not in gathered]:
        lines += [*wrapped(f"**Not run yet**: {_listed(missing)}."), ""]
    lines += [*wrapped(PUBLISHED_RULE), ""]
    items = [item for title, table in tables.items() for item in _disagreement(title, table, gathered)]
    if items:
        lines += ["## What does not agree, and why", ""]
        lines += [line for item in items for line in wrapped(item, "* ")]
    return lines


def seeds_in_words(table: ResultTable) -> str:
    """How many seeds our cells have."""
    counts = [cell.ours.n for cell in table.cells.values() if cell.ours is not None]
    fewest, most = min(counts), max(counts)
    text = (
        f"{fewest} to {most} seeds per cell" if fewest < most else f"{most} seed{'s' * (most > 1)} per cell"
    )
    ones = counts.count(1)
    return f"{text} (only one in {ones} of {len(counts)})" if 0 < ones < len(counts) else text


def _listed(titles: Iterable[str]) -> str:
    """Titles by kind, tables first."""
    kinds: dict[str, list[str]] = {}
    for title in titles:
        kind, _, what = title.partition(": ")
        kinds.setdefault(kind.lower(), []).append(markdown_text(what))
    return "; ".join(f"the {kind}s {', '.join(each)}" for kind, each in kinds.items())


def _rows(title: str, table: ResultTable, found: Gathered) -> list[str]:
    """A grid's agreement, without the cells in which a run lost a class, and in cells of more than one seed."""
    link = f"[{found.expected - found.missing} of {found.expected}](#{table.name})"
    cells = [markdown_text(title), link, seeds_in_words(table)]
    whole, kept = table.agreement, table.agreement_where_classes_are_kept
    within, judged = table.verdicts
    if whole is None:
        agreeing = f"{within} of {judged}" if judged else "no published numbers"
        return [f"| {' | '.join([*cells, agreeing, NOTHING, NOTHING])} |"]
    rows = [(cells, whole)]
    if kept is not None and kept.cells < whole.cells:
        without = f"the same without {whole.cells - kept.cells} cells in which a run of ours lost a class"
        rows.append(([without, "", ""], kept))
    if (repeated := table.agreement_of_repeated_cells) is not None and repeated.cells < whole.cells:
        of = [
            method
            for method in table.methods
            if any(_is_repeated(table.cells[method, n]) for n in table.noises)
        ]
        named = ", ".join(map(markdown_text, of))
        rows.append(([f"only the {repeated.cells} cells with more than one seed: {named}", "", ""], repeated))
    return [
        f"| {' | '.join(first)} | {each.cells - each.outside} of {each.cells} | "
        f"{each.difference:+.2f} ± {each.standard_error:.2f} | {each.distance:.2f} |"
        for first, each in rows
    ]


def _is_repeated(cell: TableCell) -> bool:
    return len(cell.results) > 1


def _disagreement(title: str, table: ResultTable, gathered: Mapping[str, Gathered]) -> list[str]:
    """What is outside the published spread, apart by whether a run of ours lost a class."""
    whole, kept = table.agreement, table.agreement_where_classes_are_kept
    outside = [cell for cell in table.cells.values() if cell.verdict == "outside"]
    if whole is None or not outside:
        return []
    name = markdown_text(title.partition(": ")[2])
    losing = [cell for cell in outside if any(map(lost_classes, cell.results))]
    others = [cell for cell in outside if cell not in losing]
    items = []
    first_epochs = gathered.get(LOST_CLASSES) if table.name == LOST_OF else None
    if losing:
        losing.sort(key=_distance, reverse=True)
        items.append(
            f"**{name}, {len(losing)} cells outside the spread in which one of our runs lost a class**, which "
            f"costs up to its share of the test set: {', '.join(map(_with_difference, losing))}. "
            f"{ON_LOST_CLASSES} {by_seed_in_words(losing, first_epochs)}"
        )
    if others:
        by_chance = (kept or whole).by_chance
        items.append(
            f"**{name}, {len(others)} {'other ' if losing else ''}cells outside the spread**, off by "
            f"{_range(others)} points{_alone(others)} ([listed below](#{table.name})). By chance it would be "
            f"{by_chance:.1f} cells, since deviations of a few seeds are uncertain themselves. "
            + " ".join(
                filter(
                    None, [_by_method(table) if not losing else "", REASONS.get((table.name, _runs(table)))]
                )
            )
        )
    return [item.rstrip() for item in items]


def _runs(table: ResultTable) -> int:
    return sum(len(cell.results) for cell in table.cells.values())


def _alone(cells: Sequence[TableCell]) -> str:
    repeated = [cell for cell in cells if _is_repeated(cell)]
    if not repeated:
        return ", all with one seed"
    named = " and ".join(f"{markdown_text(cell.method)} at {cell.noise}" for cell in repeated)
    return f", all but {named} with one seed" if len(repeated) < len(cells) else ""


def _range(cells: Iterable[TableCell]) -> str:
    distances = sorted(map(_distance, cells))
    return f"{distances[0]:.2f} to {distances[-1]:.2f}"


def _distance(cell: TableCell) -> float:
    return abs(cell.difference or 0.0)


def _with_difference(cell: TableCell) -> str:
    return f"{markdown_text(cell.method)} at {cell.noise} ({cell.difference:+.2f}; allowed ± {cell.tolerance:.2f})"


def _by_method(table: ResultTable) -> str:
    """How many of each method's cells are within the published spread, the most first."""
    counts = []
    for method in table.methods:
        verdicts = [table.cells[method, noise].verdict for noise in table.noises]
        judged = [verdict for verdict in verdicts if verdict is not None]
        if judged:
            counts.append((judged.count("within"), len(judged), method))
    counts.sort(key=lambda each: -each[0])
    listed = (f"{markdown_text(method)} {within} of {judged}" for within, judged, method in counts)
    return f"Cells within it, by method: {', '.join(listed)}."
