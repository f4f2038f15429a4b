# SPDX-License-Identifier: Apache-2.0
"""A run uses as many threads of the CPU as its network is worth, and gives them back."""

import numpy as np
import pytest
import torch

from noiseproof.sklearn import RobustClassifier
from noiseproof.threads import has_small_steps
from noiseproof.training import resolve, train
from noiseproof.training.data import load_data
from noiseproof.training.run import Run
from noiseproof.training.stepwise import Stepwise


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def small(**changes):
    return resolve("digits", **({"epochs": 1, "device": "cpu", "train_size": 300} | changes))


def opened(config):
    return Run(config, load_data(config, torch.device("cpu")))


@pytest.mark.parametrize(
    ("changes", "is_small"),
    [
        ({}, True),
        ({"model": "mnist-cnn", "model_options": {}}, True),
        ({"model": "cnn8", "model_options": {}}, False),
    ],
    ids=["mlp", "mnist-cnn on 8 pixels", "cnn8"],
)
def test_small_steps_are_a_matter_of_the_network_and_the_size_of_images(changes, is_small):
    run = opened(small(**changes))
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    assert has_small_steps(run.model, torch.zeros(1, 1, 8, 8), 64) == is_small
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.model.state_dict().items())
    assert run.model.training


def test_a_large_network_is_not_small_however_few_operations_are_known():
    run = opened(small())
    run.model.past = torch.nn.Embedding(1_000_001, 1)
    assert not has_small_steps(run.model, torch.zeros(1, 1, 8, 8), 64)


@pytest.mark.parametrize(
    ("changes", "threads"), [({}, 1), ({"model": "cnn8", "model_options": {}}, 2)], ids=str
)
def test_a_run_gives_the_threads_back(changes, threads, two_threads, tmp_path, monkeypatch):
    seen, usual = [], Stepwise.end_epoch

    def end_epoch(way):
        seen.append(torch.get_num_threads())
        return usual(way)

    monkeypatch.setattr(Stepwise, "end_epoch", end_epoch)
    train(small(train_size=64, **changes), folder=tmp_path, quiet=True)
    assert seen == [threads]
    assert torch.get_num_threads() == 2


def test_also_where_a_run_fails(two_threads, tmp_path, monkeypatch):
    def breaks(way):
        raise RuntimeError("no more")

    monkeypatch.setattr(Stepwise, "end_epoch", breaks)
    with pytest.raises(RuntimeError, match="no more"):
        train(small(), folder=tmp_path, quiet=True)
    assert torch.get_num_threads() == 2


def test_the_estimator_trains_its_small_network_with_one_thread(two_threads):
    seen = []

    class Told(torch.nn.Linear):
        def forward(self, rows):
            if self.training:
                seen.append(torch.get_num_threads())
            return super().forward(rows)

    rows = np.random.RandomState(0).randn(40, 6).astype(np.float32)
    RobustClassifier(model=lambda features, classes: Told(features, classes), epochs=2).fit(
        rows, np.arange(40) % 2
    )
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2
