# SPDX-License-Identifier: Apache-2.0
"""Images of no class, and several annotators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseproof import noise


@given(st.integers(1, 60), st.floats(0.0, 1.0), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_open_set(size, rate, num_outside, seed):
    labels = np.arange(4).repeat(size)
    noisy = noise.open_set(labels, rate, 4, seed, num_outside)
    assert np.array_equal(noisy.labels, labels)
    replaced = noisy.outside >= 0
    assert np.array_equal(noisy.flipped, replaced)
    assert np.bincount(labels[replaced], minlength=4).tolist() == [int(rate * size)] * 4
    used = np.bincount(noisy.outside[replaced], minlength=num_outside)
    assert used.size == num_outside
    assert used.max() - used.min() <= 1  # each is used once before any is used again
    assert noisy.counts.sum() == (~replaced).sum()
    np.testing.assert_allclose(noisy.transition, np.eye(4))


def test_outside_images_are_put_in():
    labels = np.arange(3).repeat(20)
    noisy = noise.open_set(labels, 0.5, 3, 1, num_outside=7)
    images = np.zeros((60, 4, 4, 3), dtype=np.uint8)
    outside = np.arange(1, 8, dtype=np.uint8)[:, None, None, None] * np.ones((1, 4, 4, 3), dtype=np.uint8)
    shown = noise.with_outside_images(noisy, images, outside)
    assert np.array_equal(shown[:, 0, 0, 0], noisy.outside + 1)
    assert not images.any()


def test_wrong_outside_images():
    noisy = noise.open_set([0, 0, 1, 1], 0.5, 2, 1, num_outside=9)
    images = np.zeros((4, 2, 2), dtype=np.uint8)
    for arguments, message in (
        ((images[:3], images), "images must be one per label"),
        ((images, np.zeros((9, 3, 3), np.uint8)), "outside_images must be like images"),
        ((images, np.zeros((9, 2, 2))), "outside_images must be like images"),
        ((images, images[:1]), r"those the noise was drawn for \(9\), got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            noise.with_outside_images(noisy, *arguments)
    with pytest.raises(ValueError, match="must be open-set noise, got kind 'symmetric'"):
        noise.with_outside_images(noise.symmetric([0, 1], 0.5, 2, 1), images, images)


def test_each_annotator_errs_at_their_own_rate():
    labels = np.arange(5).repeat(10_000)
    noisy = noise.annotators(labels, [0.0, 0.2, 0.7], 5, seed=2)
    wrong = (noisy.answers != labels[:, None]).mean(axis=0)
    np.testing.assert_allclose(wrong, [0.0, 0.2, 0.7], atol=0.01)
    assert noisy.realised_rate == pytest.approx(0.3, abs=0.01)
    assert (noisy.answers == noisy.labels[:, None]).any(axis=1).all()


def test_annotators_with_matrices():
    swap, honest = np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)
    noisy = noise.annotators([0, 1, 0, 1], np.stack([swap, honest]), 2, seed=1)
    assert noisy.answers.tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]


@given(st.integers(1, 5), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_majority_is_a_commonest_answer(count, num_classes, seed):
    labels = np.arange(num_classes).repeat(10)
    noisy = noise.annotators(labels, [0.6] * count, num_classes, seed, aggregate="majority")
    for answers, label in zip(noisy.answers, noisy.labels, strict=True):
        votes = np.bincount(answers, minlength=num_classes)
        assert votes[label] == votes.max()


def test_ties_are_broken_evenly():
    swap, honest = np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)
    noisy = noise.annotators(np.zeros(20_000, int), np.stack([swap, honest]), 2, 1, aggregate="majority")
    assert noisy.realised_rate == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("rates", [[], 0.5, [[0.5]], np.zeros((1, 2, 3))])
def test_bad_annotators(rates):
    with pytest.raises(ValueError, match="rates must be"):
        noise.annotators([0, 1], rates, 2, seed=1)
