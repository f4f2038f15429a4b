# SPDX-License-Identifier: Apache-2.0
"""Open-set noise: images of no class among the training images, under labels of the known classes."""

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise.checks import (
    checked_integer,
    checked_labels,
    checked_num_classes,
    checked_rate,
    checked_seed,
)
from noiseproof.noise.drawing import samples_by_class
from noiseproof.noise.randomness import published_stream
from noiseproof.noise.record import NoisyLabels

Pixel = TypeVar("Pixel", bound=np.generic)


def open_set(labels: ArrayLike, rate: float, num_classes: int, seed: int, num_outside: int) -> NoisyLabels:
    r"""Choose samples whose image gives way to one from outside, and which one; every label stays as it is.

    In each class :math:`\lfloor \eta n \rfloor` of its n samples are chosen. Outside images are used once
    each before any is used again. The record's ``outside`` names the image that each sample takes, and
    :func:`with_outside_images` puts them in.

    Args:
        labels: The labels, integers in [0, K), shape (N,).
        rate: The share η of samples that become images of no class.
        num_classes: K.
        seed: A whole number of 32 bits; it alone decides the draw (legacy stream: one permutation of each
            class's samples, ascending, then permutations of the outside images until all are served).
        num_outside: How many outside images there are.

    Examples:
        >>> noisy = open_set(np.arange(4).repeat(10), rate=0.25, num_classes=4, seed=1, num_outside=100)
        >>> noisy.realised_rate, noisy.class_rates
        (0.2, array([0.2, 0.2, 0.2, 0.2]))
        >>> bool((noisy.labels == noisy.clean).all())
        True
    """
    classes = checked_num_classes(num_classes)
    given = checked_labels(labels, classes)
    share, number = checked_rate(rate), checked_seed(seed)
    pool = checked_integer(num_outside, "num_outside", smallest=1)
    stream = published_stream(number)
    chosen = np.zeros(given.size, dtype=np.bool_)
    for samples in samples_by_class(given, classes):
        chosen[samples[stream.permutation(samples.size)[: int(share * samples.size)]]] = True
    needed = int(np.count_nonzero(chosen))
    order = [stream.permutation(pool) for _ in range(-(-needed // pool))]
    outside = np.full(given.size, -1, dtype=np.int64)
    outside[chosen] = np.concatenate([np.empty(0, dtype=np.int64), *order])[:needed]
    return NoisyLabels(
        given,
        given.copy(),
        classes,
        "open-set",
        share,
        number,
        "replace-images",
        {"num_outside": str(pool)},
        outside=outside,
    )


def with_outside_images(
    noisy: NoisyLabels, images: NDArray[Pixel], outside_images: NDArray[Pixel]
) -> NDArray[Pixel]:
    """A copy of ``images`` in which the chosen samples show their outside images.

    Examples:
        >>> noisy = open_set([0, 0, 1, 1], rate=0.5, num_classes=2, seed=1, num_outside=3)
        >>> shown = with_outside_images(noisy, np.zeros((4, 2, 2)), np.ones((3, 2, 2)))
        >>> bool((shown.max(axis=(1, 2)) == noisy.flipped).all())
        True
    """
    if noisy.outside is None:
        raise ValueError(f"noisy must be open-set noise, got kind {noisy.kind!r}")
    if len(images) != len(noisy):
        raise ValueError(f"images must be one per label ({len(noisy)}), got {len(images)}")
    if images.shape[1:] != outside_images.shape[1:] or images.dtype != outside_images.dtype:
        raise ValueError(
            f"outside_images must be like images, {images.shape[1:]} of {images.dtype}, "
            f"got {outside_images.shape[1:]} of {outside_images.dtype}"
        )
    if int(noisy.outside.max()) >= len(outside_images):
        raise ValueError(
            f"outside_images must be those the noise was drawn for ({noisy.details['num_outside']}), "
            f"got {len(outside_images)}"
        )
    shown = images.copy()
    replaced = noisy.outside >= 0
    shown[replaced] = outside_images[noisy.outside[replaced]]
    return shown
