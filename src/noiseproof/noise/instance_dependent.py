# SPDX-License-Identifier: Apache-2.0
"""Instance-dependent noise: how likely a label is wrong, and which one it becomes, depends on the image."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise.checks import (
    Labels,
    checked_choice,
    checked_labels,
    checked_num_classes,
    checked_rate,
    checked_seed,
)
from noiseproof.noise.part_dependent import part_dependent_labels
from noiseproof.noise.projections import blocks, checked_images, projected
from noiseproof.noise.randomness import published_stream
from noiseproof.noise.record import NoisyLabels

RATE_DEVIATION = 0.1
"""The standard deviation of the per-sample flip rates around the rate."""

PUBLISHED_CANDIDATES = 1_000_000
"""``shared-projection`` draws so many candidate rates at once and keeps those inside (0, 1)."""


def instance_dependent(
    images: ArrayLike,
    labels: ArrayLike,
    rate: float,
    num_classes: int,
    seed: int,
    generator: str = "pdn",
) -> NoisyLabels:
    r"""Flip labels by what the images show, through random projections of their pixels.

    Sample i, of class y, keeps its label with probability :math:`1 - r_i` and takes class k ≠ y with
    :math:`r_i \cdot \mathrm{softmax}_{k \ne y}(x_i W_y)`, W Gaussian.

    Args:
        images: (N, ...) numbers; the published noise uses raw pixels 0–255 in height-width-channel order.
        labels: The true labels, integers in [0, K), shape (N,).
        rate: η in [0, 1], the mean of the per-sample rates before truncation. 0 means no noise at all.
        num_classes: K.
        seed: A whole number of 32 bits; it alone decides the draw. The published tables use 0 for all runs.
        generator: How to draw, all from the legacy stream.

            * ``pdn`` (default), the published one: :math:`r_i` from a normal(η, 0.1) truncated to [0, 1], one
              W per class. On CIFAR-10 with seed 0, 39.544 % wrong labels for η = 0.4 and 20.348 % for 0.2.
            * ``fixed-count``: exactly :math:`\lfloor \eta N \rfloor` samples, chosen at random, are flipped
              to a class drawn from the softmax over the other classes of :math:`\tilde x_i W_y`, with
              :math:`\tilde x` the images standardised per channel.
            * ``shared-projection``: as ``pdn``, with one W for all classes, all in double precision.

    Examples:
        >>> images = np.arange(64, dtype=np.uint8).repeat(64).reshape(64, 8, 8)
        >>> noisy = instance_dependent(images, np.arange(64) % 4, rate=0.4, num_classes=4, seed=0)
        >>> noisy
        NoisyLabels(instance-dependent, 64 labels, 4 classes, realised rate 0.4..., generator='pdn')
    """
    classes = checked_num_classes(num_classes)
    clean = checked_labels(labels, classes)
    pixels = checked_images(images, clean.size)
    share, number = checked_rate(rate), checked_seed(seed)
    draw = GENERATORS[checked_choice(generator, GENERATORS, "generator")]
    channels = np.shape(images)[3] if np.ndim(images) == 4 else 1
    given = clean.copy() if share == 0.0 else draw(pixels, channels, clean, share, classes, number)
    return NoisyLabels(given, clean, classes, "instance-dependent", share, number, generator)


def _part_dependent(
    images: NDArray[np.generic], channels: int, clean: Labels, rate: float, num_classes: int, seed: int
) -> Labels:
    return part_dependent_labels(images, clean, rate, RATE_DEVIATION, num_classes, seed)


def _fixed_count(
    images: NDArray[np.generic], channels: int, clean: Labels, rate: float, num_classes: int, seed: int
) -> Labels:
    """In this order: permutation(N), one uniform per flipped sample in data order, W of each class."""
    stream = published_stream(seed)
    count = int(rate * clean.size)
    flipped = np.sort(stream.permutation(clean.size)[:count])
    numbers = stream.random_sample(count)
    means, deviations = _feature_statistics(images, channels)
    offsets = np.empty((num_classes, num_classes))

    def weights_of_class(class_index: int) -> NDArray[np.float64]:
        # (x - mean)/deviation · W = x · (W/deviation) - mean · (W/deviation): no pixel need be standardised.
        weights = stream.randn(images.shape[1], num_classes) / deviations[:, np.newaxis]
        offsets[class_index] = means @ weights
        return weights

    scores = projected(images, flipped, clean, weights_of_class, num_classes)
    scores -= offsets[clean[flipped]]
    given = clean.copy()
    given[flipped] = _first_exceeding(_softmax_over_others(scores, clean[flipped]), numbers)
    return given


def _shared_projection(
    images: NDArray[np.generic], channels: int, clean: Labels, rate: float, num_classes: int, seed: int
) -> Labels:
    """In this order: a million candidate rates (more if need be), W, one uniform per sample."""
    stream = published_stream(seed)
    rates = np.empty(0)
    while rates.size < clean.size:
        candidates = stream.normal(rate, RATE_DEVIATION, PUBLISHED_CANDIDATES)
        rates = np.append(rates, candidates[(candidates > 0.0) & (candidates < 1.0)])
    rates = rates[: clean.size]
    weights = stream.normal(size=(images.shape[1], num_classes))
    numbers = stream.random_sample(clean.size)
    everyone = np.arange(clean.size)
    scores = projected(images, everyone, clean, lambda _: weights, num_classes)
    probabilities = _softmax_over_others(scores, clean)
    probabilities *= rates[:, np.newaxis]
    probabilities[everyone, clean] = 1.0 - rates
    return _first_exceeding(probabilities, numbers)


def _softmax_over_others(scores: NDArray[np.floating], true_classes: Labels) -> NDArray[np.float64]:
    logits = scores.astype(np.float64, copy=False)
    logits[np.arange(len(logits)), true_classes] = -np.inf
    logits -= logits.max(axis=1, keepdims=True)
    probabilities = np.exp(logits, out=logits)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return probabilities


def _first_exceeding(probabilities: NDArray[np.float64], numbers: NDArray[np.float64]) -> Labels:
    """For each row the first class whose running sum exceeds its number, as NumPy's ``choice`` draws it."""
    sums = np.cumsum(probabilities, axis=1)
    sums /= sums[:, -1:]
    labels: Labels = np.count_nonzero(sums <= numbers[:, np.newaxis], axis=1).astype(np.int64, copy=False)
    return labels


def _feature_statistics(
    images: NDArray[np.generic], channels: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each pixel's channel; a channel without spread keeps its scale."""
    sums, squares = np.zeros(images.shape[1]), np.zeros(images.shape[1])
    for pixels in blocks(images, np.arange(len(images)), np.float64):
        sums += pixels.sum(axis=0)
        squares += np.einsum("nd,nd->d", pixels, pixels)
    per_channel = images.size // channels
    means = sums.reshape(-1, channels).sum(axis=0) / per_channel
    variances = squares.reshape(-1, channels).sum(axis=0) / per_channel - means**2
    deviations = np.sqrt(np.maximum(variances, 0.0))
    repeats = images.shape[1] // channels
    return np.tile(means, repeats), np.tile(np.where(deviations > 0.0, deviations, 1.0), repeats)


GENERATORS: Mapping[str, Callable[[NDArray[np.generic], int, Labels, float, int, int], Labels]] = (
    MappingProxyType(
        {"pdn": _part_dependent, "fixed-count": _fixed_count, "shared-projection": _shared_projection}
    )
)
