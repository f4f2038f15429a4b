# SPDX-License-Identifier: Apache-2.0
"""How far each cell of a grid has come, read from the run store."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from noiseproof.grids.grid import Cell
from noiseproof.training.run_lock import holder
from noiseproof.training.run_record import RunRecord
from noiseproof.training.store import Store

CellStatus = Literal["new", "begun", "at work", "failed", "finished"]


@dataclass(frozen=True)
class CellState:
    """One cell and what is recorded of it.

    Attributes:
        cell: the cell.
        status: ``"new"``, ``"begun"`` (stopped, goes on from its checkpoint), ``"at work"`` (another process has
            it), ``"failed"`` or ``"finished"``.
        record: its record without epochs; None where there is none.
    """

    cell: Cell
    status: CellStatus
    record: RunRecord | None = None

    @property
    def epochs_left(self) -> int:
        """Epochs that are still to be trained, by the record."""
        if self.status == "finished":
            return 0
        done = self.record.progress.epochs if self.record is not None and self.status == "begun" else 0
        return max(1, self.cell.config.epochs - done)


def states_of(cells: Sequence[Cell], store: Store) -> list[CellState]:
    """Look every cell up in the store, in one reading."""
    recorded: dict[str, RunRecord] = {}
    for dataset in {cell.config.dataset for cell in cells}:
        for record in store.runs(dataset=dataset):  # newest first
            known = recorded.get(record.config_hash)
            if known is None or (record.status == "finished" and known.status != "finished"):
                recorded[record.config_hash] = record
    return [CellState(cell, *_status(cell, recorded.get(cell.config.hash), store)) for cell in cells]


def with_status(states: Iterable[CellState], *wanted: CellStatus) -> list[CellState]:
    """Those states that have one of the statuses."""
    return [state for state in states if state.status in wanted]


def _status(cell: Cell, record: RunRecord | None, store: Store) -> tuple[CellStatus, RunRecord | None]:
    if record is not None and record.status == "finished":
        return "finished", record
    if store.folder.exists() and holder(store.folder, cell.config.run_id) is not None:
        return "at work", record
    if record is None:
        return "new", None
    return ("failed" if record.status == "failed" else "begun"), record
