# SPDX-License-Identifier: Apache-2.0
"""Labels of unexpected types, at every door that takes labels: an error of ours, or labels as they are meant."""

import numpy as np
import pytest
import torch

from noiseproof import losses, noise
from noiseproof.datasets import LabeledData
from noiseproof.sklearn import RobustClassifier

WRONG = {
    "floats": np.array([0.0, 1.0, 2.0]),
    "texts": np.array(["0", "1", "2"]),
    "objects": np.array([0, "1", None], dtype=object),
    "booleans": np.array([True, False, True]),
    "complex": np.array([0j, 1j, 2]),
    "dates": np.array(["2026-01-01"] * 3, dtype="datetime64[D]"),
    "negative": np.array([0, -1, 2]),
    "too large": np.array([0, 1, 2**62]),
    "unsigned beyond int64": np.array([0, 1, 2**64 - 1], dtype=np.uint64),
    "empty": np.array([], dtype=np.int64),
    "a matrix": np.array([[0, 1], [1, 2]]),
    "a number": np.int64(1),
    "not finite": np.array([0.0, np.nan, np.inf]),
}


@pytest.mark.parametrize("kind", WRONG)
def test_noise_refuses(kind):
    with pytest.raises((ValueError, TypeError), match="labels"):
        noise.symmetric(WRONG[kind], 0.5, 3, seed=1)


@pytest.mark.parametrize("kind", [each for each in WRONG if each != "empty"])
def test_data_sets_refuse(kind):
    labels = WRONG[kind]
    images = np.zeros((np.size(labels), 2, 2, 3), np.uint8)
    with pytest.raises((ValueError, TypeError), match="labels"):
        LabeledData("mine", "train", labels, ("a", "b", "c"), images=images)


@pytest.mark.parametrize("name", losses.available())
@pytest.mark.parametrize(
    "labels",
    [
        torch.tensor([0, 1, 3]),
        torch.tensor([0, -1, 2]),
        torch.tensor([0.0, 1.0, 2.0]),
        torch.tensor([True, False, True]),
        torch.tensor([0, 1]),
        torch.zeros(3, 3, dtype=torch.int64),
        torch.tensor([0, 1, 2], dtype=torch.complex64),
    ],
    ids=["too large", "negative", "floats", "booleans", "too few", "matrix", "complex"],
)
def test_losses_refuse(name, labels):
    with pytest.raises((ValueError, TypeError, IndexError)) as caught:
        losses.create(name)(torch.zeros(3, 3), labels)
    assert "target" in str(caught.value) or "label" in str(caught.value)


@pytest.mark.parametrize("kind", ["not finite", "objects", "complex", "a matrix", "a number", "empty"])
def test_the_estimator_refuses(kind):
    labels = WRONG[kind]
    samples = np.zeros((max(1, np.size(labels)), 2))
    with pytest.raises((ValueError, TypeError)):
        RobustClassifier(epochs=1).fit(samples, labels)


@pytest.mark.parametrize("labels", [["=1", "<b>", "🐈"] * 4, [True, False] * 6, [-5, 7, 10**9] * 4])
def test_the_estimator_takes_any_classes_that_can_be_told_apart(labels):
    samples = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    fitted = RobustClassifier(epochs=1, random_state=0).fit(samples, labels)
    assert set(fitted.predict(samples).tolist()) <= set(labels)
