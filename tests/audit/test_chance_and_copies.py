# SPDX-License-Identifier: Apache-2.0
"""A model that knows nothing is told from one that finds a rare class, and copies of a sample stay together."""

from dataclasses import replace

import numpy as np
import pytest

from noiseproof import datasets, noise
from noiseproof.audit import score_labels
from noiseproof.audit.cross_validation import picture_probabilities, stratified_folds
from noiseproof.audit.scores import chance_agreement
from noiseproof.planning.noise_guess import guess_noise


@pytest.mark.parametrize(("count", "rare"), [(200, 8), (200, 6), (100, 3), (1000, 5)])
def test_who_finds_every_sample_of_a_rare_class_does_so_by_no_chance(count, rare):
    given = (np.arange(count) < rare).astype(np.int64)
    perfect = np.where(np.eye(2)[given] > 0, 0.98, 0.02)
    assert not score_labels(given, perfect).is_by_chance
    assert not guess_noise(given, perfect).is_uncertain


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.2,) * 5])
def test_who_says_always_the_same_or_anything_knows_nothing(shares):
    random = np.random.RandomState(0)
    given = random.choice(len(shares), size=400, p=shares)
    always = np.tile(np.eye(len(shares))[np.argmax(shares)] * 0.9 + 0.1 / len(shares), (400, 1))
    assert score_labels(given, always).is_by_chance
    guesses = [random.dirichlet(np.ones(len(shares)), 400) for _ in range(40)]
    assert sum(score_labels(given, each, score="margin").is_by_chance for each in guesses) >= 38


def test_the_mean_and_deviation_are_those_of_shuffled_predictions():
    random = np.random.RandomState(1)
    given, predicted = random.choice(4, 90, p=[0.6, 0.2, 0.15, 0.05]), random.choice(3, 90, p=[0.3, 0.3, 0.4])
    agreed = [float((random.permutation(predicted) == given).mean()) for _ in range(20_000)]
    assert chance_agreement(given, predicted) == pytest.approx(
        np.mean(agreed) + 3 * np.std(agreed), abs=0.003
    )


def test_copies_go_into_the_same_part_and_classes_are_still_shared_out():
    contents = np.repeat(np.arange(60), 2)
    labels = np.repeat(np.arange(60) % 3, 2)
    part = stratified_folds(labels, 4, seed=1, contents=contents)
    assert np.array_equal(part[::2], part[1::2])
    for fold in range(4):
        assert np.bincount(labels[part == fold]).tolist() == [10, 10, 10]
    assert np.array_equal(
        stratified_folds(labels, 4, seed=1, contents=np.arange(120)), stratified_folds(labels, 4, 1)
    )
    with pytest.raises(ValueError, match="from 2 to 60, the samples, got 61"):
        stratified_folds(labels, 61, contents=contents)


def test_wrong_labels_of_pictures_that_occur_twice_are_found():
    """Apart, the model would have learnt each wrong label from the picture's own copy."""
    digits = datasets.load("digits").subset(range(500))
    given = noise.symmetric(digits.labels, 0.3, 10, seed=1).labels
    twice = digits.subset(np.repeat(np.arange(500), 2))
    twice = replace(twice, labels=np.repeat(given, 2))
    found = score_labels(twice.labels, picture_probabilities(twice, filters=128))
    wrong = np.repeat(given != digits.labels, 2)
    assert found.suspect[wrong].mean() > 0.85
    assert abs(found.noise_rate - wrong.mean()) < 0.06
