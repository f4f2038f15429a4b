# SPDX-License-Identifier: Apache-2.0
"""One flipped bit in the records: noticed, or without effect; and a store from before there were checksums."""

import contextlib
import random
import shutil
import sqlite3

import pytest
from tests.stopping import StopAfter

from noiseproof.training import Interrupted, resolve, train
from noiseproof.training import engine as engine_module
from noiseproof.training.store import DamagedStoreError, Store, StoreError

RUNS, EPOCHS = 6, 5


def fill(folder):
    with Store(folder) as store:
        for number in range(RUNS):
            run_id, config = (
                f"digits-s{number}",
                {"dataset": "digits", "loss": "ce", "noise": "clean", "lr": number / 7},
            )
            store.begin(run_id, config, f"{number:064x}", {"torch": "2.13"}, {"rate": 0.4})
            for epoch in range(EPOCHS):
                store.record_epoch(
                    run_id, epoch, {"test_accuracy": 90 + epoch + number / 10, "many": [0.5] * 40}, 1.0
                )
            if number % 2:
                store.finish(run_id, {"test_accuracy": 94 + number / 10})


def everything(folder):
    """All that can be asked of a store but by config, where a damaged index may hide a run: it is trained again."""
    with Store(folder) as store:
        listed = store.runs()
        each = [store.get(record.id) for record in listed]
        return (
            listed,
            each,
            [store.runs(status="finished"), store.runs(loss="ce", limit=3), store.runs(noise="x")],
        )


def flip_often(tmp_path, flips, seed):
    fill(tmp_path / "good")
    right, good = everything(tmp_path / "good"), (tmp_path / "good" / "runs.sqlite").read_bytes()
    rng = random.Random(seed)
    outcomes = {"refused": 0, "without effect": 0}
    for number in range(flips):
        folder = tmp_path / str(number)
        folder.mkdir()
        content = bytearray(good)
        place = rng.randrange(len(content))
        content[place] ^= 1 << rng.randrange(8)
        (folder / "runs.sqlite").write_bytes(content)
        try:
            assert everything(folder) == right, f"byte {place} made other records"
            outcomes["without effect"] += 1
        except StoreError:
            outcomes["refused"] += 1
        with (
            Store(folder) as store,
            contextlib.suppress(StoreError),
        ):  # what is found by config is that config's
            assert all(record.config_hash == f"{1:064x}" for record in store.find(f"{1:064x}", status=None))
    return outcomes


def test_two_hundred_flipped_bits(tmp_path):
    outcomes = flip_often(tmp_path, 200, seed=0)
    assert outcomes["refused"] > 60, outcomes


@pytest.mark.slow
def test_five_thousand_flipped_bits(tmp_path):
    print(flip_often(tmp_path, 5000, seed=1))


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE runs SET result = replace(result, '94.1', '97.1')",
        "UPDATE runs SET status = 'finished'",
        "UPDATE runs SET best_accuracy = 99.9",
        "UPDATE runs SET loss = 'gce'",
        "UPDATE epochs SET metrics = replace(metrics, '90', '91')",
        "UPDATE epochs SET test_accuracy = 99",
        "DELETE FROM epochs WHERE epoch = 2",
    ],
)
def test_changes_that_sqlite_cannot_notice(tmp_path, damage):
    fill(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection:
        connection.execute(damage)
        connection.commit()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with pytest.raises(DamagedStoreError, match=r"is damaged \(run 'digits-s\d'.*Put back a copy of it"):
        everything(tmp_path)
    with Store(tmp_path) as store:  # nor is anything added to what is damaged
        refused = 0
        for number in range(RUNS):
            try:
                store.begin(f"digits-s{number}", {}, f"{number:064x}", {}, {})
            except DamagedStoreError:
                refused += 1
    assert refused > 0


def make_old(folder):
    """Bring a store back to the schema without checksums."""
    with contextlib.closing(sqlite3.connect(folder / "runs.sqlite")) as connection:
        for table in ("runs", "epochs"):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()


def test_a_store_without_checksums_is_read_and_gets_them_when_it_is_written_to(tmp_path):
    fill(tmp_path)
    right = everything(tmp_path)
    make_old(tmp_path)
    before = (tmp_path / "runs.sqlite").read_bytes()
    assert everything(tmp_path) == right
    assert (tmp_path / "runs.sqlite").read_bytes() == before, "reading changes nothing"
    with Store(tmp_path) as store:
        assert len(store.runs()) == RUNS  # the same connection reads first, and then writes
        store.record_epoch("digits-s0", EPOCHS, {"test_accuracy": 50.0}, 1.0)
        store.interrupt("digits-s0")
        assert store.get("digits-s0").progress.epochs == EPOCHS + 1
        assert store.get("digits-s1") == right[1][-2]
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM runs WHERE checksum IS NULL").fetchone() == (0,)
        connection.execute("UPDATE runs SET status = 'finished' WHERE id = 'digits-s0'")
        connection.commit()
    with Store(tmp_path) as store, pytest.raises(DamagedStoreError, match="digits-s0"):
        store.runs()


def test_two_connections_one_of_which_was_open_before_the_checksums_came(tmp_path):
    fill(tmp_path)
    make_old(tmp_path)
    with Store(tmp_path) as one, Store(tmp_path) as other:
        assert len(one.runs()) == len(other.runs()) == RUNS
        one.interrupt("digits-s0")
        other.interrupt("digits-s2")
        assert [each.status for each in one.runs()] == [each.status for each in other.runs()]


def test_a_checkpoint_whose_epochs_are_not_on_record_is_not_gone_on_from(tmp_path, monkeypatch):
    """As when a damaged store was moved away: the result would have been that of the last epochs only."""
    config = resolve("digits", epochs=4, device="cpu", train_size=300)
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(12))
        with pytest.raises(Interrupted):
            train(config, folder=tmp_path, quiet=True)
    for path in tmp_path.glob("runs.sqlite*"):
        path.rename(tmp_path / f"away-{path.name}")
    with pytest.raises(
        StoreError, match=r"checkpoint stands after epoch 2, .* knows of 0 .*remove .*checkpoint\.pt"
    ):
        train(config, folder=tmp_path, quiet=True)
    (tmp_path / config.run_id / "checkpoint.pt").unlink()
    assert len(train(config, folder=tmp_path, quiet=True).epochs) == 4


def test_forty_flipped_bits_in_the_log_of_a_run_that_was_killed(tmp_path, monkeypatch):
    """SQLite drops what stands after a damaged place in its log: epochs that were finished, and it says nothing."""
    config = resolve("digits", epochs=4, device="cpu", train_size=300)
    right = train(config, folder=tmp_path / "whole", quiet=True)
    with Store(tmp_path / "runs") as keeps_the_log:
        keeps_the_log.begin("other", {}, "3f2a", {}, {})
        with monkeypatch.context() as patch:
            patch.setattr(engine_module, "Interruption", lambda: StopAfter(12))
            with pytest.raises(Interrupted):
                train(config, folder=tmp_path / "runs", quiet=True)
        shutil.copytree(tmp_path / "runs", tmp_path / "killed")
    good = (tmp_path / "killed" / "runs.sqlite-wal").read_bytes()
    rng = random.Random(0)
    outcomes = {"refused": 0, "as ever": 0}
    for number in range(40):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "killed", folder)
        content = bytearray(good)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        (folder / "runs.sqlite-wal").write_bytes(content)
        try:
            found = train(config, folder=folder, quiet=True)
        except StoreError:
            outcomes["refused"] += 1
            continue
        assert found.result == right.result
        assert [epoch["loss"] for epoch in found.epochs] == [epoch["loss"] for epoch in right.epochs]
        outcomes["as ever"] += 1
    assert outcomes["refused"] > 10, outcomes
