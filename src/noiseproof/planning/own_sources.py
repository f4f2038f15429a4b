# SPDX-License-Identifier: Apache-2.0
"""What a rule of the planner may rest on besides the paper: runs of our own, and tables measured on pages."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import ClassVar

LITTLE_DATA = "docs/performance/little-data.jsonl"
"""Written by benchmarks/little_data.py."""

PHOTOGRAPHS = "docs/performance/pretrained.jsonl"
"""Written by benchmarks/pretrained.py."""


@dataclass(frozen=True)
class Recorded:
    """Runs on record, of which the first ones are better in the mean than the others.

    Attributes:
        what: what was compared.
        better: config hashes of the runs that speak for the rule.
        worse: those of what they are compared with.
        means: test accuracy of both in percent, to a tenth.
    """

    what: str
    better: tuple[str, ...]
    worse: tuple[str, ...]
    means: tuple[float, float]

    file = "docs/performance/tuning-rules.jsonl"

    def __str__(self) -> str:
        return f"{self.file}, {self.what}: {self.means[0]:.1f} against {self.means[1]:.1f}"

    def trouble(self, root: Path) -> str | None:
        """See whether the runs are on record, and what they came to."""
        from noiseproof.results import read_records

        scores = {each.config_hash: each.score for each in read_records(root / self.file)}
        missing = [each for each in (*self.better, *self.worse) if each not in scores]
        if missing:
            return f"{self.file} has no {', '.join(missing)}"
        found = tuple(round(mean(scores[each] for each in group), 1) for group in (self.better, self.worse))
        if found != self.means:
            return f"{self.file}, {self.what}: {found}, not {self.means}"
        return None if found[0] > found[1] else f"not so: {self}"


@dataclass(frozen=True)
class Measured:
    """Two settings of a measurement on record, of which the first is better in the mean over tables and seeds.

    Attributes:
        what: the comparison, as in the file ``docs/performance/tuning-estimator.jsonl``.
        better: the setting that speaks for the rule.
        worse: the other one.
        means: accuracy of both in percent, to a tenth.
    """

    what: str
    better: str
    worse: str
    means: tuple[float, float]

    file = "docs/performance/tuning-estimator.jsonl"

    def __str__(self) -> str:
        better, worse = self.means
        return f"{self.file}, {self.what}: {self.better} {better:.1f}, {self.worse} {worse:.1f}"

    def trouble(self, root: Path) -> str | None:
        """See whether the file says so."""
        lines = [json.loads(line) for line in (root / self.file).read_text().splitlines()]
        scores = {
            setting: [
                x
                for each in lines
                if (each["what"], each["setting"]) == (self.what, setting)
                for x in each["accuracies"]
            ]
            for setting in (self.better, self.worse)
        }
        if not all(scores.values()):
            return f"{self.file} has no {self.what} with {self.better} and {self.worse}"
        found = tuple(round(mean(scores[each]), 1) for each in (self.better, self.worse))
        if found != self.means:
            return f"{self.file}, {self.what}: {found}, not {self.means}"
        return None if found[0] > found[1] else f"not so: {self}"


@dataclass(frozen=True)
class LittleData:
    """Two settings of training on little data, of which the first is better in the mean over their common seeds.

    Attributes:
        data: the set and its size, as in :attr:`file`.
        loss: what was trained with.
        better: the setting that speaks for the rule.
        worse: the other one.
        means: accuracy or Dice of both in percent, to a tenth.
    """

    data: str
    loss: str
    better: str
    worse: str
    means: tuple[float, float]

    file: ClassVar[str] = LITTLE_DATA

    def __str__(self) -> str:
        better, worse = self.means
        return f"{self.file}, {self.data}, {self.loss}: {self.better} {better:.1f}, {self.worse} {worse:.1f}"

    def trouble(self, root: Path) -> str | None:
        """See whether the file says so."""
        return _trouble_with_pairs(
            self, root, self.data, (self.loss, self.better), (self.loss, self.worse), self.means
        )


class Photographs(LittleData):
    """The same on photographs, where "planned" starts from ImageNet's weights."""

    file = PHOTOGRAPHS


@dataclass(frozen=True)
class LittleDataLosses:
    """Two losses on little data, each as it is planned, of which the first is better in the mean over common seeds.

    Attributes:
        data: the set and its size, as in :attr:`file`.
        better: the loss that speaks for the rule.
        worse: the other one.
        means: accuracy of both in percent, to a tenth.
    """

    data: str
    better: str
    worse: str
    means: tuple[float, float]

    file: ClassVar[str] = LITTLE_DATA

    def __str__(self) -> str:
        better, worse = self.means
        return f"{self.file}, {self.data}: {self.better} {better:.1f}, {self.worse} {worse:.1f}"

    def trouble(self, root: Path) -> str | None:
        """See whether the file says so."""
        return _trouble_with_pairs(
            self, root, self.data, (self.better, "planned"), (self.worse, "planned"), self.means
        )


class PhotographsLosses(LittleDataLosses):
    """The same on photographs, with a network that starts from ImageNet's weights."""

    file = PHOTOGRAPHS


def _trouble_with_pairs(
    source: LittleData | LittleDataLosses,
    root: Path,
    data: str,
    better: tuple[str, str],
    worse: tuple[str, str],
    means: tuple[float, float],
) -> str | None:
    """Compare two pairs of loss and setting in the file of a source."""
    scores: dict[tuple[str, str], dict[int, float]] = {better: {}, worse: {}}
    for line in (root / source.file).read_text().splitlines():
        each = json.loads(line)
        pair = each["loss"], each["setting"]
        if each["set"] == data and pair in scores:
            scores[pair][each["seed"]] = each["score"]
    seeds = scores[better].keys() & scores[worse].keys()
    if not seeds:
        return f"{source.file} has no {data} with {better} and {worse} of one seed"
    found = tuple(round(mean(scores[pair][seed] for seed in seeds), 1) for pair in (better, worse))
    if found != means:
        return f"{source.file}, {data}, {better} and {worse}: {found}, not {means}"
    return None if found[0] > found[1] else f"not so: {source}"


@dataclass(frozen=True)
class PageRow:
    """A row of a measured table in a page of the documentation, no better than the row ``automatic``.

    Attributes:
        row: its first cell.
        values: its other cells.
    """

    row: str
    values: tuple[float, ...]

    page = "docs/sklearn.md"

    def __str__(self) -> str:
        return f"{self.page}, {self.row}: {', '.join(map(str, self.values))}"

    def trouble(self, root: Path) -> str | None:
        """See whether the page has the row, and whether the automatic numbers are at least as good in the mean."""
        text = (root / self.page).read_text()
        automatic = _cells(text, "automatic")
        found = _cells(text, self.row)
        if not found or found != self.values:
            return f"{self.page}: the row {self.row!r} is {found}, not {self.values}"
        return None if mean(automatic) >= mean(found) else f"not so: automatic {automatic}, {self}"


def _cells(text: str, row: str) -> tuple[float, ...]:
    match = re.search(rf"^\| {re.escape(row)} \|((?: [\d.]+ \|)+)$", text, re.M)
    return tuple(float(cell) for cell in match[1].split("|") if cell.strip()) if match else ()
