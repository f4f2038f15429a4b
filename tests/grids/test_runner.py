# SPDX-License-Identifier: Apache-2.0
"""Training a grid: recorded runs are skipped, stopped ones go on, failed ones are kept, time is kept."""

import signal
import threading
import time
from dataclasses import replace

import pytest
from tests import warm

from noiseproof import datasets, models
from noiseproof.grids.display import Silence
from noiseproof.grids.runner import run_cells
from noiseproof.results import result_of_record
from noiseproof.training import train_pack
from noiseproof.training.run_lock import locked
from noiseproof.training.store import Store


class Notes(Silence):
    """Keeps what is told."""

    def __init__(self):
        self.packs, self.lines, self.endings = [], [], []

    def pack(self, size, epochs, seconds_left):
        self.packs.append((size, epochs, seconds_left))

    def ended(self, text):
        self.endings.append(text)

    def say(self, text):
        self.lines.append(text)


def statuses(outcome):
    return [state.status for state in outcome.states]


def when_ended(folder):
    with Store(folder) as store:
        return {record.id: (record.ended, record.seconds) for record in store.runs()}


def test_a_grid_equals_its_runs_alone_and_is_not_trained_again(small, tmp_path):
    cells, notes, came = small().cells(), Notes(), []
    first = run_cells(cells, folder=tmp_path / "grid", processes=1, display=notes, finished=came.extend)
    assert statuses(first) == ["finished"] * 4
    assert (first.trained, first.stopped) == (4, None)
    assert [size for size, _, _ in notes.packs] == [4], "cells that share data and network are one pack"
    assert len(notes.endings) == 4
    assert notes.endings[0].startswith("CE, clean, seed 1: ")
    assert sorted(record.id for record in came) == sorted(cell.config.run_id for cell in cells)
    assert all(len(record.epochs) == 2 for record in came), "with their epochs"
    for cell, state in zip(cells, first.states, strict=True):
        (alone,) = train_pack([cell.config], folder=tmp_path / "alone", quiet=True)
        assert alone.result == state.record.result

    before, notes = when_ended(tmp_path / "grid"), Notes()
    second = run_cells(cells, folder=tmp_path / "grid", processes=1, display=notes)
    assert (second.trained, notes.packs) == (0, [])
    assert when_ended(tmp_path / "grid") == before


def test_only_what_is_missing_is_trained(small, tmp_path):
    run_cells(small(seeds=[1]).cells(), folder=tmp_path, processes=1)
    notes = Notes()
    outcome = run_cells(small(seeds=[1, 2]).cells(), folder=tmp_path, processes=1, display=notes)
    assert (outcome.trained, [size for size, _, _ in notes.packs]) == (4, [4])


def test_packs_are_no_larger_than_asked(small, tmp_path):
    notes = Notes()
    run_cells(small(seeds=[1, 2]).cells(), folder=tmp_path, largest_pack=3, processes=1, display=notes)
    assert [size for size, _, _ in notes.packs] == [3, 3, 2]
    assert notes.packs[0][2] is None, "nothing is known of the time yet"
    assert notes.packs[1][2] > 0


def test_processes_share_a_pack_out(small, tmp_path, monkeypatch):
    warm.for_packs(monkeypatch)
    outcome = run_cells(small().cells(), folder=tmp_path, processes=2)
    assert statuses(outcome) == ["finished"] * 4


def test_ctrl_c_loses_nothing_and_the_grid_goes_on(small, tmp_path):
    cells = small(["ce"], ["clean"], [1, 2], epochs=40).cells()

    def press():
        while not list(tmp_path.glob("*/checkpoint.pt")):
            time.sleep(0.02)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    outcome = run_cells(cells, folder=tmp_path, processes=1)
    assert outcome.stopped == "interrupted"
    assert "begun" in statuses(outcome)
    with Store(tmp_path) as store:
        begun = next(store.get(s.record.id) for s in outcome.states if s.status == "begun" and s.record)
    outcome = run_cells(cells, folder=tmp_path, processes=1)
    assert (outcome.stopped, statuses(outcome)) == (None, ["finished"] * 2)
    with Store(tmp_path) as store:
        assert store.get(begun.id).epochs[: len(begun.epochs)] == begun.epochs
    whole = run_cells(cells[:1], folder=tmp_path / "whole", processes=1)
    assert whole.states[0].record.result == outcome.states[0].record.result


def test_ctrl_c_while_data_is_loaded_stops_too(small, tmp_path, monkeypatch):
    def press(name, *more, **options):
        signal.raise_signal(signal.SIGTERM)
        return usual(name, *more, **options)

    usual = datasets.load
    monkeypatch.setattr(datasets, "load", press)
    outcome = run_cells(small().cells(), folder=tmp_path, processes=1)
    assert (outcome.stopped, statuses(outcome)) == ("interrupted", ["new"] * 4)


def test_a_failed_cell_is_kept_with_its_error_and_retried_on_request_only(small, tmp_path):
    weights = tmp_path / "start.safetensors"
    grid = small(["ce"], ["clean", "sym-0.4"])
    cells = [
        *grid.cells(),
        *grid.narrowed(noises=["clean"], settings={"weights": str(weights)}).cells(),
        *grid.narrowed(noises=["clean"], settings={"learning_rate": 1e30, "clip_norm": 0.0}).cells(),
    ]
    notes = Notes()
    outcome = run_cells(cells, folder=tmp_path / "runs", processes=1, display=notes)
    assert statuses(outcome) == ["finished", "finished", "failed", "failed"]
    assert "start.safetensors" in outcome.states[2].record.error
    assert "not a finite number" in outcome.states[3].record.error
    assert sum("failed: " in text for text in notes.endings) == 2
    assert len(notes.endings) == 4

    again = run_cells(cells, folder=tmp_path / "runs", processes=1, display=(notes := Notes()))
    assert (again.trained, notes.packs, statuses(again)) == (0, [], statuses(outcome))

    network = models.create("mlp", 10, in_channels=1, image_size=8, batch_norm=True)
    models.save_weights(network, weights)
    retried = run_cells(cells, folder=tmp_path / "runs", processes=1, retry_failed=True)
    assert statuses(retried) == ["finished", "finished", "finished", "failed"]
    assert retried.trained == 1


def test_a_run_in_other_hands_is_left_to_them(small, tmp_path):
    cells = small().cells()
    with locked(tmp_path, cells[1].config.run_id):
        outcome = run_cells(cells, folder=tmp_path, processes=1)
    assert statuses(outcome) == ["finished", "at work", "finished", "finished"]
    assert statuses(run_cells(cells, folder=tmp_path, processes=1)) == ["finished"] * 4


def test_a_pack_that_cannot_end_in_time_is_not_started(small, tmp_path):
    run_cells(small(seeds=[1]).cells(), folder=tmp_path, processes=1)
    cells, notes = small(seeds=[1, 2]).cells(), Notes()
    outcome = run_cells(cells, folder=tmp_path, processes=1, budget=0.5, display=notes)
    assert (outcome.stopped, outcome.trained, notes.packs) == ("budget", 0, [])
    assert outcome.count("new") == 4
    outcome = run_cells(cells, folder=tmp_path, processes=1, budget=600.0)
    assert (outcome.stopped, outcome.trained) == (None, 4)


def test_a_pack_that_takes_longer_than_thought_is_stopped_at_the_deadline(small, tmp_path):
    cells = small(["ce"], ["clean"], [1, 2], epochs=5000).cells()
    epochs = []
    for _ in range(2):
        started = time.monotonic()
        outcome = run_cells(cells, folder=tmp_path, processes=1, budget=3.0)
        assert 2.5 < time.monotonic() - started < 15
        assert outcome.stopped == "budget"
        assert outcome.states[0].status == "begun"
        assert outcome.states[1].status == "new", "where no pace is known, one tells"
        epochs.append(outcome.states[0].record.progress.epochs)
    assert 0 < epochs[0] < epochs[1] < 5000


def test_whole_packs_are_begun_and_go_on_where_a_time_to_stop_is_given(small, tmp_path, monkeypatch):
    """Unlike with a budget: nothing has to end in time, so that packs are as large as they can be."""
    monkeypatch.setattr("noiseproof.grids.pace.STARTING_SECONDS", 0.1)
    cells, notes = small(["ce"], ["clean"], [1, 2], epochs=400).cells(), Notes()
    stopped = run_cells(cells, folder=tmp_path, processes=1, stop_after=2.0, display=notes)
    assert notes.packs[0][0] == 2, "a budget begins one, where no pace is known"
    assert stopped.stopped in ("budget", None)
    outcome = run_cells(cells, folder=tmp_path, processes=1)
    assert statuses(outcome) == ["finished"] * 2
    for cell, state in zip(cells, outcome.states, strict=True):
        (alone,) = train_pack([cell.config], folder=tmp_path / "alone", quiet=True)
        assert alone.result == state.record.result


def test_no_pack_is_begun_that_would_be_stopped_at_once(small, tmp_path):
    notes = Notes()
    outcome = run_cells(small().cells(), folder=tmp_path, processes=1, stop_after=1.0, display=notes)
    assert (outcome.stopped, outcome.trained, notes.packs) == ("budget", 0, [])


def test_a_budget_and_a_time_to_stop_exclude_each_other(small, tmp_path):
    with pytest.raises(ValueError, match="budget and stop_after: expected one of them"):
        run_cells(small().cells(), folder=tmp_path, budget=60.0, stop_after=60.0)


def test_another_grids_results_file_tells_the_pace_of_the_first_pack(small, tmp_path):
    run_cells(small(["ce"], ["clean"], [3], epochs=4).cells(), folder=tmp_path / "before", processes=1)
    with Store(tmp_path / "before") as store:
        lines = [result_of_record(store.get(record.id)) for record in store.runs()]
    cells = small(["ce"], ["clean", "sym-0.4"], [1]).cells()
    for timed, packs in (((), [1, 1]), (lines, [2])):
        notes = Notes()
        folder = tmp_path / f"with {len(timed)} lines"
        outcome = run_cells(cells, folder=folder, processes=1, budget=600.0, display=notes, timed=timed)
        assert (outcome.trained, [size for size, _, _ in notes.packs]) == (2, packs)


def test_a_run_longer_than_the_whole_budget_comes_nearer_its_end_each_time(small, tmp_path, monkeypatch):
    """Or it would never be begun: its pace is known and it never fits."""
    monkeypatch.setattr("noiseproof.grids.pace.STARTING_SECONDS", 0.5)
    cells = small(["ce"], ["clean"], [1, 2], epochs=5000).cells()
    # A run that tells the pace.
    run_cells(small(["ce"], ["clean"], [3], epochs=100).cells(), folder=tmp_path, processes=1)
    epochs = [0]
    for _ in range(2):
        outcome = run_cells(cells, folder=tmp_path, processes=1, budget=2.5)
        assert outcome.stopped == "budget"
        assert [state.status for state in outcome.states] == ["begun", "new"]
        epochs.append(outcome.states[0].record.progress.epochs)
    assert epochs[0] < epochs[1] < epochs[2] < 5000


def test_the_first_pack_is_smaller_where_it_starts_slowly(small, tmp_path, monkeypatch):
    """As on a GPU: what would end in time later on would now be stopped half-way."""
    run_cells(small(["ce"], ["clean"], [3]).cells(), folder=tmp_path / "before", processes=1)
    with Store(tmp_path / "before") as store:
        lines = [replace(result_of_record(store.get(each.id)), seconds=100.0) for each in store.runs()]
    cells = small(["ce"], ["clean", "sym-0.4"], [1]).cells()
    for more, packs in ((0.0, [2]), (50.0, [1, 1])):
        monkeypatch.setattr("noiseproof.grids.runner.first_costs_more", lambda cell, more=more: more)
        notes, folder = Notes(), tmp_path / f"{more} s more"
        outcome = run_cells(cells, folder=folder, processes=1, budget=220.0, display=notes, timed=lines)
        assert (outcome.trained, [size for size, _, _ in notes.packs]) == (2, packs)


def test_data_that_is_not_there_is_told_before_anything_is_recorded(tmp_path, monkeypatch):
    from noiseproof.grids import load

    monkeypatch.setenv("NOISEPROOF_DATA", str(tmp_path / "none"))
    cells = load("fashion-table").narrowed(["ce"], ["sym-0.4"], [1], {"device": "cpu"}).cells()
    with pytest.raises(datasets.DataError, match="fashion-mnist"):
        run_cells(cells, folder=tmp_path, processes=1)
    with Store(tmp_path) as store:
        assert store.runs() == []
