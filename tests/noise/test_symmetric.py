# SPDX-License-Identifier: Apache-2.0
"""Symmetric noise: counts, rates, and the published draw."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.noise import reference

from noiseproof import noise
from noiseproof.noise import drawing

GENERATORS = ("exact-published", "exact-fast", "bernoulli", "redraw-over-all-classes")
EXACT = ("exact-published", "exact-fast")


@st.composite
def labelled(draw, most=200):
    num_classes = draw(st.integers(2, 12))
    labels = draw(st.lists(st.integers(0, num_classes - 1), min_size=1, max_size=most))
    return np.array(labels), num_classes


rates = st.floats(0.0, 1.0)
seeds = st.integers(0, 2**32 - 1)


@given(labelled(), rates, seeds)
def test_exact_is_the_published_draw(data, rate, seed):
    labels, num_classes = data
    expected = reference.published_exact(labels, noise.symmetric_transition(rate, num_classes), seed)
    noisy = noise.symmetric(labels, rate, num_classes, seed)
    assert np.array_equal(noisy.labels, expected)
    assert noisy.generator == "exact-published"


@given(labelled(), rates, seeds, st.sampled_from(EXACT))
def test_exact_floors_every_cell(data, rate, seed, generator):
    labels, num_classes = data
    noisy = noise.symmetric(labels, rate, num_classes, seed, generator)
    sizes = np.bincount(labels, minlength=num_classes)
    expected = np.floor(noise.symmetric_transition(rate, num_classes) * sizes[:, None])
    off_diagonal = ~np.eye(num_classes, dtype=bool)
    assert np.array_equal(noisy.counts[off_diagonal], expected[off_diagonal])
    assert np.array_equal(noisy.counts.sum(axis=1), sizes)


@given(labelled(), rates, seeds, st.sampled_from(GENERATORS))
def test_the_record_is_consistent(data, rate, seed, generator):
    labels, num_classes = data
    noisy = noise.symmetric(labels, rate, num_classes, seed, generator)
    assert np.array_equal(noisy.clean, labels)
    assert noisy.labels.min() >= 0
    assert noisy.labels.max() < num_classes
    assert np.array_equal(noisy.flipped, noisy.labels != labels)
    assert noisy.realised_rate == np.mean(noisy.labels != labels)
    np.testing.assert_allclose(noisy.transition.sum(axis=1), 1.0)
    present = np.bincount(labels, minlength=num_classes) > 0
    np.testing.assert_allclose(noisy.class_rates[present], 1.0 - np.diag(noisy.transition)[present])
    assert not np.array_equal(noisy.labels, labels) or noisy.realised_rate == 0.0


@given(labelled(), seeds, st.sampled_from(("exact-published", "bernoulli")))
def test_rate_one_never_draws_the_true_class_of_a_whole_cell(data, seed, generator):
    labels, num_classes = data
    noisy = noise.symmetric(labels, 1.0, num_classes, seed, generator)
    if generator == "bernoulli":
        assert noisy.flipped.all()
    else:  # what flooring leaves over keeps its label: fewer than K - 1 samples a class
        assert (noisy.counts.diagonal() < num_classes - 1).all() or num_classes == 2


@given(labelled(), seeds, st.sampled_from(GENERATORS))
def test_rate_zero_changes_nothing(data, seed, generator):
    labels, num_classes = data
    assert noise.symmetric(labels, 0.0, num_classes, seed, generator).realised_rate == 0.0


@pytest.mark.parametrize(
    ("num_classes", "per_class", "rate", "realised"),
    [(10, 5_000, 0.8, 0.7992), (100, 500, 0.8, 0.792), (10, 5_000, 0.2, 0.1998), (100, 500, 0.2, 0.198)],
)
@pytest.mark.parametrize("generator", EXACT)
def test_published_rates(num_classes, per_class, rate, realised, generator):
    labels = np.arange(num_classes).repeat(per_class)
    assert noise.symmetric(labels, rate, num_classes, 1, generator).realised_rate == realised


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_published_labels_of_cifar10_sized_data(seed):
    labels = np.random.RandomState(0).permutation(np.arange(10).repeat(5_000))
    expected = reference.published_exact(labels, noise.symmetric_transition(0.8, 10), seed)
    assert np.array_equal(noise.symmetric(labels, 0.8, 10, seed).labels, expected)


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.8, 1.0])
def test_drawn_ones_have_the_right_law(rate):
    labels = np.arange(5).repeat(40_000)
    bernoulli = noise.symmetric(labels, rate, 5, 7, "bernoulli").transition
    np.testing.assert_allclose(bernoulli, noise.symmetric_transition(rate, 5), atol=0.01)
    redrawn = noise.symmetric(labels, rate, 5, 7, "redraw-over-all-classes")
    expected = (1 - rate) * np.eye(5) + rate / 5
    np.testing.assert_allclose(redrawn.transition, expected, atol=0.01)
    assert redrawn.realised_rate == pytest.approx(rate * 4 / 5, abs=0.005)


def test_bernoulli_by_hand():
    """Each step of the documented arithmetic, in whole numbers."""
    labels = np.arange(7).repeat(30)
    words = np.random.PCG64(5).random_raw(labels.size)
    expected = []
    for word, label in zip(words.tolist(), labels.tolist(), strict=True):
        steps = int((word >> 11) * 2.0**-53 * (6 / 0.6))
        expected.append((label + 1 + steps) % 7 if steps < 6 else label)
    assert noise.symmetric(labels, 0.6, 7, 5, "bernoulli").labels.tolist() == expected


def test_tiny_rates_do_not_overflow():
    labels = np.zeros(1_000, dtype=int)
    for generator in ("bernoulli", "redraw-over-all-classes"):
        assert noise.symmetric(labels, 5e-324, 3, 1, generator).realised_rate == 0.0


@settings(max_examples=20)
@given(st.integers(2, 400), seeds)
def test_many_classes(num_classes, seed):
    labels = np.arange(num_classes).repeat(3)
    for generator in GENERATORS:
        noisy = noise.symmetric(labels, 1.0, num_classes, seed, generator)
        assert noisy.labels.max() < num_classes


def test_exact_changes_draw_beyond_a_million_and_says_so():
    labels = np.zeros(drawing.LARGEST_PUBLISHED_DRAW + 1, dtype=np.uint8)
    noisy = noise.symmetric(labels, 0.5, 2, 1)
    assert noisy.generator == "exact-fast"
    assert noisy == noise.symmetric(labels, 0.5, 2, 1, generator="exact-fast")
    assert noise.symmetric(labels[:-1], 0.5, 2, 1).generator == "exact-published"


def test_nothing_global_is_touched_or_changed():
    labels = np.arange(10).repeat(50)
    before = labels.copy()
    np.random.seed(123)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    for generator in GENERATORS:
        noise.symmetric(labels, 0.5, 10, 1, generator)
    assert np.array_equal(labels, before)
    assert labels.flags.writeable
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_seeds_differ_and_repeat():
    labels = np.arange(10).repeat(50)
    for generator in GENERATORS:
        first, again, other = (noise.symmetric(labels, 0.5, 10, seed, generator) for seed in (1, 1, 2))
        assert first == again
        assert not np.array_equal(first.labels, other.labels)
