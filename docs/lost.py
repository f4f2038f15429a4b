# SPDX-License-Identifier: Apache-2.0
"""The part of docs/reproduce.md on classes that runs give up: how many with each seed, early and at the end."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from words import wrapped

from noiseproof.results import Gathered, Result, lost_classes
from noiseproof.results.formats import markdown_text
from noiseproof.results.table import TableCell

GRID = "cifar10-lost-classes"
"""Many seeds of the first few epochs."""

INTRODUCTION = (
    "How many classes were lost after {epochs} epochs, seed by seed (1 to {seeds}); after an arrow, how many are "
    "lost at the end of the CIFAR-10 table's run of the same seed, where there is one. A dash means none."
)


Numbers = dict[tuple[str, str], dict[int, int]]
"""Of lost classes, by method and noise, then seed."""


def _by_cell(results: Iterable[Result]) -> Numbers:
    found: Numbers = {}
    for result in results:
        if result.predicted_marginals:
            found.setdefault((result.method, result.noise), {})[result.seed] = len(lost_classes(result))
    return found


def lost_section(gathered: Gathered, table: Iterable[Result]) -> list[str]:
    """Methods × noises, each with its seeds' numbers of lost classes.

    Args:
        gathered: runs of the grid of first epochs.
        table: runs to the end, of which those with the same method, noise and seed are named beside them.
    """
    early, late = _by_cell(gathered.results), _by_cell(table)
    methods = list(dict.fromkeys(method for method, _ in early))
    noises = list(dict.fromkeys(noise for _, noise in early))
    seeds = max(max(numbers) for numbers in early.values())
    epochs = gathered.results[0].config["epochs"]
    lines = [
        *wrapped(f"{INTRODUCTION.format(epochs=epochs, seeds=seeds)} {_still_lost(early, late)}".rstrip()),
        "",
        f"| method | {' | '.join(noises)} |",
        "|---" * (1 + len(noises)) + "|",
    ]
    for method in methods:
        cells = [_seeds(early.get((method, noise), {}), late.get((method, noise), {})) for noise in noises]
        lines.append(f"| {markdown_text(method)} | {' | '.join(cells)} |")
    return [*lines, ""]


def _still_lost(early: Numbers, late: Numbers) -> str:
    """Of the classes that were lost early in runs that went on to the end, how many came back, by method."""
    counts: dict[str, list[int]] = {}
    for place, numbers in early.items():
        for seed, number in numbers.items():
            if number and seed in late.get(place, {}):
                count = counts.setdefault(place[0], [0, 0])
                count[0] += min(number, late[place][seed])
                count[1] += number
    if not counts:
        return ""
    listed = ", ".join(f"{markdown_text(method)} {left} of {lost}" for method, (left, lost) in counts.items())
    return f"Still lost at the end: {listed}."


def _seeds(early: Mapping[int, int], late: Mapping[int, int]) -> str:
    words = []
    for seed, number in sorted(early.items()):
        if seed in late and (number or late[seed]):
            words.append(f"{number}→{late[seed]}")
        else:
            words.append(str(number or "–"))
    return ", ".join(words)


def by_seed_in_words(cells: Sequence[TableCell], gathered: Gathered | None) -> str:
    """How the seeds of these cells compare with others in the first epochs; empty where that is not on record."""
    if gathered is None:
        return ""
    early = _by_cell(gathered.results)
    said = []
    for cell in cells:
        numbers = early.get((cell.method, cell.noise), {})
        own = [numbers[result.seed] for result in cell.results if result.seed in numbers]
        if own:
            middle = f"{median(numbers.values()):g}"
            said.append(
                f"{markdown_text(cell.method)} at {cell.noise} {', '.join(map(str, own))} and {middle}"
            )
    if not said:
        return ""
    epochs, seeds = gathered.results[0].config["epochs"], len({run.seed for run in gathered.results})
    return (
        f"Classes [lost in the first {epochs} epochs](#{GRID}) with the seed of these runs, and in the median of "
        f"{seeds} seeds: {'; '.join(said)}."
    )
