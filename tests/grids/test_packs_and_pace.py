# SPDX-License-Identifier: Apache-2.0
"""Packs keep to one seed first; times are learnt from like runs."""

from dataclasses import replace

import pytest

from noiseproof.grids import load
from noiseproof.grids.pace import STARTING_SECONDS, Clock, in_words, pace_of, parse_duration
from noiseproof.grids.packs import next_pack, packs_of
from noiseproof.grids.states import CellState
from noiseproof.results import Curves, Result
from noiseproof.training.engine import _check_pack
from noiseproof.training.run_record import Progress, RunRecord


def waiting(name="cifar100-table", **narrowed):
    return [CellState(cell, "new") for cell in load(name).narrowed(**narrowed).cells()]


def test_packs_hold_every_cell_once_and_the_engine_takes_each():
    states = waiting()
    packs = packs_of(states, 12)
    assert sorted(id(state) for pack in packs for state in pack) == sorted(id(state) for state in states)
    for pack in packs:
        assert 1 <= len(pack) <= 12
        _check_pack([state.cell.config for state in pack])
        assert len({state.cell.noise == "real" for state in pack}) == 1, "human labels have data of their own"


def test_no_second_seed_begins_before_every_cell_has_its_first():
    order = [state.cell for pack in packs_of(waiting(), 7) for state in pack]
    first_of_second = next(i for i, cell in enumerate(order) if cell.seed == 2)
    places = {(cell.method.label, cell.noise) for cell in order[:first_of_second]}
    assert len(places) == 120
    last_of_first = max(i for i, cell in enumerate(order) if cell.seed == 1)
    # A pack that the first seed leaves half empty is filled up with the second.
    assert last_of_first - first_of_second < 7


def test_a_pack_is_cut_to_what_fits():
    states = waiting(noises=["sym-0.8"])
    assert len(next_pack(states, 12)) == 12
    assert len(next_pack(states, 12, lambda pack: len(pack) <= 5)) == 5
    assert next_pack(states, 12, lambda pack: False) == []
    assert next_pack([], 12) == []


def record(cell, seconds, ended, hardware="x86_64", **changes):
    config = replace(cell.config, **changes)
    return RunRecord(
        id=config.run_id,
        config=config.as_data(),
        config_hash=config.hash,
        status="finished",
        started="2026-01-01T00:00:00+00:00",
        ended=f"2026-01-01T{ended}+00:00",
        seconds=seconds,
        environment={"hardware": hardware},
        noise={},
        result={"test_accuracy": 50.0},
        error=None,
        progress=Progress(epochs=config.epochs),
    )


def test_the_pace_is_seconds_by_epochs():
    """Runs side by side on a GPU record their share of its time each, so that seconds add up."""
    assert pace_of([(1200.0, 120), (600.0, 60)]).seconds == pytest.approx(1800 / 180)
    assert pace_of([(1200.0, 120), (600.0, 60)]).runs == 2


def test_a_clock_knows_only_like_runs_of_this_hardware():
    states = waiting("cifar10-table", noises=["sym-0.8"], seeds=[1])
    pack, cell = states[:4], states[0].cell
    assert Clock([record(cell, 120.0, "01:00:00", hardware="H100")], "x86_64").seconds(pack) is None
    assert Clock([record(cell, 120.0, "01:00:00", precision="float32")], "x86_64").seconds(pack) is None
    assert Clock([record(cell, 120.0, "01:00:00", jacobian=0.1)], "x86_64").seconds(pack) is None
    assert (
        Clock([record(cell, 120.0, "01:00:00", freeze=True, weights="mine.pth")], "x86_64").seconds(pack)
        is None
    )
    clock = Clock([record(cell, 60.0, "01:00:00", epochs=60)], "x86_64")
    assert clock.seconds(pack) == pytest.approx(4 * 120 * 1.0 + STARTING_SECONDS)
    clock.measured(pack, 500.0)
    assert clock.seconds(pack) == pytest.approx(500.0)


def test_results_files_tell_the_pace_until_a_record_does():
    states = waiting("cifar10-table", noises=["sym-0.8"], seeds=[1])
    pack, config = states[:4], states[0].cell.config

    def line(seconds, **changes):
        said = {
            "config": config.as_data(),
            "environment": {"hardware": "x86_64"},
            "seconds": seconds,
        } | changes
        curves = Curves(test=(None,) * 119 + (50.0,))
        return Result("cifar10", "ce", "sym-0.8", 1, 50.0, config.hash, "CE", curves=curves, **said)

    clock = Clock([], "x86_64", results=[line(60.0)])
    assert clock.seconds(pack) == pytest.approx(4 * 60.0 + STARTING_SECONDS)
    clock.learn([record(states[0].cell, 30.0, "01:00:00")])
    assert clock.seconds(pack) == pytest.approx(4 * 30.0 + STARTING_SECONDS)
    for silent in (line(None), line(60.0, config={}), line(60.0, environment={"hardware": "H100"})):
        assert Clock([], "x86_64", results=[silent]).seconds(pack) is None


def test_processes_take_turns():
    states = waiting("cifar10-table", noises=["sym-0.8"], seeds=[1])
    clock = Clock([record(states[0].cell, 120.0, "01:00:00")], "x86_64", side_by_side=4)
    one, four, five = (clock.seconds(states[:size]) - STARTING_SECONDS for size in (1, 4, 5))
    assert (one, four, five) == pytest.approx((120.0, 120.0, 240.0))


def test_epochs_that_are_done_are_not_counted_again():
    (state,) = waiting("cifar10-table", methods=["ce"], noises=["sym-0.8"], seeds=[1])
    begun = replace(
        record(state.cell, 100.0, "01:00:00"), status="interrupted", progress=Progress(epochs=100)
    )
    assert state.epochs_left == 120
    assert CellState(state.cell, "begun", begun).epochs_left == 20


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("20m", 1200), ("1h30m", 5400), ("0.5h", 1800), (" 2D ", 172800)]
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["20", "20 minutes", "m", "", "-5m", "0s", "1h30"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="budget: expected"):
        parse_duration(text)


def test_durations_in_words():
    assert [in_words(s) for s in (0.2, 59, 60, 3599, 3600, 86_400, 90_000)] == [
        *("1 s", "59 s", "1 min", "1 h", "1 h", "1 d", "1 d 1 h")
    ]
