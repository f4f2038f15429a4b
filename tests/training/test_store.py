# SPDX-License-Identifier: Apache-2.0
"""The run store: what goes in comes out, in order, under the right name."""

import dataclasses
import math
import os
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from noiseproof.training.run_names import MAX_ID_BYTES, checked_run_id
from noiseproof.training.run_record import Progress, RunRecord, decoded, encoded
from noiseproof.training.store import (
    AmbiguousRunError,
    NewerStoreError,
    OtherConfigError,
    Store,
    StoreError,
    UnknownRunError,
)

CONFIG = {"dataset": "cifar10", "noise": "sym-0.8", "loss": "anl-ce", "seed": 1, "epochs": 3}
ENVIRONMENT = {"versions": {"torch": "2.8"}, "device": "cpu"}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs") as opened:
        yield opened


def begin(store, run_id="cifar10-s1", config=None, config_hash="3f2a", environment=None):
    store.begin(run_id, {**CONFIG, **(config or {})}, config_hash, environment or ENVIRONMENT, {"rate": 0.8})


def train(store, run_id="cifar10-s1", accuracies=(40.0, 60.0, 50.0), first=0):
    for epoch, accuracy in enumerate(accuracies, first):
        store.record_epoch(run_id, epoch, {"test_accuracy": accuracy, "loss": 1 / (epoch + 1)}, seconds=2.0)


def test_a_run_from_beginning_to_end(store):
    begin(store)
    assert store.get("cifar10-s1").status == "running"
    train(store)
    store.finish("cifar10-s1", {"test_accuracy": 50.0})
    record = store.get("cifar10-s1")
    assert record == RunRecord(
        id="cifar10-s1",
        config=CONFIG,
        config_hash="3f2a",
        status="finished",
        started=record.started,
        ended=record.ended,
        seconds=6.0,
        environment=ENVIRONMENT,
        noise={"rate": 0.8},
        result={"test_accuracy": 50.0},
        error=None,
        epochs=tuple(
            {"test_accuracy": accuracy, "loss": 1 / (epoch + 1), "epoch": epoch, "seconds": 2.0}
            for epoch, accuracy in enumerate((40.0, 60.0, 50.0))
        ),
        progress=Progress(3, 50.0, 2, 60.0, 1),
    )
    assert record.started <= record.ended
    assert record.started.endswith("+00:00")


def test_records_outlive_the_store_object(tmp_path):
    with Store(tmp_path) as store:
        begin(store)
        train(store)
    with Store(tmp_path) as store:
        assert len(store.get("cifar10-s1").epochs) == 3
    store.close()
    assert store.get("cifar10-s1").id == "cifar10-s1", "a closed store opens again"


def test_reading_creates_nothing(tmp_path):
    store = Store(tmp_path / "nowhere" / "runs")
    assert store.runs() == []
    assert store.find("3f2a") == []
    with pytest.raises(UnknownRunError, match="there are no runs in .*nowhere.* yet"):
        store.get("cifar10-s1")
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_wal_and_waits_for_others(store):
    begin(store)
    assert store._open.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._open.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._open.execute("PRAGMA busy_timeout").fetchone()[0] >= 10_000


class TestResumption:
    def test_keeps_start_and_epochs(self, store):
        begin(store)
        train(store)
        store.interrupt("cifar10-s1")
        before = store.get("cifar10-s1")
        assert (before.status, before.result, before.error) == ("interrupted", None, None)
        begin(store)
        after = store.get("cifar10-s1")
        assert after == dataclasses.replace(before, status="running", ended=None)

    def test_a_repeated_epoch_is_replaced_and_later_ones_dropped(self, store):
        begin(store)
        train(store)
        store.record_epoch("cifar10-s1", 1, {"test_accuracy": 45.0}, seconds=3.0)
        record = store.get("cifar10-s1")
        assert [each["epoch"] for each in record.epochs] == [0, 1]
        assert record.epochs[1] == {"test_accuracy": 45.0, "epoch": 1, "seconds": 3.0}
        assert record.seconds == 5.0
        assert record.progress == Progress(2, 45.0, 1, 45.0, 1), "the best that was dropped is best no more"

    def test_refuses_another_config_under_the_same_name(self, store):
        begin(store)
        train(store)
        with pytest.raises(OtherConfigError, match="hash 3f2a, now 9999.*another name"):
            begin(store, config_hash="9999")
        with pytest.raises(OtherConfigError):
            begin(store, run_id="CIFAR10-s1")  # one file on many disks
        assert len(store.get("cifar10-s1").epochs) == 3

    def test_remembers_every_environment_once(self, store):
        begin(store)
        begin(store)
        assert store.get("cifar10-s1").environment == ENVIRONMENT
        begin(store, environment={"device": "cuda"})
        begin(store, environment={"device": "cuda"})
        begin(store)
        resumed_in = [{"device": "cuda"}, ENVIRONMENT]
        assert store.get("cifar10-s1").environment == {**ENVIRONMENT, "resumed_in": resumed_in}

    def test_what_was_not_known_when_it_failed_is_recorded_when_it_begins(self, store):
        """A run whose data or noise cannot be made is recorded as failed, with nothing else to tell."""
        store.begin("cifar10-s1", CONFIG, "3f2a", environment={}, noise={})
        store.fail("cifar10-s1", "no noise")
        begin(store)
        record = store.get("cifar10-s1")
        assert (record.environment, record.noise) == (ENVIRONMENT, {"rate": 0.8})

    def test_begun_afresh_it_is_as_it_is_now(self, store):
        begin(store)
        store.begin("cifar10-s1", CONFIG, "3f2a", {"device": "cuda"}, {"rate": 0.7}, afresh=True)
        record = store.get("cifar10-s1")
        assert (record.environment, record.noise) == ({"device": "cuda"}, {"rate": 0.7})

    def test_a_failed_run_can_go_on(self, store):
        begin(store)
        store.fail("cifar10-s1", "loss is NaN")
        assert store.get("cifar10-s1").error == "loss is NaN"
        begin(store)
        assert store.get("cifar10-s1").error is None


class TestEnds:
    def test_an_ended_run_stays_as_it_ended(self, store):
        begin(store)
        store.finish("cifar10-s1", {"test_accuracy": 50.0})
        store.interrupt("cifar10-s1")
        store.fail("cifar10-s1", "too late")
        record = store.get("cifar10-s1")
        assert (record.status, record.error, record.result) == ("finished", None, {"test_accuracy": 50.0})

    def test_a_run_that_does_not_run_takes_no_epochs(self, store):
        begin(store)
        store.interrupt("cifar10-s1")
        with pytest.raises(StoreError, match="is interrupted, not running"):
            train(store)
        with pytest.raises(StoreError, match="is interrupted already"):
            store.finish("cifar10-s1", {})

    @pytest.mark.parametrize(
        "call",
        [
            lambda store: store.record_epoch("cifar10-s2", 0, {}, 1.0),
            lambda store: store.finish("cifar10-s2", {}),
            lambda store: store.interrupt("cifar10-s2"),
            lambda store: store.fail("cifar10-s2", ""),
        ],
    )
    def test_an_unknown_run_is_named_with_the_nearest(self, store, call):
        begin(store)
        with pytest.raises(UnknownRunError, match="'cifar10-s2'.*did you mean cifar10-s1"):
            call(store)


class TestFinding:
    @pytest.fixture
    def many(self, store):
        for number in range(12):
            loss, noise = ("ce", "anl-ce")[number % 2], f"sym-0.{number % 3}"
            begin(
                store,
                f"digits-{number:02}",
                {"dataset": "digits", "loss": loss, "noise": noise},
                f"h{number}",
            )
        begin(store, "other", {"dataset": "x' OR '1'='1"}, "h11")
        store.finish("digits-11", {})
        return store

    def test_by_name_or_its_beginning(self, many):
        assert many.get("digits-03").id == "digits-03"
        assert many.get("o").id == "other"
        assert many.get("OTH").id == "other"
        begin(many, "other-2", config_hash="z")
        assert many.get("other").id == "other", "a whole name wins over the beginning of another"

    def test_several_are_listed(self, many):
        with pytest.raises(AmbiguousRunError, match="names of 2 runs: digits-11, digits-10; say more"):
            many.get("digits-1")
        with pytest.raises(AmbiguousRunError, match="12 runs: .* and 7 more"):
            many.get("digits")

    @pytest.mark.parametrize("name", ["digits-99", "%", "_", "digits-0?", "'", "\udc80", ""])
    def test_unknown_names_are_just_unknown(self, many, name):
        with pytest.raises(UnknownRunError):
            many.get(name)

    def test_the_nearest_is_suggested(self, many):
        with pytest.raises(UnknownRunError, match="did you mean digits-07"):
            many.get("digit-07")
        with pytest.raises(LookupError, match="`noiseproof runs` lists them"):
            many.get("zzzzzz")

    def test_newest_first_and_without_epochs(self, many):
        train(many, "digits-05")
        listed = many.runs()
        assert [each.id for each in listed] == ["other", *(f"digits-{n:02}" for n in reversed(range(12)))]
        assert all(each.epochs == () for each in listed)
        assert listed[7].progress.epochs == 3
        assert many.get("digits-05", epochs=False) == listed[7]
        assert [each.id for each in many.runs(limit=2)] == ["other", "digits-11"]

    def test_filters_are_data(self, many):
        assert [each.id for each in many.runs(dataset="x' OR '1'='1")] == ["other"]
        assert many.runs(dataset="digits' --") == []
        assert [each.id for each in many.runs(loss="ce", noise="sym-0.0")] == ["digits-06", "digits-00"]
        assert [each.id for each in many.runs(status="finished")] == ["digits-11"]
        with pytest.raises(ValueError, match="status: expected one of running, .*'done'"):
            many.runs(status="done")
        with pytest.raises(ValueError, match="limit: expected 1 or more, got 0"):
            many.runs(limit=0)

    def test_by_config(self, many):
        assert [each.id for each in many.find("h11")] == ["digits-11"]
        assert [each.id for each in many.find("h11", status=None)] == ["other", "digits-11"]
        assert [each.id for each in many.find("h11", status="running")] == ["other"]

    def test_no_search_reads_every_epoch(self, many):
        def plan(query, *values):
            return str(many._open.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall())

        assert "INDEX runs_by_config" in plan("SELECT id FROM runs WHERE config_hash = ?", "h1")
        assert "USING INTEGER PRIMARY KEY" in plan("SELECT id FROM runs WHERE number = ?", 1)
        assert "SEARCH runs" in plan("SELECT number FROM runs WHERE id >= ? AND id < ?", "a", "b")
        listing = plan("SELECT id, config FROM runs WHERE loss = ? ORDER BY number DESC LIMIT 5", "ce")
        assert "TEMP B-TREE" not in listing


class TestValues:
    numbers = st.floats(allow_nan=True, allow_infinity=True) | st.integers() | st.booleans() | st.none()
    values = st.recursive(
        numbers | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text().filter(lambda key: key != "$float"), inner),
        max_leaves=8,
    )

    @given(st.dictionaries(st.text().filter(lambda key: key != "$float"), values))
    def test_json_round_trip(self, value):
        assert repr(decoded(encoded(value, "config"))) == repr(value)  # repr, for NaN is not equal to itself

    def test_not_a_number_survives_and_is_never_best(self, store):
        begin(store)
        metrics = {"loss": math.nan, "parts": {"nce": math.inf}, "quantiles": [-math.inf, 0.0]}
        store.record_epoch("cifar10-s1", 0, {"test_accuracy": 10.0}, 1.0)
        store.record_epoch("cifar10-s1", 1, {**metrics, "test_accuracy": math.nan}, 1.0)
        store.record_epoch("cifar10-s1", 2, metrics, 1.0)
        record = store.get("cifar10-s1")
        assert math.isnan(record.epochs[1]["test_accuracy"])
        assert math.isnan(record.epochs[2]["loss"])
        assert record.epochs[2]["parts"] == {"nce": math.inf}
        assert record.epochs[2]["quantiles"] == [-math.inf, 0.0]
        assert record.progress == Progress(3, 10.0, 0, 10.0, 0)

    def test_the_file_holds_strict_json(self, store):
        begin(store)
        store.record_epoch("cifar10-s1", 0, {"loss": math.nan}, 1.0)
        found = store._open.execute("SELECT json_extract(metrics, '$.loss') FROM epochs").fetchone()
        assert found == ('{"$float":"nan"}',)

    def test_numpy_and_torch_become_plain(self, store):
        begin(store)
        metrics = {
            "test_accuracy": np.float32(50.5),
            "count": np.int64(3),
            "marginals": np.array([0.25, math.nan]),
            "loss": torch.tensor(0.5),
            "file": Path("a") / "b",
            "pair": (1, 2),
        }
        store.record_epoch("cifar10-s1", 0, metrics, seconds=np.float64(1.0))
        (epoch,) = store.get("cifar10-s1").epochs
        assert epoch["test_accuracy"] == 50.5
        assert epoch["marginals"][0] == 0.25
        assert math.isnan(epoch["marginals"][1])
        assert (epoch["count"], epoch["loss"], epoch["pair"]) == (3, 0.5, [1, 2])
        assert epoch["file"] == os.fspath(Path("a") / "b")

    @pytest.mark.parametrize(
        ("metrics", "message"),
        [
            ({"a": {"b": [object()]}}, r"metrics\.a\.b\[0\]: expected what JSON can hold, got a object"),
            ({1: 2.0}, "metrics: expected keys that are text"),
            ({"$float": "nan"}, "metrics: expected keys"),
        ],
    )
    def test_what_json_cannot_hold_is_refused_whole(self, store, metrics, message):
        begin(store)
        with pytest.raises(TypeError, match=message):
            store.record_epoch("cifar10-s1", 0, metrics, 1.0)
        assert store.get("cifar10-s1").epochs == ()

    @pytest.mark.parametrize(
        "text", ["line\nbreak\x00nul", "half \udc80 character", "'; DROP TABLE runs; --", "🂡"]
    )
    def test_any_text_is_only_text(self, store, text):
        begin(store, config={"dataset": text})
        assert store.get("cifar10-s1").config["dataset"] == text
        assert [each.id for each in store.runs(dataset=text)] == ["cifar10-s1"]
        store.fail("cifar10-s1", text)
        assert store.get("cifar10-s1").error == text.replace("\udc80", "\\udc80")

    @pytest.mark.parametrize(
        ("epoch", "seconds", "metrics"),
        [
            (-1, 1.0, {}),
            (1.0, 1.0, {}),
            (True, 1.0, {}),
            (0, math.nan, {}),
            (0, -1.0, {}),
            (0, 1.0, {"epoch": 1}),
        ],
    )
    def test_bad_arguments(self, store, epoch, seconds, metrics):
        begin(store)
        with pytest.raises(ValueError, match="epoch|seconds"):
            store.record_epoch("cifar10-s1", epoch, metrics, seconds)


class TestNames:
    @pytest.mark.parametrize(
        "name", ["a", "cifar10-sym-0.8-anl-ce-s1-3f2a91c0", "Фото-s1", "a+b=c_d", "x" * 200]
    )
    def test_allowed(self, name):
        assert checked_run_id(name) == name

    @pytest.mark.parametrize(
        "name",
        ["", ".", "..", "../x", "a/b", "a\\b", "-a", ".a", "a.", "a b", "a*", "a:b", "a\n", "nul", "COM1.x"],
    )
    def test_refused(self, store, name):
        with pytest.raises(ValueError, match="run id"):
            begin(store, run_id=name)
        assert store.runs() == []

    def test_too_long(self):
        with pytest.raises(ValueError, match=f"at most {MAX_ID_BYTES} bytes, got 402"):
            checked_run_id("я" * 201)


def test_a_newer_file_is_refused_and_left_alone(store):
    begin(store)
    store._open.execute("PRAGMA user_version = 7")
    store.close()
    before = store.path.read_bytes()
    for call in (store.runs, lambda: begin(store, "another")):
        with pytest.raises(NewerStoreError, match="schema 7, this one knows 2.*upgrade noiseproof"):
            call()
    assert store.path.read_bytes() == before


def test_another_programs_file_is_refused_and_left_alone(store):
    store.folder.mkdir()
    with sqlite3.connect(store.path) as theirs:
        theirs.execute("CREATE TABLE runs (mine)")
    theirs.close()
    before = store.path.read_bytes()
    for call in (store.runs, lambda: begin(store)):
        with pytest.raises(StoreError, match="another program"):
            call()
    assert store.path.read_bytes() == before


def test_threads_take_turns(store):
    def work(number):
        begin(store, f"run-{number}", config_hash=str(number))
        train(store, f"run-{number}", range(20))
        store.finish(f"run-{number}", {})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.progress.epochs for each in store.runs(status="finished")] == [20] * 4
