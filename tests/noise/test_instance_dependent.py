# SPDX-License-Identifier: Apache-2.0
"""Instance-dependent noise against the per-sample loops, and the published realisation on CIFAR-10."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_digits
from tests.noise import reference

from noiseproof import noise
from noiseproof.noise import part_dependent
from noiseproof.noise.instance_dependent import GENERATORS


def random_images(count, num_classes, shape=(8, 8, 3), seed=0):
    random = np.random.RandomState(seed)
    images = random.randint(0, 256, (count, *shape)).astype(np.uint8)
    return images, random.randint(0, num_classes, count)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1.0), st.integers(2, 12))
def test_pdn_is_the_loop(seed, rate, num_classes):
    images, labels = random_images(60, num_classes, seed=seed % 1000)
    expected = reference.part_dependent(images, labels, rate, num_classes, seed)
    noisy = noise.instance_dependent(images, labels, rate, num_classes, seed)
    assert np.array_equal(noisy.labels, expected)


@pytest.mark.parametrize("rate", [0.2, 0.4, 0.8])
def test_pdn_is_the_loop_on_real_digits(rate):
    """Small pixels make close races between classes, so that nearly every sample takes the exact path."""
    data = load_digits()
    images = data.images.astype(np.uint8)
    expected = reference.part_dependent(images, data.target, rate, 10, 0)
    noisy = noise.instance_dependent(images, data.target, rate, 10, 0)
    assert np.array_equal(noisy.labels, expected)


def test_every_path_gives_the_same_labels(monkeypatch):
    """Forced through the exact recomputation, no sample that a lead had settled changes."""
    images, labels = random_images(400, 7, shape=(32, 32, 3))
    usual = noise.instance_dependent(images, labels, 0.4, 7, 3).labels
    monkeypatch.setattr(part_dependent, "DECISIVE_LEAD", np.inf)
    everything_exact = noise.instance_dependent(images, labels, 0.4, 7, 3).labels
    assert np.array_equal(usual, everything_exact)


def test_blocks_do_not_matter(monkeypatch):
    images, labels = random_images(300, 5)
    for generator in GENERATORS:
        usual = noise.instance_dependent(images, labels, 0.4, 5, 3, generator).labels
        monkeypatch.setattr("noiseproof.noise.projections.BYTES_PER_BLOCK", 1)
        assert np.array_equal(noise.instance_dependent(images, labels, 0.4, 5, 3, generator).labels, usual)
        monkeypatch.undo()


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95))
def test_shared_projection_is_the_loop(seed, rate):
    images, labels = random_images(60, 5, seed=seed % 1000)
    expected = reference.shared_projection(images, labels, rate, 5, seed)
    noisy = noise.instance_dependent(images, labels, rate, 5, seed, "shared-projection")
    assert np.array_equal(noisy.labels, expected)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_fixed_count_is_exact(seed, rate):
    images, labels = random_images(50, 4)
    noisy = noise.instance_dependent(images, labels, rate, 4, seed, "fixed-count")
    assert noisy.flipped.sum() == int(rate * 50)


def test_fixed_count_follows_the_standardised_softmax():
    """One pixel a channel, two channels: the drawn shares are those of the formula."""
    images = np.zeros((40_000, 1, 1, 2), dtype=np.uint8)
    images[::2] = (10, 200)
    images[1::2] = (30, 100)
    labels = np.zeros(40_000, dtype=int)
    noisy = noise.instance_dependent(images, labels, 1.0, 3, 5, "fixed-count")
    stream = np.random.RandomState(5)
    stream.permutation(40_000)
    stream.random_sample(40_000)
    weights = stream.randn(2, 3)
    for first, standardised in ((0, (-1.0, 1.0)), (1, (1.0, -1.0))):
        powers = np.exp(np.array(standardised) @ weights)[1:]
        shares = np.bincount(noisy.labels[first::2], minlength=3)[1:] / 20_000
        np.testing.assert_allclose(shares, powers / powers.sum(), atol=0.012)


@pytest.mark.parametrize("generator", GENERATORS)
def test_rate_zero_is_no_noise(generator):
    images, labels = random_images(50, 4)
    assert noise.instance_dependent(images, labels, 0.0, 4, 1, generator).realised_rate == 0.0


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4, 0.9, 1.0])
def test_rates_are_those_of_scipy(rate):
    drawn = stats.truncnorm((0 - rate) / 0.1, (1 - rate) / 0.1, loc=rate, scale=0.1).rvs(
        20_000, random_state=np.random.RandomState(4)
    )
    ours = part_dependent.truncated_normal(np.random.RandomState(4).random_sample(20_000), rate, 0.1)
    np.testing.assert_allclose(ours, drawn, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint16])
def test_number_types_do_not_matter(dtype):
    images, labels = random_images(80, 4)
    expected = noise.instance_dependent(images, labels, 0.4, 4, 1).labels
    assert np.array_equal(noise.instance_dependent(images.astype(dtype), labels, 0.4, 4, 1).labels, expected)


def test_the_noise_depends_on_the_image():
    """Samples with one image and one class all flip to one class, whichever it is."""
    images = np.zeros((4_000, 8, 8, 3), dtype=np.uint8)
    images[:] = np.random.RandomState(0).randint(0, 256, (8, 8, 3))
    noisy = noise.instance_dependent(images, np.zeros(4_000, dtype=int), 0.4, 6, 1)
    assert len(np.unique(noisy.labels[noisy.flipped])) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "realised"), [(0.4, 0.39544), (0.2, 0.20348)])
def test_the_published_realisation_on_cifar10(cifar10_train, rate, realised):
    images, labels = cifar10_train
    noisy = noise.instance_dependent(images, labels, rate, 10, seed=0)
    assert noisy.realised_rate == realised
    assert np.array_equal(noisy.labels, reference.part_dependent(images, labels, rate, 10, 0))


@pytest.mark.slow
def test_memory_on_cifar10(cifar10_train):
    images, labels = cifar10_train
    noise.instance_dependent(images[:100], labels[:100], 0.4, 10, seed=0)
    tracemalloc.start()
    noise.instance_dependent(images, labels, 0.4, 10, seed=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500e6
