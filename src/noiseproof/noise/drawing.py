# SPDX-License-Identifier: Apache-2.0
"""Labels drawn from a transition matrix, in the ways in use.

``exact-published``
    Cell by cell, with floored counts, as the published tables were drawn: for each true class ascending, for
    each other class ascending, ``floor(T·n)`` of the samples that are left, chosen by a full permutation of
    them (``RandomState.choice`` without replacement). Bit for bit the published labels. A permutation a cell
    makes it the slowest: K − 1 passes over each class.
``exact-fast``
    The same floored counts with one shuffle a class, from the same legacy stream: other samples, same law.
``exact``
    ``exact-published`` up to :data:`LARGEST_PUBLISHED_DRAW` labels, ``exact-fast`` beyond, where no published
    labels exist that could be matched.
``bernoulli``
    Each label by itself: sample i takes the i-th number u of :func:`~noiseproof.noise.randomness.uniforms`
    and the first class whose running sum of ``T[true class]`` exceeds u.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from noiseproof.noise.checks import Labels
from noiseproof.noise.randomness import published_stream, uniforms, word_source

Transition = NDArray[np.float64]

LARGEST_PUBLISHED_DRAW = 1_000_000
"""Up to here ``exact`` is the published draw; the largest labels published so are 60,000."""

EXACT_GENERATORS = ("exact", "exact-published", "exact-fast")
TRANSITION_GENERATORS = (*EXACT_GENERATORS, "bernoulli")

LABELS_PER_BLOCK = 2**16
"""Labels handled together where memory traffic is what costs: a block stays in the processor's cache."""


def resolved_generator(generator: str, num_labels: int) -> str:
    """The draw that a generator's name stands for with so many labels: only ``exact`` depends on them.

    Examples:
        >>> resolved_generator("exact", 50_000), resolved_generator("exact", 10_000_000)
        ('exact-published', 'exact-fast')
        >>> resolved_generator("bernoulli", 10_000_000)
        'bernoulli'
    """
    if generator != "exact":
        return generator
    return "exact-published" if num_labels <= LARGEST_PUBLISHED_DRAW else "exact-fast"


def drawn(clean: Labels, transition: Transition, seed: int, generator: str) -> Labels:
    """Labels drawn from checked arguments by one of :data:`TRANSITION_GENERATORS`."""
    draw = {"exact-published": _published, "exact-fast": _one_shuffle_a_class, "bernoulli": _each_by_itself}
    return draw[resolved_generator(generator, clean.size)](clean, transition, seed)


def floored_counts(transition: Transition, class_sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many samples each cell takes: ``floor(T·n)`` in double precision, as published; 0 on the diagonal.

    Examples:
        >>> floored_counts(np.array([[0.2, 0.8], [0.0, 1.0]]), np.array([7, 5]))
        array([[0, 5],
               [0, 0]])
    """
    counts = (transition * class_sizes[:, np.newaxis]).astype(np.int64)
    np.fill_diagonal(counts, 0)
    return counts


def samples_by_class(labels: Labels, num_classes: int) -> Iterator[NDArray[np.int64]]:
    """The positions of each class's samples, ascending, class by class."""
    # Integers of 8 and 16 bits are sorted by counting, in time proportional to their number.
    order = np.argsort(labels.astype(_narrowest(num_classes)), kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=num_classes))
    yield from np.split(order, ends[:-1])


def _published(clean: Labels, transition: Transition, seed: int) -> Labels:
    stream = published_stream(seed)

    def given_labels(true_class: int, counts: NDArray[np.int64], size: int) -> NDArray[np.integer]:
        given = np.full(size, true_class, dtype=_narrowest(counts.size))
        remaining = np.arange(size)
        for given_class in np.flatnonzero(counts):  # the published loop draws nothing for an empty cell
            # choice(remaining, count, replace=False) is remaining[permutation(len(remaining))[:count]]
            chosen = stream.permutation(remaining.size)[: counts[given_class]]
            given[remaining[chosen]] = given_class
            left = np.ones(remaining.size, dtype=np.bool_)
            left[chosen] = False
            remaining = remaining[left]
        return given

    return _class_by_class(clean, transition, given_labels)


def _one_shuffle_a_class(clean: Labels, transition: Transition, seed: int) -> Labels:
    stream = published_stream(seed)

    def given_labels(true_class: int, counts: NDArray[np.int64], size: int) -> NDArray[np.integer]:
        given = np.full(size, true_class, dtype=_narrowest(counts.size))
        given[: counts.sum()] = np.repeat(np.arange(counts.size, dtype=given.dtype), counts)
        stream.shuffle(given)
        return given

    return _class_by_class(clean, transition, given_labels)


def _class_by_class(
    clean: Labels,
    transition: Transition,
    given_labels: Callable[[int, NDArray[np.int64], int], NDArray[np.integer]],
) -> Labels:
    """Let ``given_labels(true class, counts, size)`` name the labels of each class's samples in order."""
    labels = np.empty(clean.size, dtype=_narrowest(len(transition)))  # narrow: the scatter is memory traffic
    counts = floored_counts(transition, np.bincount(clean, minlength=len(transition)))
    for true_class, samples in enumerate(samples_by_class(clean, len(transition))):
        labels[samples] = given_labels(true_class, counts[true_class], samples.size)
    return labels.astype(np.int64)


def _narrowest(num_classes: int) -> np.dtype[np.integer]:
    return np.min_scalar_type(num_classes - 1)


def _each_by_itself(clean: Labels, transition: Transition, seed: int) -> Labels:
    return drawn_one_by_one(clean, transition, word_source(seed))


def drawn_one_by_one(clean: Labels, transition: Transition, source: np.random.PCG64) -> Labels:
    """Each label by itself, with the next N numbers of ``source``: the ``bernoulli`` draw."""
    labels = np.empty_like(clean)
    running_sums = np.cumsum(transition, axis=1)
    # The last class that can be drawn takes what rounding leaves between its running sum and one.
    last_possible = len(transition) - 1 - np.argmax(transition[:, ::-1] > 0.0, axis=1)
    for start in range(0, clean.size, LABELS_PER_BLOCK):
        block = slice(start, start + LABELS_PER_BLOCK)
        numbers = uniforms(source, clean[block].size)
        given = labels[block]
        for true_class, samples in enumerate(samples_by_class(clean[block], len(transition))):
            position = np.searchsorted(running_sums[true_class], numbers[samples], side="right")
            given[samples] = np.minimum(position, last_possible[true_class])
    return labels
