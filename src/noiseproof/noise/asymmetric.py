# SPDX-License-Identifier: Apache-2.0
"""Asymmetric noise, where certain classes are mistaken for certain others, and any transition matrix."""

from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise.checks import (
    checked_choice,
    checked_integer,
    checked_labels,
    checked_num_classes,
    checked_rate,
    checked_seed,
    checked_transition,
)
from noiseproof.noise.drawing import TRANSITION_GENERATORS, drawn, resolved_generator
from noiseproof.noise.flips import NAMED_FLIPS
from noiseproof.noise.record import NoisyLabels

Flips = str | Mapping[int, int] | ArrayLike


def asymmetric_transition(rate: float, flips: Flips, num_classes: int | None = None) -> NDArray[np.float64]:
    r"""The matrix :math:`T = (1 - \eta) I + \eta F`, rows = true class, F saying where the mistaken ones go.

    Args:
        rate: η in [0, 1].
        flips: A name (``cifar10``, ``mnist-like``, ``cifar100-blocks``, ``cifar100-superclass``), a mapping
            from true class to given class, or F itself: a square matrix whose rows sum to one.
        num_classes: K; only a mapping needs it, where its largest class is not the last.

    Examples:
        >>> asymmetric_transition(0.4, {0: 1}, num_classes=2)
        array([[0.6, 0.4],
               [0. , 1. ]])
    """
    share = checked_rate(rate)
    if isinstance(flips, str):
        known_classes, mapping = NAMED_FLIPS[checked_choice(flips, NAMED_FLIPS, "flips")]
        if num_classes not in (None, known_classes):
            raise ValueError(f"flips {flips!r} need num_classes={known_classes}, got {num_classes}")
        return _from_mapping(share, mapping, known_classes)
    if isinstance(flips, Mapping):
        return _from_mapping(share, flips, _classes_for(flips, num_classes))
    destinations = checked_transition(cast(ArrayLike, flips), num_classes, name="flips")
    return (1.0 - share) * np.eye(len(destinations)) + share * destinations


def asymmetric(
    labels: ArrayLike,
    rate: float,
    flips: Flips,
    seed: int,
    num_classes: int | None = None,
    generator: str = "exact",
) -> NoisyLabels:
    """Flip labels of certain classes to the classes they are mistaken for.

    Args:
        labels: The true labels, integers in [0, K), shape (N,).
        rate: The share η of each flipped class; classes without a flip keep all labels, so that the rate over
            all of CIFAR-10 is η/2.
        flips: As in :func:`asymmetric_transition`. For CIFAR-100, ``cifar100-blocks`` is what the published
            tables were drawn with, ``cifar100-superclass`` what their words say.
        seed: A whole number of 32 bits; it alone decides the draw.
        num_classes: K; found from ``flips`` and ``labels`` where not given.
        generator: ``exact`` (default; floored counts, up to a million labels the published draw bit for bit),
            ``exact-published``, ``exact-fast`` or ``bernoulli``: see :mod:`noiseproof.noise.drawing`.

    Examples:
        >>> cifar10 = np.arange(10).repeat(5_000)
        >>> noisy = asymmetric(cifar10, rate=0.4, flips="cifar10", seed=1)
        >>> noisy.class_rates
        array([0. , 0. , 0.4, 0.4, 0.4, 0.4, 0. , 0. , 0. , 0.4])
    """
    if num_classes is None and isinstance(flips, Mapping):
        num_classes = max(_classes_for(flips, None), int(checked_labels(labels).max()) + 1)
    transition = asymmetric_transition(rate, flips, num_classes)
    details = {"flips": flips if isinstance(flips, str) else _described(flips)}
    return _noisy(labels, transition, seed, generator, "asymmetric", checked_rate(rate), details)


def from_transition(labels: ArrayLike, matrix: ArrayLike, seed: int, generator: str = "exact") -> NoisyLabels:
    """Draw labels from any transition matrix, rows = true class.

    Args:
        labels: The true labels, integers in [0, K), shape (N,).
        matrix: K by K; ``matrix[i, j]`` is the probability that class i is given label j. Rows must sum to
            one; a transposed matrix is refused with a word about it.
        seed: A whole number of 32 bits; it alone decides the draw.
        generator: As in :func:`asymmetric`. The floored ones realise each cell to within one sample, and give
            the samples left over to the true class.

    Examples:
        >>> matrix = [[0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]
        >>> from_transition(np.arange(3).repeat(10), matrix, seed=1).counts
        array([[ 7,  2,  1],
               [ 0, 10,  0],
               [ 5,  0,  5]])
    """
    transition = checked_transition(matrix)
    return _noisy(labels, transition, seed, generator, "transition", None, {"matrix": _described(transition)})


def _noisy(
    labels: ArrayLike,
    transition: NDArray[np.float64],
    seed: int,
    generator: str,
    kind: str,
    rate: float | None,
    details: dict[str, str],
) -> NoisyLabels:
    clean = checked_labels(labels, len(transition))
    number = checked_seed(seed)
    name = resolved_generator(checked_choice(generator, TRANSITION_GENERATORS, "generator"), clean.size)
    given = drawn(clean, transition, number, name)
    return NoisyLabels(given, clean, len(transition), kind, rate, number, name, details)


def _from_mapping(rate: float, flips: Mapping[int, int], num_classes: int) -> NDArray[np.float64]:
    matrix = np.eye(num_classes)
    for true_class, given_class in flips.items():
        matrix[true_class, true_class] = 1.0 - rate
        matrix[true_class, given_class] += rate
    return matrix


def _classes_for(flips: Mapping[int, int], num_classes: int | None) -> int:
    largest = None if num_classes is None else checked_num_classes(num_classes) - 1
    if not flips:
        raise ValueError("flips must name at least one class, got an empty mapping")
    for true_class, given_class in flips.items():
        checked_integer(true_class, "flips' true class", 0, largest)
        checked_integer(given_class, "flips' given class", 0, largest)
    if largest is not None:
        return largest + 1
    return max(2, max(*flips.keys(), *flips.values()) + 1)


def _described(flips: Flips) -> str:
    if isinstance(flips, Mapping):
        return ", ".join(f"{true_class}>{given_class}" for true_class, given_class in sorted(flips.items()))
    return str(np.asarray(flips, dtype=np.float64).tolist())
