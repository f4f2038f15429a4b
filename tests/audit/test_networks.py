# SPDX-License-Identifier: Apache-2.0
"""Cross-validation and training dynamics with the training engine, on digits."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from noiseproof import datasets, noise
from noiseproof.audit import cross_validation
from noiseproof.audit.pictures import audit_pictures
from noiseproof.training import Interrupted, engine

EPOCHS = {"epochs": 6}


@pytest.fixture(scope="module")
def digits():
    data = datasets.load("digits")
    noisy = noise.symmetric(data.labels, 0.3, 10, 1)
    return replace(data, labels=noisy.labels), noisy


def test_a_network_judges_what_it_did_not_see(digits, tmp_path, monkeypatch):
    data, noisy = digits
    seen = []
    train = engine.train

    def spied(config, **options):
        seen.append(options["data"])
        return train(config, **options)

    monkeypatch.setattr(engine, "train", spied)
    found = audit_pictures(data, method="network", settings=EPOCHS, folder=tmp_path, folds=2, quiet=True)
    assert roc_auc_score(noisy.flipped, found.labels.scores) > 0.93
    np.testing.assert_allclose(found.probabilities.sum(1), 1, atol=1e-4)
    assert len(seen) == 2
    for part in seen:
        together = np.concatenate([part.train.labels, part.test.labels])
        assert len(together) == len(data)
        assert torch.equal(part.test_labels.cpu(), torch.tensor(part.test.labels))
    fold = cross_validation.stratified_folds(data.labels, 2, 0)
    np.testing.assert_array_equal(seen[0].train.labels, data.labels[fold != 0])
    again = audit_pictures(data, method="network", settings=EPOCHS, folder=tmp_path, folds=2, quiet=True)
    np.testing.assert_array_equal(again.probabilities, found.probabilities)


def test_what_was_stopped_goes_on(digits, tmp_path, monkeypatch):
    data, _ = digits
    small = data.subset(np.arange(300))
    options = {"method": "network", "settings": {"epochs": 1}, "folds": 2, "quiet": True}
    whole = audit_pictures(small, folder=tmp_path / "whole", **options)
    train, calls = engine.train, []

    def stopped(config, **how):
        calls.append(config.seed)
        if len(calls) == 2:
            raise Interrupted(config.run_id)
        return train(config, **how)

    monkeypatch.setattr(engine, "train", stopped)
    with pytest.raises(Interrupted):
        audit_pictures(small, folder=tmp_path / "parts", **options)
    found = audit_pictures(small, folder=tmp_path / "parts", **options)
    np.testing.assert_array_equal(found.probabilities, whole.probabilities)


def test_dynamics_of_one_run_tell_wrong_labels(digits):
    data, noisy = digits
    told = []
    found = audit_pictures(
        data, method="dynamics", settings=EPOCHS, tell=lambda what, share: told.append(share)
    )
    moved = found.dynamics
    assert moved.loss.shape == moved.margin.shape == moved.pull.shape == (3, len(data))
    assert roc_auc_score(noisy.flipped, found.labels.scores) > 0.93
    assert moved.loss[:, noisy.flipped].mean() > moved.loss[:, ~noisy.flipped].mean() + 0.5
    assert moved.margin[2, ~noisy.flipped].mean() > moved.margin[0, ~noisy.flipped].mean()
    assert told[-1] == pytest.approx(1)
    assert told == sorted(told)


def test_masks_are_refused():
    data = datasets.LabeledData(
        name="mine",
        split="train",
        labels=np.zeros(2, np.int64),
        class_names=("a",),
        images=np.zeros((2, 8, 8, 3), np.uint8),
        masks=np.zeros((2, 8, 8), np.uint8),
    )
    with pytest.raises(ValueError, match="has masks; an audit looks at labels of whole images"):
        audit_pictures(data)
