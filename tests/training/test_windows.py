# SPDX-License-Identifier: Apache-2.0
"""Batches in advance: whatever a window holds and whenever it was filled, the steps are the same."""

from dataclasses import replace

import pytest
import torch

from noiseproof.datasets.augment import RandomCropFlip
from noiseproof.training import resolve
from noiseproof.training.captured import SideBySide
from noiseproof.training.data import load_data
from noiseproof.training.run import Run
from noiseproof.training.windows import BLOCK, Filling, Window, steps_in_half

CPU = torch.device("cpu")
ONE_BLOCK = 1
"""A window of so few bytes has a block of steps in each half."""


def small(**changes):
    said = {
        "loss": "anl-ce",
        "noise": "sym-0.4",
        "epochs": 3,
        "device": "cpu",
        "train_size": 410,
        "batch_size": 4,
    }
    return resolve("digits", **(said | changes))


@pytest.fixture(scope="module")
def data():
    """With an augmentation, which digits have not: an epoch's draw must be its own."""
    loaded = load_data(small(), CPU)
    return replace(loaded, recipe=replace(loaded.recipe, train=(RandomCropFlip(padding=1),)))


def trained(data, window_bytes, configs):
    runs = [Run(config, data) for config in configs]
    way = SideBySide(runs, window_bytes)
    ends = []
    for _ in range(3):
        for _ in way.epoch():
            pass
        ends += way.end_epoch()
    return way, runs, [end.metrics() for end in ends]


def test_a_result_does_not_depend_on_how_much_a_window_holds(data):
    """103 steps an epoch: in four windows, the last of them with seven steps, or in one."""
    configs = [small(), small(loss="ce", seed=2)]
    narrow, in_parts, parts = trained(data, ONE_BLOCK, configs)
    wide, at_once, whole = trained(data, 1 << 30, configs)
    assert (narrow.half_steps, wide.half_steps) == (BLOCK, 4 * BLOCK)
    for first, second in zip(in_parts, at_once, strict=True):
        for name, value in first.model.state_dict().items():
            assert torch.equal(value, second.model.state_dict()[name]), name
    for first, second in zip(parts, whole, strict=True):
        assert first.keys() == second.keys()
        for key, value in first.items():
            assert value == pytest.approx(second[key], rel=1e-6), key


def test_every_epoch_but_the_first_is_filled_ahead(data, monkeypatch):
    begun = []
    usual = Filling.__init__

    def noted(self, windows, epochs, first_step, half, stream):
        begun.append((windows[0].run.epoch, epochs[0], first_step, half))
        usual(self, windows, epochs, first_step, half, stream)

    monkeypatch.setattr(Filling, "__init__", noted)
    trained(data, 1 << 30, [small()])
    # At the start its own; then during each epoch the next one's; after the last one nothing.
    assert begun == [(0, 0, 0, 0), (0, 1, 0, 1), (1, 2, 0, 0)]


def test_a_half_is_filled_evenly_and_holds_the_steps_that_it_is_asked_for(data):
    run = Run(small(), data)
    steps = steps_in_half([run], 1 << 30)
    at_once, bit_by_bit = Window(run, steps), Window(run, steps)
    for _ in at_once.fill(epoch=2, first_step=0, half=1):
        pass
    filling = Filling([bit_by_bit], (2,), 0, 1, None)
    assert filling.is_of((2,), 0, 1)
    assert not filling.is_of((1,), 0, 1)
    seen = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        filling.go_on(share)
        seen.append(int((bit_by_bit.images != 0).flatten(1).any(1).sum()))
    assert seen == [0, 128, 256, 384, 410]
    for name in ("images", "indices", "given"):
        assert torch.equal(getattr(bit_by_bit, name), getattr(at_once, name)), name
    assert not at_once.images[: len(at_once.images) // 2].any()


def test_a_run_stopped_between_two_windows_goes_on_with_the_right_steps(data):
    config = small()
    _, (whole,), _ = trained(data, ONE_BLOCK, [config])
    run = Run(config, data)
    way = SideBySide([run], ONE_BLOCK)
    for taken, _ in enumerate(way.epoch(), 1):
        if taken == BLOCK + 5:
            break
    way.pause()
    again = SideBySide([run], ONE_BLOCK)  # as if from a checkpoint
    for _ in range(3):
        for _ in again.epoch():
            pass
        again.end_epoch()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, run.model.state_dict()[name]), name
