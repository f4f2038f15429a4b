# SPDX-License-Identifier: Apache-2.0
"""Symmetric noise: a wrong label is any other class, each as likely as the next."""

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
from noiseproof.noise.drawing import EXACT_GENERATORS, LABELS_PER_BLOCK, drawn, resolved_generator
from noiseproof.noise.randomness import uniforms, word_source
from noiseproof.noise.record import NoisyLabels

GENERATORS = (*EXACT_GENERATORS, "bernoulli", "redraw-over-all-classes")


def symmetric_transition(rate: float, num_classes: int) -> NDArray[np.float64]:
    r"""The matrix :math:`T_{yy} = 1 - \eta`, :math:`T_{yk} = \eta / (K - 1)`, rows = true class.

    Examples:
        >>> symmetric_transition(0.5, 3)
        array([[0.5 , 0.25, 0.25],
               [0.25, 0.5 , 0.25],
               [0.25, 0.25, 0.5 ]])
    """
    classes = checked_num_classes(num_classes)
    share = checked_rate(rate)
    matrix = np.full((classes, classes), share / (classes - 1))
    np.fill_diagonal(matrix, 1.0 - share)
    return matrix


def symmetric(
    labels: ArrayLike, rate: float, num_classes: int, seed: int, generator: str = "exact"
) -> NoisyLabels:
    r"""Flip labels to every other class alike: class y to each k ≠ y with probability :math:`\eta / (K - 1)`.

    Args:
        labels: The true labels, integers in [0, K), shape (N,).
        rate: η in [0, 1].
        num_classes: K.
        seed: A whole number of 32 bits; it alone decides the draw.
        generator: How to draw.

            * ``exact`` (default): floored counts per (true, given) cell, as in the published tables: CIFAR-10
              at η = 0.8 has 79.92 % wrong labels, CIFAR-100 79.2 %. Up to a million labels it is the
              published draw bit for bit (``exact-published``), beyond that a faster one (``exact-fast``);
              both can be asked for by name.
            * ``bernoulli``: each label by itself. With u the i-th number of the stream and
              :math:`s = \lfloor u (K-1)/\eta \rfloor`, label i becomes (y + 1 + s) mod K where s < K − 1, and
              stays where not.
            * ``redraw-over-all-classes``: a share η of labels is drawn anew over all K classes, the true one
              included, so that only η(K − 1)/K become wrong. With :math:`s = \lfloor u K/\eta \rfloor`, label
              i becomes s where s < K. "Symmetric noise" means this in some papers.

    Returns:
        The record, with the rate that came out.

    Examples:
        >>> cifar10 = np.arange(10).repeat(5_000)
        >>> symmetric(cifar10, rate=0.8, num_classes=10, seed=1).realised_rate
        0.7992
        >>> symmetric(cifar10, 0.8, 10, seed=1, generator="bernoulli").realised_rate
        0.79932
        >>> symmetric(cifar10, 0.8, 10, seed=1, generator="redraw-over-all-classes").realised_rate
        0.7179
    """
    classes = checked_num_classes(num_classes)
    clean = checked_labels(labels, classes)
    share, number = checked_rate(rate), checked_seed(seed)
    name = resolved_generator(checked_choice(generator, GENERATORS, "generator"), clean.size)
    if name in EXACT_GENERATORS:
        given = drawn(clean, symmetric_transition(share, classes), number, name)
    else:
        given = _each_by_itself(clean, share, classes, number, true_class_too=name != "bernoulli")
    return NoisyLabels(given, clean, classes, "symmetric", share, number, name)


def _each_by_itself(clean: Labels, rate: float, num_classes: int, seed: int, true_class_too: bool) -> Labels:
    given = clean.copy()
    if rate == 0.0:
        return given
    source = word_source(seed)
    outcomes = num_classes if true_class_too else num_classes - 1
    # Steps of η/outcomes: each of the first `outcomes` is one class, everything beyond keeps the label.
    steps_per_unit = outcomes / rate
    for start in range(0, clean.size, LABELS_PER_BLOCK):
        block = given[start : start + LABELS_PER_BLOCK]
        steps = uniforms(source, block.size)
        steps *= steps_per_unit
        np.minimum(steps, outcomes, out=steps)
        step = steps.astype(np.int64)
        if true_class_too:
            np.copyto(block, step, where=step < outcomes)
        else:
            # Keeping a label is going all the way round: K steps on from it.
            step += 1
            block += step
            np.subtract(block, num_classes, out=block, where=block >= num_classes)
    return given
