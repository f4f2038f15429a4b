# SPDX-License-Identifier: Apache-2.0
"""``table`` and ``report`` find what ``bench --set`` and ``bench --precision`` trained, or say how to."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.grids import load
from noiseproof.grids.other_runs import other_runs
from noiseproof.training.store import Store

SETTINGS = ("--set", "epochs=1", "--set", "train_size=64", "--precision", "bf16")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A runs folder with two runs of a grid, trained with other settings than its own."""
    folder = tmp_path_factory.mktemp("trained") / "runs"
    part = ("--methods", "ce,anl-ce", "--noise", "sym-0.4", "--seeds", "1", "--processes", "1", "--quiet")
    done = CliRunner().invoke(
        app, ["bench", "digits-table", *part, *SETTINGS, "--device", "cpu", "--folder", str(folder)]
    )
    assert done.exit_code == 0, done.output
    with Store(folder) as store:
        return folder, {run.config["loss"]: run.result["test_accuracy"] for run in store.runs()}


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISEPROOF_RUNS", str(trained[0]))
    return lambda *words: CliRunner().invoke(app, [*map(str, words)])


@pytest.mark.parametrize("command", ["table", "report"])
def test_the_options_of_bench_find_its_runs(run, trained, command):
    done = run(command, "digits-table", *SETTINGS)
    assert done.exit_code == 0, done.output
    text = done.output if command == "table" else Path("digits-table.html").read_text(encoding="utf-8")
    for accuracy in trained[1].values():
        assert f"{accuracy:.2f}" in text
    assert "epochs = 1, train_size = 64, precision = bf16" in text
    if command == "report":
        again = "noiseproof bench digits-table --set epochs=1 --set train_size=64 --precision bf16"
        assert f"reproduce everything with <code>{again}</code>" in text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("table", ()),
        ("table", ("--precision", "float32", "--set", "epochs=1")),
        ("report", ("--set", "epochs=2")),
    ],
)
def test_without_them_it_says_how_many_runs_there_are_and_what_finds_them(run, trained, command, said):
    done = run(command, "digits-table", *said)
    assert done.exit_code == 2
    (line,) = done.output.strip().splitlines()
    assert "2 finished runs there have the same data, losses and noises, but other settings or seeds" in line
    advice, found, options = line.partition("2 of them can be read with: ")
    assert found, advice
    assert run(command, "digits-table", *shlex.split(options)).exit_code == 0


def test_runs_of_another_seed_alone_are_counted(run, trained):
    grid = load("digits-table").narrowed(seeds=[7])
    found = other_runs(grid, trained[0])
    assert (found.count, found.found, dict(found.settings)) == (2, 0, {})
    Path("seven.toml").write_text(
        'dataset = "digits"\nnoises = ["sym-0.4"]\nseeds = [7]\n[[methods]]\nlabel = "CE"\nloss = "ce"\n'
    )
    line = run("table", "seven.toml").output
    assert "1 finished run there has the same data, losses and noises" in line
    assert "--records FILE" in line


def test_parameters_of_the_loss_are_settings_too(trained):
    grid = load("digits-table").narrowed(settings={"epochs": 1, "train_size": 64, "precision": "bf16"})
    assert other_runs(grid, trained[0]).count == 0
    changed = grid.narrowed(["anl-ce"], settings={"loss_parameters": {"alpha": 3.5}})
    found = other_runs(changed, trained[0])
    assert (found.count, found.found) == (1, 1)
    assert found.settings["loss_parameters"]["alpha"] != 3.5


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (("--set", "epochs"), "--set: expected KEY=VALUE"),
        (("--set", "epoch=1"), "epochs"),
        (("--precision", "float31"), "float32"),
        (("--set", "seed=2"), "seed is not a setting"),
    ],
)
def test_a_mistake_is_one_line(run, said, message):
    done = run("table", "digits-table", *said)
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1


@pytest.mark.parametrize("command", ["table", "report"])
def test_a_part_of_the_grid_has_only_its_rows_and_columns(run, trained, command):
    part = ("--methods", "anl-ce", "--noise", "sym-0.4", "--seeds", "1")
    form = ("--format", "latex") if command == "table" else ()
    done = run(command, "digits-table", *part, *SETTINGS, *form)
    assert done.exit_code == 0, done.output
    text = done.output if command == "table" else Path("digits-table.html").read_text(encoding="utf-8")
    assert f"{trained[1]['anl-ce']:.2f}" in text
    assert "GCE" not in text
    assert "sym-0.6" not in text
    assert ("--seeds 1" in text) == (command == "report")
    unknown = run(command, "digits-table", "--methods", "anlce", *SETTINGS)
    assert unknown.exit_code == 2
    assert "anlce" in unknown.output


def test_a_part_of_a_results_file_has_only_its_rows_and_columns(run):
    recorded = Path(__file__).parents[2] / "results" / "digits-table.jsonl"
    part = ("--methods", "ce,anl-ce", "--noise", "sym-0.4", "--seeds", "1,2")
    done = run("table", "digits-table", "--from", recorded, *part, "--format", "csv")
    assert done.exit_code == 0, done.output
    rows = [line.split(",")[:2] for line in done.output.splitlines()]
    assert rows[1:] == [["CE", "sym-0.4"], ["ANL-CE", "sym-0.4"]]
