# SPDX-License-Identifier: Apache-2.0
"""Records and files of runs between two runs folders: out to whoever trains them, and back."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from noiseproof.grids.states import CellState
from noiseproof.training.run_record import RunRecord
from noiseproof.training.store import Store

RESULT_FILES = ("weights.safetensors", "model.json")
"""What a finished run leaves for its user."""


def copy_record(record: RunRecord, store: Store) -> None:
    """Write a record, with its epochs, into another store; one that is finished there stays as it is.

    The store dates runs itself, so the copy is dated now; when the run began and ended where it was trained stands
    in its environment under ``"elsewhere"``.
    """
    if store.find(record.config_hash):
        return
    environment = {**record.environment, "elsewhere": {"started": record.started, "ended": record.ended}}
    store.begin(record.id, record.config, record.config_hash, environment, record.noise)
    for epoch in record.epochs:
        store.record_epoch(record.id, epoch["epoch"], epoch, epoch["seconds"])
    if record.status == "finished":
        store.finish(record.id, record.result or {})
    elif record.status == "failed":
        store.fail(record.id, record.error or "")
    else:
        store.interrupt(record.id)


def hand_out(states: Sequence[CellState], folder: Path, place: Path) -> None:
    """Move runs that have a checkpoint, with what is recorded of them, to the place where they go on."""
    with Store(folder) as here, Store(place) as there:
        for state in states:
            run_id = state.cell.config.run_id
            if state.record is not None and (folder / run_id / "checkpoint.pt").exists():
                copy_record(here.get(run_id), there)
                (place / run_id).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(folder / run_id, place / run_id)


def take_back(place: Path, folder: Path) -> None:
    """Bring back what a place holds and the folder has not finished, and clear the place."""
    if not place.is_dir():
        return
    with Store(folder) as here, Store(place) as there:
        for listed in there.runs():
            if here.find(listed.config_hash):
                continue
            copy_record(there.get(listed.id), here)
            if (place / listed.id).is_dir():
                shutil.rmtree(folder / listed.id, ignore_errors=True)
                shutil.move(place / listed.id, folder / listed.id)
    shutil.rmtree(place, ignore_errors=True)


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a run; each is there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        temporary = folder / f".{name}.partial"
        temporary.write_bytes(content)
        temporary.replace(folder / name)
