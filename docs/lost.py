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
    """Whether the seed may explain that our runs of these cells lost a class; empty without any to tell by.

    It may where most seeds lose none in the first epochs, and cannot where most lose some.
    """
    if gathered is None:
        return ""
    early = _by_cell(gathered.results)
    by_luck, by_rule, unknown = [], [], []
    for cell in cells:
        name = f"{markdown_text(cell.method)} at {cell.noise}"
        numbers = list(early.get((cell.method, cell.noise), {}).values())
        if not numbers:
            above = (
                " (above the paper, whose own runs must have lost more)" if (cell.difference or 0) > 0 else ""
            )
            unknown.append(f"{name}{above}")
            continue
        losing = sum(1 for number in numbers if number)
        if median(numbers) == 0:
            by_luck.append(f"{name} ({losing} of {len(numbers)} seeds)")
        else:
            by_rule.append(f"{name} ({losing} of {len(numbers)}, {min(numbers)} to {max(numbers)} classes)")
    if not by_luck and not by_rule:
        return ""
    epochs = gathered.results[0].config["epochs"]
    said = []
    if by_luck:
        said.append(f"The seed may explain those where few seeds lose one: {' and '.join(by_luck)}")
    if by_rule:
        said.append(f"The seed does not explain those where most do: {' and '.join(by_rule)}")
    if unknown:
        said.append(f"Not looked into: {' and '.join(unknown)}")
    return f"Many seeds were tried for [the first {epochs} epochs](#{GRID}). {'. '.join(said)}."
