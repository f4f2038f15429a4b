# SPDX-License-Identifier: Apache-2.0
"""``noiseproof bench`` as a user types it: plans, results, stops, and one line for every mistake."""

import re
import signal
import socket
import subprocess
import sys
import time
from types import ModuleType

import pytest
import typer
from tests import warm
from typer.testing import CliRunner

from noiseproof.command_line import bench as bench_module
from noiseproof.command_line.options import read_setting
from noiseproof.grids import names
from noiseproof.grids.runner import run_cells
from noiseproof.results import read_records
from noiseproof.training.store import Store

SMALL = ("--set", "epochs=2", "--set", "train_size=200", "--device", "cpu")
PART = ("digits-table", "--methods", "ce,anl-ce", "--noise", "clean,sym-0.4", "--seeds", "1", *SMALL)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISEPROOF_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("NOISEPROOF_RUNS", raising=False)
    app = typer.Typer()
    app.command(epilog=bench_module.EPILOG)(bench_module.bench)
    return lambda *arguments: CliRunner().invoke(app, [*map(str, arguments)])


def test_without_a_grid_all_are_listed(bench):
    done = bench()
    assert done.exit_code == 0
    for name in names():
        assert re.search(rf"^{re.escape(name)} ", done.output, re.M)
    assert re.search(r"^cifar10-table +360 runs ", done.output, re.M)


def test_help_ends_with_examples(bench):
    done = bench("--help")
    assert done.exit_code == 0
    assert "noiseproof bench my-grid.toml --ray auto" in done.output


def test_pairs_of_a_method_and_a_noise_are_trained_alone(bench):
    chosen = ("--cells", "ce@sym-0.4,ANL-CE@clean", "--seeds", "1,2", *SMALL)
    rows = [
        line for line in bench("digits-table", "--dry-run", *chosen).output.splitlines() if " seed " in line
    ]
    assert [tuple(row.split()[:2]) for row in rows] == [("CE", "sym-0.4"), ("ANL-CE", "clean")] * 2
    done = bench("digits-table", *chosen)
    assert done.exit_code == 0, done.output
    with Store("runs") as store:
        trained = {(run.config["loss"], run.config["noise"], run.config["seed"]) for run in store.runs()}
    assert trained == {
        (loss, noise, seed) for loss, noise in (("ce", "sym-0.4"), ("anl-ce", "clean")) for seed in (1, 2)
    }
    others = bench(
        "digits-table", "--methods", "ce,anl-ce", "--noise", "clean,sym-0.4", "--seeds", "1", *SMALL
    )
    assert others.exit_code == 0, others.output
    again = bench("digits-table", *chosen).output
    assert "another version or other settings" not in again
    rows = {
        line.split()[0]: line.split()[1:]
        for line in again.splitlines()
        if line.startswith((" CE ", " ANL-CE "))
    }
    assert [row.count("–") for row in rows.values()] == [1, 1], "cells that were not asked for"


@pytest.mark.parametrize("name", names())
def test_a_dry_run_needs_no_data_and_writes_nothing(bench, tmp_path, name):
    done = bench(name, "--dry-run", "--device", "cpu")
    assert done.exit_code == 0, done.output
    assert "to train in" in done.output
    assert "No estimate of time" in done.output
    rows = [line for line in done.output.splitlines() if "  to train  " in line]
    assert len({row.index("  to train  ") for row in rows}) == 1  # columns, however long a noise's name is
    assert list(tmp_path.iterdir()) == []


def test_random_weights_where_the_papers_are_imagenets_are_remarked_on(bench, tmp_path):
    remark = "on clothing1m the paper starts from ImageNet's. To do so, use --set weights=imagenet."
    assert remark in bench("clothing1m-table", "--dry-run", "--device", "cpu").output
    weights = tmp_path / "resnet50.pth"
    weights.write_bytes(b"weights")
    with_them = bench("clothing1m-table", "--dry-run", "--device", "cpu", "--set", f"weights={weights}")
    assert with_them.exit_code == 0
    assert "ImageNet" not in with_them.output


def test_a_dry_run_of_the_papers_table(bench):
    done = bench("cifar10-table", "--dry-run", "--device", "cpu", "--pack", "12")
    lines = [line for line in done.output.splitlines() if " seed " in line]
    assert len(lines) == 360
    assert "360 runs: 360 new." in done.output
    assert "360 to train in 30 packs" in done.output  # human labels go apart: 27 packs and 3
    assert lines[0].split()[:4] == ["CE", "clean", "seed", "1"]
    assert lines[-1].split()[-1].startswith("cifar10-real-anl-ce-er-s3-")


def test_a_grid_from_start_to_table_then_nothing_to_do(bench, tmp_path):
    done = bench(*PART, "--processes", "1", "--records", "results/mine.jsonl")
    assert done.exit_code == 0, done.output
    assert "4 runs: 4 new; 4 to train." in done.output
    assert "[4/4] " in done.output
    assert "4 runs: 4 finished." in done.output
    with Store(tmp_path / "runs") as store:
        records = {record.config_hash: record for record in store.runs(status="finished")}
    assert len(records) == 4
    written = read_records(tmp_path / "results" / "mine.jsonl")
    assert {line.config_hash for line in written} == set(records)
    assert sorted((line.method, line.noise) for line in written) == [
        ("ANL-CE", "clean"),
        ("ANL-CE", "sym-0.4"),
        ("CE", "clean"),
        ("CE", "sym-0.4"),
    ]
    for record in records.values():
        assert f"{record.result['test_accuracy']:.2f}" in done.output
    report = "Report: noiseproof report digits-table --set epochs=2 --set train_size=200 --from results/mine.jsonl "
    assert report + "--folder runs --open" in done.output

    again = bench(*PART, "--quiet")
    assert again.exit_code == 0
    assert "to train" not in again.output
    assert "4 runs: 4 finished." in again.output
    planned = bench(*PART[:-8], "--seeds", "1-3", *SMALL, "--dry-run", "--processes", "1")
    assert "12 runs: 4 finished, 8 new." in planned.output
    assert re.search(
        r"8 to train in 1 pack: about \d+ s on this machine, judging by 4 comparable runs", planned.output
    )


def test_records_also_hold_what_was_trained_before(bench, tmp_path):
    bench(*PART, "--processes", "1", "--quiet")
    bench(*PART, "--quiet", "--records", "late.jsonl")
    assert len(read_records(tmp_path / "late.jsonl")) == 4


def test_records_also_hold_what_another_process_finishes_meanwhile(bench, tmp_path, monkeypatch):
    train = bench_module._run

    def beaten_to_it(cells, recorded, options, display):
        run_cells(cells[:3], folder=options.folder, processes=1)
        return train(cells, recorded, options, display)

    monkeypatch.setattr(bench_module, "_run", beaten_to_it)
    done = bench(*PART, "--processes", "1", "--records", "r.jsonl")
    assert done.exit_code == 0, done.output
    assert "4 runs: 4 finished." in done.output
    assert len(read_records(tmp_path / "r.jsonl")) == 4


def test_the_table_shows_only_runs_of_what_was_asked_for(bench, tmp_path):
    """Neither other seeds nor other settings of a file from which runs were taken."""
    longer = ("--set", "epochs=3", "--set", "train_size=200", "--device", "cpu")
    one = ("digits-table", "--methods", "ce", "--noise", "clean", "--processes", "1", "--records", "r.jsonl")
    bench(*one, "--seeds", "2,3", *longer, "--quiet")
    done = bench(*one, "--seeds", "1", *SMALL)
    assert done.exit_code == 0, done.output
    own = [line for line in read_records(tmp_path / "r.jsonl") if line.seed == 1]
    assert f"{own[0].score:.2f} (1)" in done.output
    assert "(3)" not in done.output
    assert "recorded with a config" not in done.output


def test_failures_are_told_and_the_exit_says_so(bench):
    bad = ("digits-table", "--methods", "ce", "--noise", "clean", "--seeds", "1", *SMALL)
    bad += ("--set", "learning_rate=1e30", "--set", "clip_norm=0", "--processes", "1")
    done = bench(*bad)
    assert done.exit_code == 1
    assert "Failed: CE, clean, seed 1: not a finite number" in done.output
    assert "--retry-failed tries them again" in done.output
    again = bench(*bad)
    assert again.exit_code == 1
    assert "1 run: 1 failed; 0 to train." in again.output
    retried = bench(*bad, "--retry-failed")
    assert "1 run: 1 failed; 1 to train." in retried.output


def test_parts_share_a_grid_out(bench):
    whole = bench("alpha-beta-grid", "--dry-run", "--device", "cpu").output
    runs = {line.split()[-1] for line in whole.splitlines() if " seed " in line}
    parts = []
    for number in (1, 2, 3):
        output = bench("alpha-beta-grid", "--dry-run", "--device", "cpu", "--part", f"{number}/3").output
        parts.append({line.split()[-1] for line in output.splitlines() if " seed " in line})
    assert sorted(map(len, parts)) == [8, 8, 9]
    assert set.union(*parts) == runs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cifar10-tabel"], "grid: unknown name 'cifar10-tabel'; did you mean 'cifar10-table'?"),
        (["digits-table", "--methods", "anlce"], "did you mean 'ANL-CE'?"),
        (["digits-table", "--noise", "sym-0.5"], "noises of grid digits-table: unknown name 'sym-0.5'"),
        (["digits-table", "--cells", "ce"], "cells: expected METHOD@NOISE, such as ANL-CE@sym-0.8, got 'ce'"),
        (["digits-table", "--cells", "ce@"], "cells: expected METHOD@NOISE"),
        (["digits-table", "--cells", "ce@sym-0.5"], "noises of grid digits-table: unknown name 'sym-0.5'"),
        (["digits-table", "--cells", "mae@clean", "--methods", "ce"], "unknown name 'mae'"),
        (
            ["digits-table", "--seeds", "one"],
            "--seeds: expected whole numbers such as 1,2,3 or 4-8, got 'one'",
        ),
        (["digits-table", "--seeds", "5-3"], "--seeds: expected a range that goes up"),
        (["digits-table", "--budget", "20"], "budget: expected a time such as 90s, 20m"),
        (["digits-table", "--stop-after", "soon"], "stop-after: expected a time such as 90s, 20m"),
        (["digits-table", "--budget", "1m", "--stop-after", "1m"], "expected one of them, got both"),
        (["digits-table", "--set", "epoch=3"], "unknown name 'epoch'; did you mean 'epochs'?"),
        (["digits-table", "--set", "epochs"], "--set: expected KEY=VALUE such as epochs=30"),
        (["digits-table", "--set", "loss=ce"], "loss is not a setting"),
        (["digits-table", "--precision", "fp16"], "precision: unknown name 'fp16'"),
        (["digits-table", "--device", "tpu"], "device: expected auto, cpu, cuda"),
        (["digits-table", "--part", "4/3"], "--part: expected I/N with 1 <= I <= N"),
        (["fashion-table", "--device", "cpu"], "fashion-mnist"),
        (["none.toml"], "grid: cannot read 'none.toml': No such file"),
    ],
)
def test_a_mistake_is_one_line(bench, arguments, message):
    done = bench(*arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("Error: ") == 1
    assert "Traceback" not in done.output


def test_values_of_settings_are_written_as_in_toml():
    assert read_setting("epochs=3") == ("epochs", 3)
    assert read_setting("l1=5e-5") == ("l1", 5e-5)
    assert read_setting("nesterov=true") == ("nesterov", True)
    assert read_setting("schedule=cosine") == ("schedule", "cosine")
    assert read_setting("weights=a=b.safetensors") == ("weights", "a=b.safetensors")
    assert read_setting("loss_parameters={alpha=2}") == ("loss_parameters", {"alpha": 2})


def test_ray_that_is_not_installed_is_one_line(bench, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = bench(*PART, "--ray", "auto")
    assert done.exit_code == 2
    assert "Error: --ray needs Ray: pip install 'noiseproof[ray]'" in done.output


def test_an_address_where_no_cluster_is_is_one_line(bench, monkeypatch):
    """Ray itself would wait for many minutes, and Ctrl-C would not end it."""
    ray = ModuleType("ray")
    ray.is_initialized = lambda: False
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.exceptions", ModuleType("ray.exceptions"))
    with socket.socket() as bound:  # to a port at which it does not listen
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        done = bench(*PART, "--ray", address)
    assert done.exit_code == 2, done.output
    assert f"Error: no Ray cluster at '{address}': nothing answers there" in done.output
    assert "Error: no Ray cluster at '127.0.0.1:99999'" in bench(*PART, "--ray", "127.0.0.1:99999").output


def test_ctrl_c_in_a_terminal(tmp_path):
    """A real process and a real signal."""
    code = "import typer; from noiseproof.command_line.bench import bench; typer.run(bench)"
    command = ["-c", code, "digits-table", "--methods", "ce", "--noise", "clean"]
    command += ["--device", "cpu", "--set", "epochs=3000", "--folder", str(tmp_path), "--processes", "1"]
    process = warm.Popen(command, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*/checkpoint.pt")) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "Stopped; nothing is lost. Continue with the same command." in output
    assert "Traceback" not in output
    with Store(tmp_path) as store:
        assert any(record.progress.epochs > 0 for record in store.runs())
