# SPDX-License-Identifier: Apache-2.0
"""What differs between two runs, in Python and on the command line."""

import json

import pytest
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.results import differences
from noiseproof.training import resolve
from noiseproof.training.store import Store


@pytest.fixture
def folder(tmp_path):
    with Store(tmp_path) as store:
        for loss, accuracies in (("ce", (40.0, 35.5)), ("anl-ce", (50.0, 70.25))):
            config = resolve("digits", loss=loss, noise="sym-0.6", epochs=2)
            store.begin(
                config.run_id, config.as_data(), config.hash, {"device": "cpu"}, {"realised_rate": 0.6}
            )
            for epoch, accuracy in enumerate(accuracies):
                store.record_epoch(
                    config.run_id, epoch, {"test_accuracy": accuracy, "clean_accuracy": 80.0}, 1.5
                )
            store.finish(config.run_id, {"test_accuracy": accuracies[-1]})
    return tmp_path


def test_config_and_outcome(folder):
    with Store(folder) as store:
        found = differences(store.get("digits-sym-0.6-ce"), store.get("digits-sym-0.6-anl"))
    by_name = {(each.part, each.name): (each.first, each.second) for each in found}
    assert by_name["config", "loss"] == ("ce", "anl-ce")
    assert by_name["config", "loss_parameters.alpha"] == (None, 5.0)
    assert ("config", "epochs") not in by_name
    assert not [each for each in found if each.part == "environment"]
    assert by_name["outcome", "test accuracy, last epoch"] == (35.5, 70.25)
    assert by_name["outcome", "best test accuracy"] == (40.0, 70.25)
    assert by_name["outcome", "best epoch"] == (1, 2)
    assert by_name["outcome", "seconds"] == (3.0, 3.0)


def test_the_command(folder):
    words = ["runs", "compare", "digits-sym-0.6-ce", "digits-sym-0.6-anl", "--folder", str(folder)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "+34.75" in next(line for line in done.output.splitlines() if "test accuracy, last epoch" in line)
    assert any("loss_parameters.alpha" in line for line in done.output.splitlines())
    data = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert {"part": "config", "name": "loss", "first": "ce", "second": "anl-ce"} in data["differences"]
    same = CliRunner().invoke(app, [*words[:2], words[2], words[2], *words[4:]])
    assert "The configs are the same." in same.output


def test_an_unknown_run_is_one_line(folder):
    done = CliRunner().invoke(
        app, ["runs", "compare", "digits-sym-0.6-ce", "nothing", "--folder", str(folder)]
    )
    assert done.exit_code == 2
    assert "no run 'nothing'" in done.output
