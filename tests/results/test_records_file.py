# SPDX-License-Identifier: Apache-2.0
"""Results files: what goes in comes out, older lines are read, a file is whole or as it was."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from noiseproof.results import line_of_result, read_records, result_of_line, result_of_record, write_records
from noiseproof.training import resolve
from noiseproof.training.run_record import RunRecord
from noiseproof.training.store import Store

PUBLISHED = Path(__file__).parents[2] / "results"


def record_of(loss="anl-ce", seed=1, epochs=3, **said):
    config = resolve("digits", loss=loss, noise="sym-0.6", seed=seed, epochs=epochs, **said)
    metrics = [
        {
            "clean_accuracy": 70.123456 + n,
            "flipped_accuracy": None,
            "test_accuracy": 80.0 + n if n != 1 else None,
            "predicted_marginals": [0.1] * 10,
            "strongest_pull": {
                "quantiles": [0.0, 0.5, 1.0],
                "clean": [0.123456, 1.0, 2.0],
                "flipped": None,
                "clean_mean": 0.98765 + n,
                "flipped_mean": None,
                "floored": {
                    "clean": [1.23456, 3.0, 4.0],
                    "flipped": None,
                    "clean_mean": 3.45678 + n,
                    "flipped_mean": None,
                },
            },
        }
        for n in range(epochs)
    ]
    return RunRecord(
        id=config.run_id,
        config=config.as_data(),
        config_hash=config.hash,
        status="finished",
        started="2026-01-01T00:00:00+00:00",
        ended="2026-01-01T00:00:09+00:00",
        seconds=8.64,
        environment={
            "hardware": "x86_64",
            "device": "cpu",
            "threads": 1,
            "versions": {"torch": "2.9"},
            "commit": "abc",
            "weights": "all of them",
        },
        noise={
            "name": "sym-0.6",
            "realised_rate": 0.598748,
            "label_marginals": [0.1] * 10,
            "class_rates": [0.6] * 10,
            "transition": [[0.1] * 10] * 10,
        },
        result={"test_accuracy": 80.0 + epochs - 1},
        error=None,
        epochs=tuple(metrics),
    )


def test_a_line_says_what_every_line_says(tmp_path):
    path = tmp_path / "new" / "table.jsonl"
    record = record_of()
    write_records(path, [record], labels={record.config_hash: "ANL-CE"}, variant="bf16")
    (line,) = map(json.loads, path.read_text().splitlines())
    expected = {
        "dataset": "digits",
        "loss": "anl-ce",
        "noise": "sym-0.6",
        "seed": 1,
        "test_accuracy": 82.0,
        "method": "ANL-CE",
        "variant": "bf16",
        "config_hash": record.config_hash,
        "run": record.id,
        "seconds": 8.6,
        "realised_rate": 0.598748,
    }
    assert {key: line[key] for key in expected} == expected
    assert line["config"] == record.config
    assert line["epochs"]["test"] == [80.0, None, 82.0]
    assert line["epochs"]["clean"] == [70.12, 71.12, 72.12]
    assert line["epochs"]["strongest_pull"]["clean"][0] == [0.1235, 1.0, 2.0]
    assert line["epochs"]["strongest_pull"]["clean_mean"] == [0.9877, 1.988, 2.988]
    assert line["epochs"]["strongest_pull"]["floored"]["clean_mean"] == [3.457, 4.457, 5.457]
    assert line["noise_facts"]["label_marginals"] == [0.1] * 10
    assert set(line["environment"]) == {"hardware", "device", "threads", "versions", "commit"}
    assert [file.name for file in path.parent.iterdir()] == ["table.jsonl"]


def test_pulls_recorded_without_means_are_read_and_written_without(tmp_path):
    record = record_of()
    for epoch in record.epochs:
        for key in ("clean_mean", "flipped_mean", "floored"):
            del epoch["strongest_pull"][key]
    path = tmp_path / "table.jsonl"
    write_records(path, [record], labels={})
    (read,) = read_records(path)
    assert (read.pulls.clean_mean, read.pulls.flipped_mean, read.pulls.floored) == ((), (), None)
    assert set(json.loads(path.read_text())["epochs"]["strongest_pull"]) == {"quantiles", "clean", "flipped"}


@pytest.mark.parametrize(
    ("means", "said"), [([1.0], "expected 3 epochs, got 1"), ([1.0, "x", 2.0], "expected a list of numbers")]
)
def test_means_of_another_length_or_kind_are_refused(means, said):
    line = line_of_result(result_of_record(record_of()))
    line["epochs"]["strongest_pull"]["clean_mean"] = means
    with pytest.raises(ValueError, match=said):
        result_of_line(line)


def test_reading_gives_what_the_record_gives(tmp_path):
    path = tmp_path / "table.jsonl"
    record = record_of()
    write_records(path, [record], labels={})
    (read,) = read_records(path)
    direct = result_of_record(record)
    assert read.method == direct.method == "anl-ce"
    assert read.curves.test == direct.curves.test
    assert read.pulls.quantiles == direct.pulls.quantiles
    assert read.pulls.flipped == direct.pulls.flipped == (None, None, None)
    assert read.pulls.clean_mean == pytest.approx(direct.pulls.clean_mean, rel=1e-3)
    assert read.pulls.flipped_mean == direct.pulls.flipped_mean == (None, None, None)
    assert direct.pulls.floored.clean == ((1.23456, 3.0, 4.0),) * 3
    assert read.pulls.floored.clean_mean == pytest.approx((3.45678, 4.45678, 5.45678), rel=1e-3)
    assert read.best == direct.best == (82.0, 3)
    assert read.predicted_marginals == direct.predicted_marginals
    assert (read.run, read.name, read.realised_rate) == (record.id, record.id, 0.598748)
    assert read.config == record.config


def test_the_same_config_replaces_its_line_and_leaves_the_others(tmp_path):
    path = tmp_path / "table.jsonl"
    first, second, third = record_of(seed=1), record_of(seed=2), record_of(seed=3)
    write_records(path, [first, second], labels={})
    lines = path.read_text().splitlines()
    write_records(path, [third, replace(first, seconds=99.0)], labels={})
    after = path.read_text().splitlines()
    assert after[1] == lines[1]
    assert [json.loads(line)["seed"] for line in after] == [1, 2, 3]
    assert json.loads(after[0])["seconds"] == 99.0


def test_unfinished_runs_are_left_out_and_lists_of_runs_refused(tmp_path):
    path = tmp_path / "table.jsonl"
    write_records(path, [replace(record_of(), status="failed"), record_of(seed=2)], labels={})
    assert [result.seed for result in read_records(path)] == [2]
    before = path.read_text()
    with pytest.raises(ValueError, match="without its epochs"):
        write_records(path, [record_of(seed=3), replace(record_of(), epochs=())], labels={})
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="is running, not finished"):
        result_of_record(replace(record_of(), status="running"))


def test_numbers_that_json_does_not_know_become_nothing(tmp_path):
    path = tmp_path / "table.jsonl"
    record = record_of()
    epochs = ({**record.epochs[0], "clean_accuracy": math.nan}, *record.epochs[1:])
    write_records(path, [replace(record, epochs=epochs)], labels={})
    assert "NaN" not in path.read_text()
    assert read_records(path)[0].curves.clean[0] is None


def test_a_store_and_back(tmp_path):
    record = record_of()
    with Store(tmp_path) as store:
        store.begin(record.id, record.config, record.config_hash, record.environment, record.noise)
        for number, epoch in enumerate(record.epochs):
            store.record_epoch(record.id, number, epoch, 0.5)
        store.finish(record.id, record.result)
        write_records(tmp_path / "t.jsonl", [store.get(record.id)], labels={record.config_hash: "mine"})
    assert read_records(tmp_path / "t.jsonl")[0].method == "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 2: no result"),
        ("[]", "expected a JSON object, got a list"),
        ('{"dataset": "digits"}', "needs 'loss'"),
        (
            '{"dataset": "d", "loss": "ce", "noise": "clean", "seed": 1, "test_accuracy": "x", "config_hash": "0"}',
            "test_accuracy: expected a number",
        ),
        *(
            (f'{{"dataset": "d", "loss": "ce", {said}, "test_accuracy": 1, "config_hash": "0"}}', message)
            for said, message in (
                (
                    '"noise": "clean", "seed": 1.7',
                    "line 2: no result: seed: expected a whole number, got 1.7",
                ),
                ('"noise": "clean", "seed": "1"', "seed: expected a whole number, got '1'"),
                ('"noise": "clean", "seed": true', "seed: expected a whole number, got True"),
                ('"noise": ["a"], "seed": 1', r"noise: expected a text, got \['a'\]"),
            )
        ),
        (
            '{"dataset": "d", "loss": "ce", "noise": "clean", "seed": 1, "test_accuracy": 1, "config_hash": 7}',
            "config_hash: expected a text, got 7",
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path, text, message):
    path = tmp_path / "table.jsonl"
    good = (
        '{"dataset": "d", "loss": "ce", "noise": "clean", "seed": 1, "test_accuracy": 1, "config_hash": "a"}'
    )
    path.write_text(f"{good}\n{text}\n")
    with pytest.raises(ValueError, match=message):
        read_records(path)


def test_many_classes_leave_out_their_matrix(tmp_path):
    record = record_of()
    wide = replace(record, noise={**record.noise, "transition": [[0.01] * 100] * 100})
    write_records(tmp_path / "t.jsonl", [wide], labels={})
    assert "transition" not in read_records(tmp_path / "t.jsonl")[0].noise_facts


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.jsonl")), ids=lambda path: path.name)
def test_every_published_file_reads(path):
    results = read_records(path)
    assert results
    for result in results:
        assert 0 <= result.score <= 100
        if result.metric == "test_accuracy":
            assert result.curves.test[-1] == pytest.approx(result.score, abs=0.01)
    assert len({result.config_hash for result in results}) == len(results)


def test_segmentation_is_judged_by_dice(tmp_path):
    """Its score is the mean over the last ten epochs, which the run's result holds; its curve is Dice by epoch."""
    record = record_of(epochs=12)
    epochs = tuple({"test_dice": 70.0 + n} for n in range(12))
    result = {"test_dice": 76.5, "test_dice_per_image": 71.25, "best_test_dice": 81.0}
    write_records(tmp_path / "t.jsonl", [replace(record, epochs=epochs, result=result)], labels={})
    (line,) = map(json.loads, (tmp_path / "t.jsonl").read_text().splitlines())
    assert (line["test_dice"], line["test_dice_per_image"]) == (76.5, 71.25)
    assert "test_accuracy" not in line
    (read,) = read_records(tmp_path / "t.jsonl")
    assert (read.score, read.metric, read.curves.test[-1], read.best) == (76.5, "test_dice", 81.0, (81.0, 12))
    assert read.per_image == 71.25
