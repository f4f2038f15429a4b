# SPDX-License-Identifier: Apache-2.0
"""Scores: hand values, cleanlab's where it is installed, and what they are for: wrong labels come first."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from noiseproof import datasets, noise
from noiseproof.audit import SCORES, audit, estimate_noise, score_labels
from noiseproof.audit.cross_validation import linear_probabilities, picture_probabilities, stratified_folds


@pytest.fixture(scope="module")
def digits():
    """Given and true labels of digits, and cross-validated probabilities of a logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    data = datasets.load("digits")
    features = data.images.reshape(len(data), -1) / 255.0
    given = noise.asymmetric(data.labels, 0.4, "mnist-like", 1).labels
    model = LogisticRegression(max_iter=400, C=1.0)
    return given, data.labels, cross_val_predict(model, features, given, cv=3, method="predict_proba")


def test_plain_scores_by_hand():
    given, probabilities = np.array([0, 1]), np.array([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3]])
    noise_estimate = estimate_noise(given, probabilities)
    expected = {"self-confidence": [0.5, 0.9], "margin": [0.4, 0.75]}
    for name, values in expected.items():
        np.testing.assert_allclose(
            score_labels(given, probabilities, score=name, noise=noise_estimate).scores, values
        )


def test_plain_scores_rank_as_cleanlab_does(digits):
    rank = pytest.importorskip("cleanlab.rank", reason="cleanlab is not installed")
    given, _, probabilities = digits
    estimate = estimate_noise(given, probabilities)
    for ours, theirs in (("self-confidence", "self_confidence"), ("margin", "normalized_margin")):
        quality = rank.get_label_quality_scores(given, probabilities, method=theirs, adjust_pred_probs=False)
        scored = score_labels(given, probabilities, score=ours, noise=estimate)
        np.testing.assert_allclose(scored.scores, 1 - quality, atol=1e-6)


def test_posterior_finds_more_than_any_score_of_cleanlab(digits):
    rank = pytest.importorskip("cleanlab.rank", reason="cleanlab is not installed")
    given, true, probabilities = digits
    wrong = given != true
    ours = score_labels(given, probabilities).scores
    for method in ("self_confidence", "normalized_margin", "confidence_weighted_entropy"):
        theirs = -rank.get_label_quality_scores(given, probabilities, method=method, adjust_pred_probs=False)
        assert roc_auc_score(wrong, ours) > roc_auc_score(wrong, theirs)
        assert average_precision_score(wrong, ours) > average_precision_score(wrong, theirs)


def test_what_is_suspect_is_what_is_suggested_otherwise(digits):
    given, true, probabilities = digits
    found = score_labels(given, probabilities)
    np.testing.assert_array_equal(found.suspect, found.suggested != found.given)
    np.testing.assert_array_equal(found.cleaned[~found.suspect], given[~found.suspect])
    assert (found.cleaned == true).mean() > (given == true).mean() + 0.1
    assert (np.diff(found.scores[found.worst_first]) <= 0).all()
    assert found.disagreement == (found.predicted != given).mean()
    assert (found.predicted == true).mean() > (probabilities.argmax(1) == true).mean()
    assert found.noise_rate == pytest.approx((given != true).mean(), abs=0.03)


def test_of_equal_scores_the_label_that_is_believed_least_comes_first(digits):
    given, _, probabilities = digits
    found = score_labels(given, probabilities)
    sure = replace(found, scores=(found.scores > 0.5).astype(np.float32))
    first = sure.worst_first[: int(sure.scores.sum())]
    assert (sure.scores[first] == 1).all()
    assert (np.diff(sure.probability_of_given[first]) >= 0).all()


def test_every_score_is_between_0_and_1(digits):
    given, _, probabilities = digits
    estimate = estimate_noise(given, probabilities)
    for name in SCORES:
        scores = score_labels(given, probabilities, score=name, noise=estimate).scores
        assert 0 <= scores.min() <= scores.max() <= 1


def test_a_model_that_knows_nothing_is_told_from_one_that_does(digits):
    given, _, probabilities = digits
    assert not score_labels(given, probabilities).is_by_chance
    shuffled = probabilities[np.random.RandomState(0).permutation(len(given))]
    assert score_labels(given, shuffled).is_by_chance


def test_an_unknown_score_is_told_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'margin'"):
        score_labels(np.array([0]), np.array([[1.0]]), score="margn")


def test_folds_share_out_every_class():
    labels = np.repeat([0, 1, 2], [30, 9, 4])
    part = stratified_folds(labels, 3, seed=1)
    for label in range(3):
        counts = np.bincount(part[labels == label], minlength=3)
        assert counts.max() - counts.min() <= 1
    with pytest.raises(ValueError, match="folds: expected a number from 2 to 43"):
        stratified_folds(labels, 1)


def test_linear_probabilities_are_those_of_ridge_regression_on_the_other_folds():
    import torch
    from sklearn.linear_model import Ridge

    random = np.random.RandomState(0)
    features = random.randn(240, 5).astype(np.float32)
    labels = (features[:, 0] + 0.5 * random.randn(240) > 0).astype(np.int64)
    part = stratified_folds(labels, 3, seed=0)

    def blocks():
        for start in range(0, 240, 100):
            rows = np.arange(start, min(start + 100, 240))
            yield rows, torch.from_numpy(features[rows])

    found = linear_probabilities(blocks, labels, 2, folds=3, seed=0)
    shares = np.bincount(labels) / 240
    best = None
    for penalty in (0.01, 0.1, 1.0):
        predicted = np.empty((240, 2))
        for fold in range(3):
            rest = part != fold
            ridge = Ridge(alpha=penalty * rest.sum(), fit_intercept=False)
            predicted[~rest] = ridge.fit(features[rest], np.eye(2)[labels[rest]] - shares).predict(
                features[~rest]
            )
        error = np.square(predicted - (np.eye(2)[labels] - shares)).mean()
        if best is None or error < best[0]:
            best = error, predicted + shares
    # A temperature leaves the log-odds in proportion to the predictions.
    odds = np.log(found[:, 0] / found[:, 1])
    differences = best[1][:, 0] - best[1][:, 1]
    np.testing.assert_allclose(odds / odds.std(), differences / differences.std(), atol=1e-3)


def test_patches_find_wrong_digits():
    data = datasets.load("digits")
    from dataclasses import replace

    noisy = noise.symmetric(data.labels, 0.3, 10, 1)
    probabilities = picture_probabilities(replace(data, labels=noisy.labels), filters=60)
    found = score_labels(noisy.labels, probabilities)
    assert roc_auc_score(noisy.flipped, found.scores) > 0.97
    assert found.noise_rate == pytest.approx(noisy.realised_rate, abs=0.03)


def test_audit_takes_labels_with_probabilities_tensors_classifiers_and_networks(digits):
    import torch
    from sklearn.linear_model import LogisticRegression

    given, true, probabilities = digits
    by_arrays = audit(given, probabilities)
    by_tensors = audit(torch.tensor(given), torch.tensor(probabilities), noise=by_arrays.noise)
    np.testing.assert_allclose(by_tensors.scores, by_arrays.scores, atol=1e-4)

    data = datasets.load("digits")
    features = data.images.reshape(len(data), -1) / 255.0
    by_classifier = audit(LogisticRegression(max_iter=400, C=1.0), (features, given))
    assert roc_auc_score(given != true, by_classifier.scores) > 0.9

    class Known(torch.nn.Module):
        def forward(self, inputs):
            return inputs.log()

    by_network = audit(Known(), (torch.tensor(probabilities), given), noise=by_arrays.noise)
    np.testing.assert_allclose(by_network.scores, by_arrays.scores, atol=1e-4)


def test_audit_says_what_it_wants():
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(TypeError, match="expected a pair"):
        audit(LogisticRegression(), np.zeros((3, 2)))
    with pytest.raises(TypeError, match="expected images"):
        audit("cnn8", np.zeros((3, 2)))
