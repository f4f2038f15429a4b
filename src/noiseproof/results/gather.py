# SPDX-License-Identifier: Apache-2.0
"""Which recorded runs belong to a grid: found in a runs folder, in results files, or both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseproof.noise import short_name
from noiseproof.results.records_file import read_records
from noiseproof.results.result import Result, result_of_record

if TYPE_CHECKING:
    from noiseproof.grids import Cell, Grid


Key = tuple[str, str, int]
"""Label of a method, short name of a noise, and seed: a place in a table."""


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
        other_configs: places of results whose config is not what the grid says now.
        left_out: lines of files that are not shown: other data, other settings than were asked for or than those
            of the cell's other runs, or a second run of the same cell.
        folder: the runs folder that was looked in, if any: runs keep more there than records.
    """

    grid: "Grid"
    results: tuple[Result, ...]
    failures: tuple[Failure, ...] = ()
    expected: int = 0
    missing: int = 0
    other_configs: frozenset[Key] = frozenset()
    left_out: int = 0
    folder: Path | None = None

    @property
    def other_config(self) -> int:
        """How many of the results have a config that is not what the grid says now."""
        return sum((each.method, each.noise, each.seed) in self.other_configs for each in self.results)

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


def gather(
    grid: "Grid", *, folder: Path | None = None, files: Sequence[Path] = (), own_only: bool = False
) -> Gathered:
    """Find the runs of a grid.

    In a runs folder a cell's run is the finished one with its config's hash. A line of a file is found by its hash
    too, or else by method, noise and seed: a published result stays one when a later version of the package knows
    more settings. Where a method has a run with its own config under a noise, whatever the seed, no line with
    another config stands beside it, and settings that replace the grid's own must stand in a line's config too:
    their mean would be one of different experiments. Where file and folder have a run, the file's counts.

    Args:
        grid: what is looked for.
        folder: a runs folder; None looks in none.
        files: results files.
        own_only: leave out whatever is not the run of a cell, by its hash.
    """
    cells = grid.cells()
    by_hash = {cell.config.hash: cell for cell in cells}
    lines = _each_once(result for path in files for result in read_records(path))
    if own_only:
        lines = [line for line in lines if line.config_hash in by_hash]
    found, near = _from_lines(grid, cells, lines)
    failures: list[Failure] = []
    left_out = len(lines) - len(found)
    if folder is not None:
        waiting = [cell for cell in cells if _key(cell) not in found]
        stored, failures = _from_store(folder, waiting)
        found |= stored
    alike = {key[:2] for key in found}
    near = {key: result for key, result in near.items() if key[:2] not in alike}
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
        other_configs=frozenset(key for key in near if key[:2] in {_pair(cell) for cell in cells}),
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


def _pair(cell: "Cell") -> tuple[str, str]:
    return cell.method.label, short_name(cell.config.noise)


def _key(cell: "Cell") -> Key:
    return *_pair(cell), cell.seed


def _from_lines(
    grid: "Grid", cells: "Sequence[Cell]", lines: Iterable[Result]
) -> tuple[dict[Key, Result], dict[Key, Result]]:
    """Lines with the config of a cell, with any seed, and others on the same data by the place they would have."""
    by_hash = {cell.config.hash: cell for cell in cells}
    by_pair = {_pair(cell): cell for cell in cells}
    found: dict[Key, Result] = {}
    others: dict[Key, Result] = {}
    for result in lines:
        cell = by_hash.get(result.config_hash)
        if cell is not None:
            found.setdefault(_key(cell), replace(result, method=cell.method.label))
        elif result.dataset == grid.dataset:
            label = _label(grid, result)
            key = label, result.noise, result.seed
            place = by_pair.get(key[:2])
            if place is not None and _is_another_seed_of(place, result):
                found.setdefault(key, replace(result, method=label))
                continue
            known = others.get(key)
            if (known is None or (known.variant is not None and result.variant is None)) and _has_settings(
                result, grid.overrides, place or cells[0]
            ):
                others[key] = replace(result, method=label)
    return found, {key: result for key, result in others.items() if key not in found}


def _is_another_seed_of(cell: "Cell", result: Result) -> bool:
    """Whether a line has a cell's config but for the seed, which a part of a grid may leave out."""
    try:
        return replace(cell.config, seed=result.seed).hash == result.config_hash
    except ValueError:  # a seed that no run can have
        return False


def _has_settings(result: Result, said: Mapping[str, Any], cell: "Cell") -> bool:
    """Whether a line was trained with what was said in place of the grid's settings, as the cell resolves it."""
    from noiseproof.training.config import NOT_PART_OF_THE_RESULT

    wanted = cell.config.as_data()
    for key, value in said.items():
        if key in NOT_PART_OF_THE_RESULT:
            continue
        has = result.config.get(key)
        if isinstance(value, Mapping):
            if not isinstance(has, Mapping) or any(has.get(name) != value[name] for name in value):
                return False
        elif has != wanted.get(key):
            return False
    return True


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
