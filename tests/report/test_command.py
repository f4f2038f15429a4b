# SPDX-License-Identifier: Apache-2.0
"""The command beside a run repeats it."""

import shlex
from dataclasses import replace

import pytest
from tests.results.making import gathered_of, grid_of
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.grids import Method
from noiseproof.planning import own_data
from noiseproof.planning.facts import Facts
from noiseproof.planning.own_data import Choice
from noiseproof.report.command import command_of
from noiseproof.report.sections import anchors, run_rows
from noiseproof.training import Config, resolve


@pytest.mark.parametrize(
    "config",
    [
        resolve("cifar10", loss="anl-ce*", noise="asym-0.4", seed=3),
        resolve(
            "cifar100",
            loss="nce+agce",
            noise="sym-0.2",
            loss_parameters={"q": 2.5},
            epochs=7,
            precision="bf16",
        ),
        resolve(
            "digits",
            loss="ce",
            train_size=100,
            learning_rate=0.123456789,
            noise_seed=4,
            gradient_quantiles=True,
        ),
        Config(
            "folder:my photos/it's",
            "resnet18",
            5,
            0.02,
            l1=1e-5,
            image_size=32,
            loss_parameters={"alpha": 2.0},
        ),
    ],
)
def test_the_command_repeats_the_run(config, monkeypatch, tmp_path):
    """Give the command to the command line, and see which config comes out."""
    from noiseproof import training

    found = []

    def stop_here(given, **options):
        found.append(given)
        raise ValueError("seen")

    monkeypatch.setattr(training, "train", stop_here)
    planned = {
        "model": "mlp",
        "epochs": 1,
        "learning_rate": 9.0,
        "batch_size": 3,
        "l1": 9.0,
        "weight_decay": 9.0,
    }
    plan = [Choice(name, value, "another plan") for name, value in planned.items()]
    monkeypatch.setattr("noiseproof.planning.own_data.plan_for", lambda dataset, said: plan)
    words = shlex.split(command_of(config.as_data()).partition("  # ")[0])
    assert words[0] == "noiseproof"
    done = CliRunner().invoke(app, [*words[1:], "--folder", str(tmp_path)])
    assert "seen" in done.output, done.output
    assert found[0].hash == config.hash


@pytest.mark.parametrize("weights", [None, "mine.pth"])
def test_the_command_of_a_network_that_a_plan_would_freeze_says_not_to(weights, monkeypatch):
    facts = Facts("folder:photos", samples=500, classes=4, form="files", side=200, pretrained=True)
    monkeypatch.setattr(own_data, "_looked_at", lambda dataset, side: facts)
    said = {"model": "efficientnet-lite0", "weights": weights, "freeze": False}
    config = own_data.config_of("folder:photos", None, {k: v for k, v in said.items() if v is not None})
    words = shlex.split(command_of(config.as_data()).partition("  # ")[0])
    assert "--no-freeze" in words
    assert "--no-freeze" not in command_of(replace(config, model="cnn8", weights=None).as_data())
    assert config.weights == weights


def test_what_has_no_flag_is_named_after_the_command():
    command = command_of(resolve("digits", momentum=0.5, model_options={"hidden": [8]}).as_data())
    assert command.endswith("# and in a recipe file: model_options = {'hidden': [8]}; momentum = 0.5")


def rows_of(gathered, bench, command):
    places = anchors([method.label for method in gathered.grid.methods], gathered.grid.noises)
    letters = dict.fromkeys(range(len(gathered.results)), "A")
    return [row.command for row in run_rows(gathered, places, letters, bench, command, None)]


def test_what_has_no_flag_is_repeated_through_the_grid():
    narrow = Method("narrow", "ce", {"model_options": {"hidden": [8]}})
    gathered = gathered_of(grid_of((narrow, "ce"), seeds=(2,)))
    assert rows_of(gathered, "noiseproof bench my.toml", "noiseproof bench my.toml") == [
        "noiseproof bench my.toml --methods narrow --noise sym-0.6 --seeds 2",
        "noiseproof train digits --epochs 4 --loss ce --noise sym-0.6 --seed 2",
    ]
    assert rows_of(gathered, None, "noiseproof demo")[0] == "noiseproof demo"


def test_a_run_that_the_grid_would_train_otherwise_is_not_repeated_through_it():
    narrow = grid_of((Method("narrow", "ce", {"model_options": {"hidden": [8]}}),), seeds=(2,))
    gathered = replace(gathered_of(narrow), grid=grid_of((Method("narrow", "ce"),), seeds=(2,)))
    (command,) = rows_of(gathered, "noiseproof bench my.toml", "noiseproof bench my.toml")
    assert command.endswith("# and in a recipe file: model_options = {'hidden': [8]}")
