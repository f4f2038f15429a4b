# SPDX-License-Identifier: Apache-2.0
"""The part of docs/reproduce.md on classes that runs give up: how many with each seed, early and at the end."""

from collections.abc import Iterable, Mapping, Sequence

from noiseproof.results import Gathered, Result, lost_classes
from noiseproof.results.formats import NOTHING, markdown_text
from noiseproof.results.table import ResultTable, TableCell
from writers.words import wrapped

GRID = "cifar10-lost-classes"
"""Many seeds of the first few epochs."""

TABLE = "cifar10-table"
"""The same runs to their end."""

FEWEST_SEEDS = 5
"""Seeds from which on something is said of how many lose a class."""

BAD_LUCK, NONE_EARLY, BY_RULE, UNKNOWN = (
    "Few of them lose a class, so that ours may be bad luck",
    "None of them does",
    "Many of them do, so that luck explains little",
    "Not tried",
)

INTRODUCTION = (
    "How many classes were lost after {epochs} epochs with seeds {seeds}; after an arrow, how many are lost at the "
    f"end of the run of `{TABLE}` with the same seed, where there is one. A dash means none, a question mark a run "
    "that is not recorded."
)

Lost = dict[tuple[str, str], dict[int, tuple[str, ...]]]
"""Names of lost classes, by method and noise, then seed."""


def _by_cell(results: Iterable[Result]) -> Lost:
    found: Lost = {}
    for result in results:
        if result.predicted_marginals:
            found.setdefault((result.method, result.noise), {})[result.seed] = lost_classes(result)
    return found


def lost_section(gathered: Gathered, table: Iterable[Result]) -> list[str]:
    """Methods × noises, each with its seeds' numbers of lost classes; nothing if no predictions are recorded.

    Args:
        gathered: runs of the grid of first epochs.
        table: runs to the end, of which those with the same method, noise and seed are named beside them.
    """
    early, late = _by_cell(gathered.results), _by_cell(table)
    if not early:
        return []
    methods = list(dict.fromkeys(method for method, _ in early))
    noises = list(dict.fromkeys(noise for _, noise in early))
    seeds = sorted({seed for by_seed in early.values() for seed in by_seed})
    epochs = gathered.results[0].config["epochs"]
    said = INTRODUCTION.format(epochs=epochs, seeds=", ".join(map(str, seeds)))
    lines = [
        *wrapped(" ".join(filter(None, [said, _still_lost(early, late), _otherwise(early)]))),
        "",
        f"| method | {' | '.join(noises)} |",
        "|---" * (1 + len(noises)) + "|",
    ]
    for method in methods:
        places = [(method, noise) for noise in noises]
        cells = [_in_order(seeds, early.get(place, {}), late.get(place, {})) for place in places]
        lines.append(f"| {markdown_text(method)} | {' | '.join(cells)} |")
    return [*lines, ""]


def _still_lost(early: Lost, late: Lost) -> str:
    """Of the classes that were lost early in runs that went on to the end, how many were lost there, by method."""
    counts: dict[str, list[int]] = {}
    for place, by_seed in early.items():
        for seed, names in by_seed.items():
            if names and seed in late.get(place, {}):
                count = counts.setdefault(place[0], [0, 0])
                count[0] += len(set(names) & set(late[place][seed]))
                count[1] += len(names)
    if not counts:
        return ""
    listed = ", ".join(f"{markdown_text(method)} {left} of {lost}" for method, (left, lost) in counts.items())
    return f"Of the same classes still lost at the end: {listed}."


def _otherwise(early: Lost) -> str:
    """How many classes the same runs lose with other settings: methods whose label begins with another's."""
    said = []
    for (method, noise), by_seed in early.items():
        others = {
            other: runs
            for (other, where), runs in early.items()
            if where == noise and other.startswith(f"{method} ") and runs.keys() & by_seed.keys()
        }
        for seed in sorted(by_seed):
            counts = [f"{len(runs[seed])} as “{other}”" for other, runs in others.items() if seed in runs]
            if counts:
                said.append(
                    f"{markdown_text(method)} at {noise} with seed {seed} loses {len(by_seed[seed])}, "
                    + " and ".join(map(markdown_text, counts))
                )
    return f"With other settings: {'; '.join(said)}." if said else ""


def _in_order(
    seeds: Iterable[int], early: Mapping[int, tuple[str, ...]], late: Mapping[int, tuple[str, ...]]
) -> str:
    words = []
    for seed in seeds:
        if seed not in early:
            words.append("?")
        elif seed in late and (early[seed] or late[seed]):
            words.append(f"{len(early[seed])}→{len(late[seed])}")
        else:
            words.append(str(len(early[seed]) or "–"))
    return ", ".join(words)


def by_seed_in_words(cells: Sequence[TableCell], gathered: Gathered | None) -> str:
    """Whether the seed may explain that our runs of these cells lost a class; empty without any to tell by.

    Args:
        cells: of the table whose first epochs the grid has.
        gathered: runs of the grid of first epochs, if there are any.
    """
    if gathered is None:
        return ""
    early = _by_cell(gathered.results)
    told: dict[str, list[str]] = {words: [] for words in (BAD_LUCK, NONE_EARLY, BY_RULE, UNKNOWN)}
    for cell in cells:
        name = f"{markdown_text(cell.method)} at {cell.noise}"
        numbers = [len(names) for names in early.get((cell.method, cell.noise), {}).values()]
        losing, of = sum(1 for number in numbers if number), len(numbers)
        if of < FEWEST_SEEDS:
            above = (
                " (above the paper, whose own runs may have lost more)" if (cell.difference or 0) > 0 else ""
            )
            told[UNKNOWN].append(f"{name}{above}")
        elif not losing:
            told[NONE_EARLY].append(name)
        elif losing <= of / 4:
            told[BAD_LUCK].append(f"{name} ({losing} of {of})")
        else:
            told[BY_RULE].append(f"{name} ({losing} of {of}, {min(numbers)} to {max(numbers)} classes)")
    if not any(names for words, names in told.items() if words != UNKNOWN):
        return ""
    epochs = gathered.results[0].config["epochs"]
    said = ". ".join(f"{words}: {' and '.join(names)}" for words, names in told.items() if names)
    return f"Other seeds were tried for [the first {epochs} epochs](#{GRID}). {said}."


def lost_by_method(table: ResultTable) -> list[str]:
    """How many runs of each method lost a class; nothing if none did."""
    counts = table.lost_by_method
    if not any(losing for losing, _ in counts.values()):
        return []
    return [
        "#### Runs that lost a class, by method",
        "",
        "| method | runs | lost a class | under |",
        "|---|---|---|---|",
        *(
            f"| {markdown_text(method)} | {of} | {losing or 'none'} | {_losing_under(table, method)} |"
            for method, (losing, of) in counts.items()
        ),
        "",
    ]


def _losing_under(table: ResultTable, method: str) -> str:
    """Noises under which a run of a method lost a class."""
    noises = (noise for noise in table.noises if any(map(lost_classes, table.cells[method, noise].results)))
    return ", ".join(noises) or NOTHING
