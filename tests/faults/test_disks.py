# SPDX-License-Identifier: Apache-2.0
"""Disks that are full or may not be written: an error that says what to do, and nothing lost when there is room."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from tests.disks import largest_file, read_only, room_left, small_disk

from noiseproof.training import resolve, train
from noiseproof.training.predict import load_trained
from noiseproof.training.store import Store, StoreError

ROOM = 320 << 10
"""Bytes that a run of the config below has enough of, SQLite's log and unfinished files included."""


def config():
    return resolve(
        "digits", noise="sym-0.4", epochs=3, device="cpu", train_size=200, model_options={"hidden": [64]}
    )


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """What comes out where there is room."""
    folder = tmp_path_factory.mktemp("right")
    return train(config(), folder=folder, quiet=True), weights_of(folder)


def weights_of(folder):
    return load_file(folder / config().run_id / "weights.safetensors")


def same_as(right, folder):
    record, weights = right
    with Store(folder) as store:
        found = store.get(record.id)
    assert (found.status, found.result) == ("finished", record.result)
    assert [without_time(epoch) for epoch in found.epochs] == [without_time(epoch) for epoch in record.epochs]
    assert all(torch.equal(tensor, weights[name]) for name, tensor in weights_of(folder).items())
    assert load_trained(folder / record.id).shape == (1, 8, 8)
    return True


def without_time(epoch):
    return {name: value for name, value in epoch.items() if name != "seconds"}


def epochs_on_record(folder):
    if not (folder / "runs.sqlite").exists():
        return ()
    with Store(folder) as store:
        return tuple(epoch for record in store.runs() for epoch in store.get(record.id).epochs)


def what_is_said(folder):
    """Train where there may be too little room; return the error's text, or nothing."""
    try:
        train(config(), folder=folder, quiet=True)
    except (OSError, StoreError) as error:
        return str(error)
    return ""


def says_what_to_do(text):
    return any(words in text for words in ("make room", "Make room", "disk is full; change that"))


@pytest.fixture(name="small_disk")
def disk_of_4_mb(tmp_path):
    with small_disk(tmp_path / "disk") as folder:
        yield folder


def fill_and_train(disk, right, tries):
    """Leave ever more room; every try fails in words or ends well, and goes on well when there is room."""
    failed = 0
    for number in range(tries):
        runs = disk / f"runs-{number}"
        with room_left(disk, number * ROOM // tries):
            said = what_is_said(runs)
        if said:
            assert says_what_to_do(said), said
            failed += 1
        kept = epochs_on_record(runs)
        train(config(), folder=runs, quiet=True)
        assert same_as(right, runs)
        assert epochs_on_record(runs)[: len(kept)][:-1] == kept[:-1], "what was on record is not done again"
        assert not list(runs.rglob("*.part*")), "nothing unfinished is left"
        subprocess.run(["rm", "-r", str(runs)], check=True)
    return failed


def test_a_really_full_disk_at_twelve_degrees_of_fullness(small_disk, right):
    assert fill_and_train(small_disk, right, 12) >= 4


@pytest.mark.slow
def test_a_really_full_disk_at_a_hundred_and_fifty_degrees_of_fullness(small_disk, right):
    print(f"{fill_and_train(small_disk, right, 150)} of 150 failed, in words")


@pytest.mark.parametrize("size", [0, 1000, 5000, 10_000, 30_000, 50_000])
def test_a_system_that_takes_no_more_bytes(tmp_path, right, size):
    """As a full disk, for all who may not mount one."""
    with largest_file(size), pytest.raises((OSError, StoreError)) as caught:
        train(config(), folder=tmp_path, quiet=True)
    assert any(words in str(caught.value) for words in ("make room", "Make room", "is full", "too large")), (
        caught
    )
    train(config(), folder=tmp_path, quiet=True)
    assert same_as(right, tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other ideas of read-only folders")
class TestReadOnly:
    def test_training_says_so_and_goes_on_elsewhere(self, tmp_path, right):
        folder = tmp_path / "runs"
        folder.mkdir()
        with read_only(folder):
            with pytest.raises((OSError, StoreError), match="read-only.*--folder or NOISEPROOF_RUNS"):
                train(config(), folder=folder, quiet=True)
            with pytest.raises((OSError, StoreError), match="--folder or NOISEPROOF_RUNS"):
                train(config(), folder=folder / "deeper", quiet=True)
        assert list(folder.iterdir()) == []
        train(config(), folder=folder, quiet=True)
        assert same_as(right, folder)

    def test_what_is_finished_can_be_used(self, tmp_path, right):
        folder = tmp_path / "runs"
        train(config(), folder=folder, quiet=True)
        with read_only(folder):
            assert train(config(), folder=folder, quiet=True).result == right[0].result  # trained before
            assert same_as(right, folder)

    def test_a_damaged_or_missing_disk_below_the_run_keeps_its_records(self, tmp_path, right, monkeypatch):
        """The disk refuses the weights at the very end: the run is not called finished, and goes on."""
        from noiseproof import models

        def refuse(*_):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(models, "save_weights", refuse)
        with pytest.raises(
            OSError, match=r"cannot keep the weights.*its epochs are recorded.*train --resume digits"
        ):
            train(config(), folder=tmp_path, quiet=True)
        with Store(tmp_path) as store:
            record = store.get(config().run_id)
            assert (record.status, len(record.epochs)) == ("running", 3)
        monkeypatch.undo()
        train(config(), folder=tmp_path, quiet=True)
        assert same_as(right, tmp_path)
