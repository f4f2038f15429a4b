# SPDX-License-Identifier: Apache-2.0
"""The noise estimate, against noise that was drawn, on probabilities whose closed form is known."""

import numpy as np
import pytest

from noiseproof.audit import estimate_noise
from noiseproof.audit.noise_rate import NoiseEstimate


def pair(classes, rate):
    return (1 - rate) * np.eye(classes) + rate * np.roll(np.eye(classes), 1, axis=1)


def alike(classes, rate):
    return np.eye(classes) * (1 - rate - rate / (classes - 1)) + rate / (classes - 1)


def gaussian(transition, count=6000, distance=4.0, seed=0):
    """True and given labels, and P(given | x) exactly: classes are unit Gaussians at the corners of a simplex."""
    random = np.random.RandomState(seed)
    classes = len(transition)
    true = random.randint(classes, size=count)
    points = distance * np.eye(classes)[true] + random.randn(count, classes)
    logits = distance * points
    posterior = np.exp(logits - logits.max(1, keepdims=True))
    posterior /= posterior.sum(1, keepdims=True)
    given = (random.rand(count, 1) > transition.cumsum(1)[true]).sum(1)
    return true, given, posterior @ transition


@pytest.mark.parametrize(
    "transition",
    [np.eye(4), alike(4, 0.2), alike(4, 0.5), pair(4, 0.2), pair(4, 0.4), pair(3, 0.45)],
    ids=["clean", "sym-0.2", "sym-0.5", "pair-0.2", "pair-0.4", "pair-0.45"],
)
def test_finds_rate_and_transition_of_calibrated_probabilities(transition):
    true, given, probabilities = gaussian(transition)
    found = estimate_noise(given, probabilities)
    assert found.rate == pytest.approx((true != given).mean(), abs=0.03)
    assert np.abs(found.transition - transition).max() < 0.06
    np.testing.assert_allclose(found.transition.sum(1), 1)
    np.testing.assert_allclose(found.class_rates, 1 - np.diag(found.transition))


@pytest.mark.parametrize("power", [0.3, 3.0])
def test_uncalibrated_probabilities_do_not_move_the_rate(power):
    true, given, probabilities = gaussian(pair(4, 0.3))
    bent = probabilities**power
    found = estimate_noise(given, bent / bent.sum(1, keepdims=True))
    assert found.rate == pytest.approx((true != given).mean(), abs=0.03)


def test_posterior_is_bayes_rule():
    estimate = NoiseEstimate(0.0, np.array([[0.9, 0.1], [0.4, 0.6]]), np.eye(2), np.zeros(2))
    given, probabilities = np.array([0, 1]), np.array([[0.7, 0.3], [0.2, 0.8]])
    expected = [0.7 * 0.9 / (0.7 * 0.9 + 0.3 * 0.4), 0.2 * 0.1 / (0.2 * 0.1 + 0.8 * 0.6)]
    np.testing.assert_allclose(estimate.posterior(given, probabilities)[:, 0], expected)


def test_a_class_that_nobody_was_given_does_no_harm():
    _, given, probabilities = gaussian(alike(3, 0.2), count=2000)
    wider = np.column_stack([probabilities, np.zeros(len(given))])
    found = estimate_noise(given, wider)
    assert np.isfinite(found.transition).all()
    assert found.rate == pytest.approx(0.2, abs=0.04)


def test_two_classes_near_the_limit_are_not_swapped():
    true, given, probabilities = gaussian(alike(2, 0.4), count=3000)
    posterior = estimate_noise(given, probabilities).posterior(given, probabilities)
    assert (posterior.argmax(1) == true).mean() > 0.9


def test_one_class_and_one_sample():
    assert estimate_noise(np.zeros(3, np.int64), np.ones((3, 1))).rate == 0
    assert 0 <= estimate_noise(np.array([1]), np.array([[0.5, 0.5]])).rate <= 1


def test_is_the_same_for_rows_in_a_file(tmp_path):
    _, given, probabilities = gaussian(pair(3, 0.2), count=1000)
    np.save(tmp_path / "p.npy", probabilities)
    on_disk = np.load(tmp_path / "p.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        estimate_noise(given, on_disk).transition, estimate_noise(given, probabilities).transition
    )


@pytest.mark.parametrize(
    ("labels", "probabilities", "message"),
    [
        ([0.5], [[1.0]], "labels: expected class indices"),
        ([], np.ones((0, 1)), "labels: expected at least one, got none"),
        ([-1], [[1.0]], "labels: expected class indices from 0, got -1"),
        ([2], [[0.5, 0.5]], "labels: expected class indices below 2"),
        ([0, 1], [[0.5, 0.5]], "a row for each of 2 labels, got 1"),
        ([0], [[2.0, 3.0]], "logits need a softmax first"),
        ([0], [[float("nan"), 1.0]], "expected rows of numbers >= 0 that sum to 1, got row 0"),
        ([0], [[1, 0]], "probabilities: expected floats"),
    ],
)
def test_says_what_is_wrong_with_its_input(labels, probabilities, message):
    labels = np.array(labels) if len(labels) else np.zeros(0, np.int64)
    with pytest.raises(ValueError, match=message):
        estimate_noise(labels, np.array(probabilities))
