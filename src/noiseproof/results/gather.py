# SPDX-License-Identifier: Apache-2.0
"""Which recorded runs belong to a grid: found in a runs folder, in results files, or both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from noiseproof.noise import short_name
from noiseproof.results.records_file import read_records
from noiseproof.results.result import Result, result_of_record

if TYPE_CHECKING:
    from noiseproof.grids import Cell, Grid


@dataclass(frozen=True)
class Failure:
    """A cell that was tried and broke off, and why."""

    method: str
    noise: str
    seed: int
    run: str
    error: str


@dataclass(frozen=True)
class Gathered:
    """The recorded runs of a grid.

    Attributes:
        grid: the grid.
        results: its finished runs, each with its method's label, in the grid's order; runs of methods, noises or
            seeds that the grid does not have (now) come after them.
        failures: cells without a result that broke off.
        expected: cells of the grid.
        missing: cells without a result.
        other_config: results found by method, noise and seed whose config is not what the grid says now.
        left_out: lines of files that are not shown: other data, or a second run of the same cell.
        folder: the runs folder that was looked in, if any: runs keep more there than records.
    """

    grid: "Grid"
    results: tuple[Result, ...]
    failures: tuple[Failure, ...] = ()
    expected: int = 0
    missing: int = 0
    other_config: int = 0
    left_out: int = 0
    folder: Path | None = None

    def only_of_the_grid(
        self, *, methods: bool = False, noises: bool = False, seeds: bool = False
    ) -> "Gathered":
        """Without runs of methods, noises or seeds that the grid does not have, which are shown otherwise."""
        labels = {method.label for method in self.grid.methods}
        names = {short_name(noise) for noise in self.grid.noises}
        pairs = {(method.label, short_name(noise)) for method, noise in self.grid.pairs}
        kept = [
            each
            for each in self.results
            if (not methods or each.method in labels)
            and (not noises or each.noise in names)
            and (not (methods and noises) or (each.method, each.noise) in pairs)
            and (not seeds or each.seed in self.grid.seeds)
        ]
        return replace(self, results=tuple(kept))


def gather(grid: "Grid", *, folder: Path | None = None, files: Sequence[Path] = ()) -> Gathered:
    """Find the runs of a grid.

    In a runs folder a cell's run is the finished one with its config's hash. A line of a file is found by its hash
    too, or else by method, noise and seed: a published result stays one when a later version of the package knows
    more settings. A run with the cell's own config counts before a line with another one; where file and folder
    have it, the file's does.

    Args:
        grid: what is looked for.
        folder: a runs folder; None looks in none.
        files: results files.
    """
    cells = grid.cells()
    by_hash = {cell.config.hash: cell for cell in cells}
    lines = _each_once(result for path in files for result in read_records(path))
    found, near = _from_lines(grid, by_hash, lines)
    failures: list[Failure] = []
    left_out = len(lines) - len(found)
    if folder is not None:
        waiting = [cell for cell in cells if _key(cell) not in found]
        stored, failures = _from_store(folder, waiting)
        found |= stored
    near = {key: result for key, result in near.items() if key not in found}
    other_config = _count_in_grid(grid, by_hash, near)
    failures = [each for each in failures if (each.method, each.noise, each.seed) not in near]
    found |= near
    ordered = [found[_key(cell)] for cell in cells if _key(cell) in found]
    known = {_key(cell) for cell in cells}
    return Gathered(
        grid=grid,
        results=(*ordered, *(result for key, result in found.items() if key not in known)),
        failures=tuple(failures),
        expected=len(cells),
        missing=len(cells) - len(ordered),
        other_config=other_config,
        left_out=left_out - len(near),
        folder=folder,
    )


def _each_once(lines: Iterable[Result]) -> list[Result]:
    """Lines without the copies that a file has of another's, as after parts of a grid were put together."""
    kept: list[Result] = []
    seen: dict[str, list[Result]] = {}
    for result in lines:
        same = seen.setdefault(result.config_hash, [])
        if result not in same:
            same.append(result)
            kept.append(result)
    return kept


Key = tuple[str, str, int]


def _key(cell: "Cell") -> Key:
    return cell.method.label, short_name(cell.config.noise), cell.seed


def _from_lines(
    grid: "Grid", by_hash: "dict[str, Cell]", lines: Iterable[Result]
) -> tuple[dict[Key, Result], dict[Key, Result]]:
    """Lines with the config of a cell, and others on the same data by the place that they would have."""
    found: dict[Key, Result] = {}
    others: dict[Key, Result] = {}
    for result in lines:
        cell = by_hash.get(result.config_hash)
        if cell is not None:
            found.setdefault(_key(cell), replace(result, method=cell.method.label))
        elif result.dataset == grid.dataset:
            label = _label(grid, result)
            key = label, result.noise, result.seed
            known = others.get(key)
            if known is None or (known.variant is not None and result.variant is None):
                others[key] = replace(result, method=label)
    return found, {key: result for key, result in others.items() if key not in found}


def _count_in_grid(grid: "Grid", by_hash: "dict[str, Cell]", near: Iterable[Key]) -> int:
    pairs = {(cell.method.label, short_name(cell.config.noise)) for cell in by_hash.values()}
    return sum((label, noise) in pairs and seed in grid.seeds for label, noise, seed in near)


def _label(grid: "Grid", result: Result) -> str:
    """The grid's label for a line: its method's, or that of the only method with its loss, or its own."""
    for method in grid.methods:
        if method.label.casefold() == result.method.casefold():
            return method.label
    if result.method == result.loss:  # a line that names no method
        same_loss = [method.label for method in grid.methods if method.loss == result.loss]
        if len(same_loss) == 1:
            return same_loss[0]
    return result.method


def _from_store(folder: Path, cells: "Sequence[Cell]") -> tuple[dict[Key, Result], list[Failure]]:
    from noiseproof.training.store import Store

    found: dict[Key, Result] = {}
    failures = []
    with Store(folder) as store:
        for cell in cells:
            label, noise, seed = _key(cell)
            runs = store.find(cell.config.hash, status=None)
            finished = [run for run in runs if run.status == "finished"]
            if finished:
                found[label, noise, seed] = result_of_record(store.get(finished[0].id), label)
            elif runs and runs[0].status == "failed":
                failures.append(
                    Failure(label, noise, seed, runs[0].id, runs[0].error or "no reason on record")
                )
    return found, failures
