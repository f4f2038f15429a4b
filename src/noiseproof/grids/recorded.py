# SPDX-License-Identifier: Apache-2.0
"""Runs of a grid in results files: what stands in one counts as trained, wherever its folder went."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from noiseproof.grids.grid import Cell, Grid
from noiseproof.grids.states import CellState, states_of
from noiseproof.results import Result, read_records, result_of_record, write_results
from noiseproof.training.run_record import RunRecord
from noiseproof.training.store import Store


class Recorded:
    """What results files hold of some cells of a grid, and the file that is added to.

    Args:
        grid: whose cells they are.
        cells: those that are asked for.
        file: results file that finished runs are added to; need not be there yet. None adds to none.
        others: results files that are only read, such as those of other grids with some of the same runs.

    Attributes:
        lines: everything that the files hold, whatever it belongs to, newest first.

    Raises:
        ValueError: a line of a file is no result.
        OSError: a file of ``others`` is not there, or ``file`` cannot be written when there is something to add.
    """

    def __init__(
        self, grid: Grid, cells: Sequence[Cell], file: Path | None, others: Sequence[Path] = ()
    ) -> None:
        self.file = file
        self._names = {cell.config.hash: (cell.method.label, grid.variant(cell.method)) for cell in cells}
        own = read_records(file) if file is not None and file.exists() else []
        read = [result for path in others for result in read_records(path)]
        self.lines = [*reversed(own), *reversed(read)]
        self._in_file = {result.config_hash for result in own}
        self._hashes = {result.config_hash for result in self.lines} & self._names.keys()
        self._add(result for result in read if result.config_hash in self._names)

    def has(self, cell: Cell) -> bool:
        """Whether a file has the run of a cell."""
        return cell.config.hash in self._hashes

    def state_of(self, cell: Cell) -> CellState:
        """How a cell stands that a file has."""
        return CellState(cell, "finished")

    def states_of(self, cells: Sequence[Cell], store: Store) -> list[CellState]:
        """How cells stand, by the files, or else by the run store."""
        left = iter(states_of([cell for cell in cells if not self.has(cell)], store))
        return [self.state_of(cell) if self.has(cell) else next(left) for cell in cells]

    def add(self, records: Iterable[RunRecord]) -> None:
        """Add finished runs, with their epochs, to the file; lines that it has stay as they are."""
        self._add(result_of_record(record) for record in records)

    def _add(self, results: Iterable[Result]) -> None:
        if self.file is None:
            return
        new = {}
        for result in results:
            if result.config_hash not in self._in_file and result.config_hash not in new:
                label, variant = self._names[result.config_hash]
                new[result.config_hash] = replace(result, method=label, variant=variant)
        if new:
            write_results(self.file, new.values())
            self._in_file.update(new)

    def require_writable(self) -> None:
        """Fail before anything is trained if the file takes no lines.

        Raises:
            OSError: it cannot be written.
        """
        if self.file is not None:
            write_results(self.file, ())
