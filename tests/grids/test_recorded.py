# SPDX-License-Identifier: Apache-2.0
"""Results files alone are enough to go on: what stands in one is not trained again, even if its folder is gone."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
import typer
from tests import warm
from typer.testing import CliRunner

from noiseproof.command_line import bench as bench_module
from noiseproof.grids import load
from noiseproof.results import read_records
from noiseproof.training.store import Store

SMALL = ("--set", "epochs=2", "--set", "train_size=200", "--device", "cpu", "--processes", "1")
GRID = ("digits-table", "--noise", "clean,sym-0.4", "--seeds", "1", *SMALL)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISEPROOF_RUNS", str(tmp_path / "runs"))
    app = typer.Typer()
    app.command()(bench_module.bench)
    return lambda *arguments: CliRunner().invoke(app, [*map(str, arguments)])


def trained(folder):
    with Store(folder) as store:
        return sorted(record.config["loss"] for record in store.runs())


def test_after_the_folders_are_lost_the_records_alone_go_on(bench, tmp_path):
    first = bench(*GRID, "--methods", "ce", "--records", "r.jsonl")
    assert first.exit_code == 0, first.output
    before = (tmp_path / "r.jsonl").read_text()
    shutil.rmtree(tmp_path / "runs")

    planned = bench(*GRID, "--methods", "ce,anl-ce", "--records", "r.jsonl", "--dry-run")
    assert planned.output.count("in a results file") == 2
    assert "4 runs: 2 finished, 2 new." in planned.output
    assert "judging by 2 comparable runs" in planned.output, "which the file tells"
    assert (tmp_path / "r.jsonl").read_text() == before, "a plan writes nothing"

    second = bench(*GRID, "--methods", "ce,anl-ce", "--records", "r.jsonl")
    assert second.exit_code == 0, second.output
    assert "4 runs: 2 finished, 2 new; 2 to train." in second.output
    assert "4 runs: 4 finished." in second.output
    assert trained(tmp_path / "runs") == ["anl-ce", "anl-ce"]
    lines = (tmp_path / "r.jsonl").read_text()
    assert lines.startswith(before), "what was recorded stays as it is, new lines come after"
    for result in read_records(tmp_path / "r.jsonl"):
        assert f"{result.score:.2f}" in second.output, "the table shows runs of both"
    shutil.rmtree(tmp_path / "runs")
    third = bench(*GRID, "--methods", "ce,anl-ce", "--records", "r.jsonl")
    assert third.exit_code == 0
    assert "4 runs: 4 finished; 0 to train." in third.output
    assert (tmp_path / "r.jsonl").read_text() == lines


def test_runs_of_another_grids_file_are_taken_over_under_their_own_label(bench, tmp_path):
    bench(*GRID, "--methods", "anl-ce", "--records", "table.jsonl", "--quiet")
    shutil.rmtree(tmp_path / "runs")
    mine = 'dataset = "digits"\nkind = "curves"\nnoises = ["clean", "sym-0.4"]\nseeds = [1]\n'
    mine += '[[methods]]\nlabel = "with L1"\nloss = "anl-ce"\n'
    mine += '[[methods]]\nlabel = "without"\nloss = "anl-ce"\nl1 = 0.0\n'
    (tmp_path / "mine.toml").write_text(mine)
    done = bench("mine.toml", *SMALL, "--records", "mine.jsonl", "--from", "table.jsonl")
    assert done.exit_code == 0, done.output
    assert "4 runs: 2 finished, 2 new; 2 to train." in done.output
    found = {(line.method, line.variant) for line in read_records(tmp_path / "mine.jsonl")}
    said = "epochs=2, train_size=200"
    assert found == {("with L1", f"with L1, {said}"), ("without", f"without, {said}")}
    table = {line.config_hash: line.score for line in read_records(tmp_path / "table.jsonl")}
    taken = {line.config_hash: line.score for line in read_records(tmp_path / "mine.jsonl")}
    assert table.items() <= taken.items()
    assert len(taken) == 4


def test_a_file_to_read_that_is_not_there_is_one_line(bench):
    done = bench(*GRID, "--from", "none.jsonl")
    assert done.exit_code == 2
    assert "none.jsonl" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("name", "label", "variant"),
    [
        ("cifar10-table", "ANL-CE", None),
        ("cifar10-beyond", "LogitClip", None),
        ("cifar10-parts", "ANL-CE", None),
        ("cifar10-parts", "NCE", "NCE"),
        ("cifar10-precision", "CE bf16", "CE bf16"),
        ("overfitting-curves", "CE", "CE"),
        ("overfitting-curves", "ANL-CE (w/ L2)", "ANL-CE (w/ L2)"),
        ("regularisers-anl", "L1 δ=5e-7", "L1 δ=5e-7"),
        ("alpha-beta-grid", "α=0.1 β=5", "α=0.1 β=5"),
        ("gradients", "ANL-CE", "ANL-CE"),
    ],
)
def test_what_the_loss_does_not_say_is_a_variant(name, label, variant):
    grid = load(name).narrowed([label], settings={"device": "cpu"})
    assert [grid.variant(method) for method in grid.methods] == [variant]


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_stopped_in_the_middle_the_records_are_whole_and_go_on_elsewhere(tmp_path, number):
    """A real process and a real signal; then another folder, as on another machine."""
    code = "import typer; from noiseproof.command_line.bench import bench; typer.run(bench)"
    records = tmp_path / "out" / "r.jsonl"
    short = ["digits-table", "--methods", "ce,mae", "--noise", "clean", "--seeds", "1,2"]
    short += ["--device", "cpu", "--processes", "1", "--pack", "1", "--records", str(records), "--quiet"]
    short += ["--set", "epochs=20", "--set", "evaluate_every=20"]

    def start(folder, *more):
        words = ["-c", code, *short, "--folder", str(tmp_path / folder), *more]
        return warm.Popen(words, stderr=subprocess.STDOUT)

    process = start("first")
    try:
        deadline = time.monotonic() + 90
        while not (records.exists() and records.read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == (130 if number != signal.SIGKILL else -signal.SIGKILL), output
    assert "Traceback" not in output
    kept = [json.loads(line) for line in records.read_text().splitlines()]
    assert 1 <= len(kept) < 4
    assert all(len(line["epochs"]["test"]) == 20 for line in kept)
    shutil.rmtree(tmp_path / "first")

    process = start("second")
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    assert "4 runs: 4 finished." in output
    assert len(trained(tmp_path / "second")) == 4 - len(kept)
    lines = records.read_text().splitlines()
    assert [json.loads(line) for line in lines[: len(kept)]] == kept
    assert len({json.loads(line)["config_hash"] for line in lines}) == len(lines) == 4
    assert os.listdir(records.parent) == ["r.jsonl"], "nothing half-written is left"
