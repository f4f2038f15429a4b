# SPDX-License-Identifier: Apache-2.0
"""Suspect labels against known wrong ones; the automatic numbers against the paper's rows."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import roc_auc_score

from noiseproof import noise
from noiseproof.losses import available, record
from noiseproof.sklearn import RobustClassifier, automatic, score_labels


@pytest.mark.parametrize("suspects", ["in-sample", "cross-validated"])
def test_wrong_labels_of_separate_classes_are_found(suspects):
    x, y = make_blobs(400, 5, centers=4, random_state=0)
    noisy = noise.symmetric(y, 0.3, 4, seed=1)
    wrong = noisy.labels != y
    fitted = RobustClassifier(suspects=suspects, folds=3, random_state=1).fit(x, noisy.labels)
    assert roc_auc_score(wrong, fitted.label_scores_) > 0.97
    assert (fitted.suspect_labels_ == wrong).mean() > 0.95
    assert (fitted.suggested_labels_[wrong] == y[wrong]).mean() > 0.95
    assert fitted.estimated_noise_ == pytest.approx(noisy.realised_rate, abs=0.03)


def test_a_class_with_one_sample_can_be_cross_validated():
    x, y = make_blobs(41, 3, centers=2, random_state=0)
    y[0] = 2
    fitted = RobustClassifier(suspects="cross-validated", epochs=20, random_state=1).fit(x, y)
    assert fitted.suspect_labels_[0]
    assert fitted.label_scores_.shape == (41,)


def test_scores_by_hand():
    probabilities = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    scored = score_labels(np.array([0, 2, 1]), probabilities, np.array([1.0, 1.0, 2.0]))
    assert scored.scores == pytest.approx([0.35, 0.6, 0.85])
    assert list(scored.suspect) == [False, True, True]
    assert list(scored.suggested) == [0, 1, 2]
    assert scored.noise_rate == pytest.approx(0.75)


def test_a_tie_is_not_suspect():
    scored = score_labels(np.array([1]), np.array([[0.5, 0.5]]))
    assert not scored.suspect[0]


@pytest.mark.parametrize(
    ("loss", "classes", "expected"),
    [
        ("anl-ce", 2, {"alpha": 5.0, "beta": 5.0}),
        ("anl-ce", 50, {"alpha": 5.0, "beta": 5.0}),
        ("anl-ce", 51, {"alpha": 10.0, "beta": 1.0}),
        ("anl-ce*", 10, {"alpha": 5.0, "beta": 5.0, "entropy_weight": 2.0}),
        ("apl", 100, {"alpha": 10.0, "beta": 0.1}),
        ("gce", 10, {"q": 0.7}),
        ("ce", 10, {}),
    ],
)
def test_hyperparameters_are_the_papers(loss, classes, expected):
    assert automatic(loss, 1000, classes)["loss_parameters"].value == expected


def test_l1_and_weight_decay_exclude_one_another():
    for name in available():
        chosen = automatic(name, 2500, 10)
        assert (chosen["l1"].value == 0) != (chosen["weight_decay"].value == 0), name
        uses_l1 = record(name).recipes.get("cifar10") is not None and record(name).recipes["cifar10"].l1 > 0
        assert chosen["l1"].value == (pytest.approx(6e-4) if uses_l1 else 0.0)
        assert all(choice.reason for choice in chosen.values())


@pytest.mark.parametrize(
    ("samples", "batch", "epochs", "hidden"),
    [
        (20, 20, 300, (64, 64)),
        (1000, 256, 75, (64, 64)),
        (60_000, 256, 20, (64, 64)),
    ],
)
def test_numbers_by_samples(samples, batch, epochs, hidden):
    chosen = automatic("anl-ce", samples, 3)
    assert [chosen[name].value for name in ("batch_size", "epochs", "hidden")] == [batch, epochs, hidden]
    assert chosen["l1"].value == pytest.approx(0.03 / max(samples, 100) ** 0.5)


def test_what_is_said_wins():
    x, y = make_blobs(50, 3, centers=2, random_state=0)
    fitted = RobustClassifier(alpha=1.0, l1=0.01, epochs=2, hidden=(5,), random_state=1).fit(x, y)
    assert fitted.choices_["loss_parameters"].value == {"alpha": 1.0, "beta": 5.0}
    assert fitted.choices_["l1"].value == 0.01
    assert fitted.choices_["epochs"].reason == "given by the user"
    assert fitted.model_.fc.in_features == 5
