# SPDX-License-Identifier: Apache-2.0
"""Asymmetric noise, its named flips, and noise of any transition matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise import reference

from noiseproof import noise
from noiseproof.noise import flips

GENERATORS = ("exact-published", "exact-fast", "bernoulli")


@st.composite
def transitions(draw):
    num_classes = draw(st.integers(2, 6))
    weights = draw(
        st.lists(
            st.lists(st.integers(0, 5), min_size=num_classes, max_size=num_classes).filter(any),
            min_size=num_classes,
            max_size=num_classes,
        )
    )
    matrix = np.array(weights, dtype=float)
    return matrix / matrix.sum(axis=1, keepdims=True)


@given(transitions(), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_exact_is_the_published_draw(matrix, size, seed):
    labels = np.arange(len(matrix)).repeat(size + 1)
    expected = reference.published_exact(labels, matrix, seed)
    assert np.array_equal(noise.from_transition(labels, matrix, seed).labels, expected)


@given(transitions(), st.integers(0, 2**32 - 1), st.sampled_from(GENERATORS))
def test_impossible_cells_stay_empty(matrix, seed, generator):
    labels = np.arange(len(matrix)).repeat(40)
    noisy = noise.from_transition(labels, matrix, seed, generator)
    impossible = (matrix == 0.0) & ~np.eye(len(matrix), dtype=bool)
    assert not noisy.counts[impossible].any()
    np.testing.assert_allclose(noisy.transition.sum(axis=1), 1.0)
    if generator != "bernoulli":
        cells = np.floor(matrix * 40)[~np.eye(len(matrix), dtype=bool)]
        assert np.array_equal(noisy.counts[~np.eye(len(matrix), dtype=bool)], cells)


def test_bernoulli_follows_the_matrix():
    matrix = np.array([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7], [0.0, 0.3, 0.7]])
    noisy = noise.from_transition(np.arange(3).repeat(60_000), matrix, 3, "bernoulli")
    np.testing.assert_allclose(noisy.transition, matrix, atol=0.01)


def test_bernoulli_by_hand():
    matrix = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.125, 0.0, 0.875]])
    labels = np.arange(3).repeat(20)
    numbers = (np.random.PCG64(9).random_raw(60) >> np.uint64(11)) * 2.0**-53
    sums = np.cumsum(matrix, axis=1)
    expected = [int(np.argmax(sums[label] > u)) for label, u in zip(labels, numbers, strict=True)]
    assert noise.from_transition(labels, matrix, 9, "bernoulli").labels.tolist() == expected


def test_cifar10_flips():
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    told = {names[true]: names[given] for true, given in flips.CIFAR10.items()}
    assert told == {
        "truck": "automobile",
        "bird": "airplane",
        "deer": "horse",
        "cat": "dog",
        "dog": "cat",
    }
    noisy = noise.asymmetric(np.arange(10).repeat(5_000), 0.4, "cifar10", seed=1)
    assert noisy.realised_rate == 0.2
    for true, given_class in flips.CIFAR10.items():
        assert noisy.counts[true, given_class] == 2_000


def test_mnist_like_flips():
    assert dict(flips.MNIST_LIKE) == {7: 1, 2: 7, 5: 6, 6: 5, 3: 8}


def test_published_draw_of_the_named_flips():
    labels = np.random.RandomState(3).permutation(np.arange(100).repeat(20))
    for name in ("cifar100-blocks", "cifar100-superclass"):
        matrix = noise.asymmetric_transition(0.4, name)
        expected = reference.published_exact(labels, matrix, 2)
        assert np.array_equal(noise.asymmetric(labels, 0.4, name, seed=2).labels, expected)


def test_six_of_a_hundred_block_flips_stay_in_their_superclass():
    superclass = {c: number for number, group in enumerate(flips.CIFAR100_SUPERCLASSES) for c in group}
    assert sorted(superclass) == list(range(100))
    assert all(len(group) == 5 for group in flips.CIFAR100_SUPERCLASSES)

    def inside(mapping):
        return sum(superclass[true] == superclass[given] for true, given in mapping.items())

    assert inside(flips.CIFAR100_BLOCKS) == 6
    assert inside(flips.CIFAR100_SUPERCLASS) == 100
    for mapping in (flips.CIFAR100_BLOCKS, flips.CIFAR100_SUPERCLASS):
        assert sorted(mapping) == sorted(mapping.values()) == list(range(100))
        assert all(true != given for true, given in mapping.items())


def test_superclasses_are_those_of_the_official_file(human_files):
    fine = noise.human._read(human_files["CIFAR-100"])
    for class_index, coarse in zip(fine["clean_label"], fine["clean_coarse_label"], strict=True):
        assert class_index in flips.CIFAR100_SUPERCLASSES[coarse]


def test_flips_of_ones_own():
    labels = np.arange(4).repeat(100)
    mapped = noise.asymmetric(labels, 0.3, {0: 1, 2: 3}, seed=1)
    assert mapped.class_rates.tolist() == [0.3, 0.0, 0.3, 0.0]
    destinations = np.eye(4)
    destinations[0] = [0.0, 0.5, 0.5, 0.0]
    spread = noise.asymmetric(labels, 0.4, destinations, seed=1)
    assert spread.counts[0].tolist() == [60, 20, 20, 0]
    assert noise.asymmetric([0, 1, 4], 1.0, {0: 1}, seed=1).num_classes == 5


def test_a_class_taken_for_itself_keeps_its_labels():
    assert noise.asymmetric([0, 0, 1], 1.0, {0: 0, 1: 0}, seed=1).labels.tolist() == [0, 0, 0]


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_identity_changes_nothing(generator):
    labels = np.arange(3).repeat(9)
    assert noise.from_transition(labels, np.eye(3), 1, generator).realised_rate == 0.0
