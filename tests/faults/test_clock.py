# SPDX-License-Identifier: Apache-2.0
"""A wall clock that jumps: only dates in records follow it; durations, order and results do not."""

import datetime as dates
import itertools
import re
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import noiseproof
from noiseproof.training import resolve, run_lock, train
from noiseproof.training import store as store_room
from noiseproof.training.store import Store

JUMPS = (0, 86_400, -86_400, 3_600, -7_200, 30 * 365 * 86_400, -20 * 365 * 86_400)


@pytest.fixture
def mad_clock(monkeypatch):
    """Every look at the wall clock jumps, forwards or back."""
    usual, jumps, looks = time.time, itertools.cycle(JUMPS), []

    def now():
        looks.append(1)
        return usual() + next(jumps)

    class Jumping(dates.datetime):
        @classmethod
        def now(cls, tz=None):
            return dates.datetime.fromtimestamp(now(), tz)

    monkeypatch.setattr(time, "time", now)
    monkeypatch.setattr(time, "time_ns", lambda: int(now() * 1e9))
    monkeypatch.setattr(store_room, "datetime", Jumping)
    monkeypatch.setattr(run_lock, "datetime", Jumping)
    return looks


def config(seed=1):
    return resolve("digits", noise="sym-0.4", epochs=3, device="cpu", train_size=300, seed=seed)


def test_results_durations_and_order_do_not_follow_the_clock(tmp_path, mad_clock, monkeypatch):
    began = time.monotonic()
    for seed in range(1, 8):  # as many as there are jumps
        train(config(seed), folder=tmp_path / "mad", quiet=True)
    took = time.monotonic() - began
    assert len(mad_clock) >= 3 * 7, "nobody looked at the clock: nothing was tested"
    monkeypatch.undo()
    with Store(tmp_path / "mad") as store:
        records = store.runs()
        assert [record.config["seed"] for record in records] == list(range(7, 0, -1)), "newest first"
        starts = [dates.datetime.fromisoformat(record.started) for record in reversed(records)]
        assert starts != sorted(starts), "the dates did jump"
        assert all(0 < record.seconds < took for record in records)
        assert sum(record.seconds for record in records) < took
        for record in records:
            assert all(epoch["seconds"] > 0 for epoch in store.get(record.id).epochs)
    for seed in (1, 2, 3):
        train(config(seed), folder=tmp_path / "sane", quiet=True)
        mad, sane = (
            load_file(tmp_path / place / config(seed).run_id / "weights.safetensors")
            for place in ("mad", "sane")
        )
        assert all(torch.equal(tensor, sane[name]) for name, tensor in mad.items())


def test_a_lock_is_neither_kept_nor_lost_by_the_clock(tmp_path, mad_clock):
    for _ in range(len(JUMPS)):
        with run_lock.locked(tmp_path, "digits-s1"):
            assert run_lock.holder(tmp_path, "digits-s1").is_this_process
            with pytest.raises(run_lock.RunIsLocked), run_lock.locked(tmp_path, "digits-s1"):
                pass
        assert run_lock.holder(tmp_path, "digits-s1") is None


def test_nothing_in_training_measures_with_the_wall_clock():
    """Durations and deadlines come from clocks that only go forwards."""
    source = Path(noiseproof.__file__).parent
    files = [path for room in ("training", "datasets", "grids") for path in (source / room).rglob("*.py")]
    assert len(files) > 50
    found = [
        path
        for path in files
        if re.search(r"\btime\.time(_ns)?\(|from time import .*\btime\b", path.read_text())
    ]
    assert found == []
