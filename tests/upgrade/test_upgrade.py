# SPDX-License-Identifier: Apache-2.0
"""What earlier versions wrote is read by this one: stores, checkpoints, weights, results, noise files."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from noiseproof import models
from noiseproof.noise import NoisyLabels
from noiseproof.results import read_records
from noiseproof.training import Config, train
from noiseproof.training import checkpoint as checkpoints
from noiseproof.training.store import Store

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = sorted(folder.name for folder in FIXTURES.iterdir())
every_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture
def runs(version, tmp_path):
    """A copy of the runs folder: what is read may be changed on the way."""
    return Path(shutil.copytree(FIXTURES / version / "runs", tmp_path / "runs"))


def both(folder):
    with Store(folder) as store:
        records = {record.status: store.get(record.id) for record in store.runs()}
    assert set(records) == {"finished", "interrupted"}
    return records["finished"], records["interrupted"]


def test_there_are_fixtures():
    assert "0.1.0" in VERSIONS


@every_version
def test_a_store_is_read(runs):
    finished, interrupted = both(runs)
    assert [len(record.epochs) for record in (finished, interrupted)] == [3, 1]
    assert finished.result["test_accuracy"] == finished.epochs[-1]["test_accuracy"]
    assert (finished.config["loss"], interrupted.config["loss"]) == ("anl-ce", "ce")


@every_version
def test_a_config_of_the_store_is_still_the_same_run(runs):
    for record in both(runs):
        config = Config(**record.config)
        assert config.hash == record.config_hash
        assert config.run_id == record.id


@every_version
def test_an_interrupted_run_goes_on_from_its_checkpoint(runs):
    finished, interrupted = both(runs)
    state = checkpoints.load(runs / interrupted.id / "checkpoint.pt", torch.device("cpu"))
    assert (state["epoch"], state["step"]) == (1, 8)
    record = train(Config(**interrupted.config), folder=runs, quiet=True)
    assert (record.id, record.status, len(record.epochs)) == (interrupted.id, "finished", 3)
    assert record.epochs[0] == interrupted.epochs[0]  # not trained again
    assert train(Config(**finished.config), folder=runs, quiet=True).ended == finished.ended


@every_version
def test_weights_are_read(runs):
    finished, _ = both(runs)
    model = models.create("mlp", 10, in_channels=1, image_size=8, hidden=(8,))
    models.load_weights(model, runs / finished.id / "weights.safetensors")
    state = checkpoints.load(runs / finished.id / "checkpoint.pt", torch.device("cpu"))
    for name, value in model.state_dict().items():
        assert torch.equal(value, state["model"][name]), name


@every_version
def test_results_are_read(version, runs):
    finished, _ = both(runs)
    (result,) = read_records(FIXTURES / version / "results.jsonl")
    assert (result.loss, result.noise, result.seed) == ("anl-ce", "sym-0.4", 1)
    assert result.score == pytest.approx(finished.result["test_accuracy"], abs=0.01)


@every_version
def test_a_noise_file_is_read(version):
    clean = np.load(FIXTURES / version / "clean-labels.npy")
    noise = NoisyLabels.load(FIXTURES / version / "noise.npz", clean=clean)
    assert noise.labels.shape == clean.shape
    assert np.mean(noise.labels != clean) == pytest.approx(0.36)  # 8 of 200 labels a cell
    assert (noise.kind, noise.rate, noise.seed) == ("symmetric", 0.4, 3)
