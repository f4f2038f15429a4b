# SPDX-License-Identifier: Apache-2.0
"""Several annotators, each with errors of their own, and the label that comes of their answers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise.checks import (
    Labels,
    checked_choice,
    checked_labels,
    checked_num_classes,
    checked_rate,
    checked_seed,
    checked_transition,
)
from noiseproof.noise.drawing import LABELS_PER_BLOCK, drawn_one_by_one
from noiseproof.noise.randomness import uniforms, word_source
from noiseproof.noise.record import MOST_ANNOTATORS, NoisyLabels
from noiseproof.noise.symmetric import symmetric_transition

AGGREGATES = ("one", "majority")


def annotators(
    labels: ArrayLike,
    rates: Sequence[float] | ArrayLike,
    num_classes: int,
    seed: int,
    aggregate: str = "one",
) -> NoisyLabels:
    """Let every annotator label every sample, each with their own transition, and take one label per sample.

    Args:
        labels: The true labels, integers in [0, K), shape (N,).
        rates: One number per annotator, their share of symmetric errors; or one transition matrix per
            annotator, shape (annotators, K, K), rows = true class.
        num_classes: K.
        seed: A whole number of 32 bits; it alone decides the draw. From one stream of numbers: N for each
            annotator in turn (drawn as ``bernoulli``), then N for the choice below.
        aggregate: ``one`` (default) takes the answer of one annotator per sample, drawn uniformly;
            ``majority`` takes the commonest answer, ties broken uniformly.

    Returns:
        The record; its ``answers`` (N, annotators) hold what each annotator said.

    Examples:
        >>> noisy = annotators(np.arange(5).repeat(2_000), rates=[0.1, 0.2, 0.6], num_classes=5, seed=1)
        >>> (noisy.answers != noisy.clean[:, None]).mean(axis=0).round(2)
        array([0.1, 0.2, 0.6])
        >>> round(noisy.realised_rate, 2)
        0.29
        >>> voted = annotators(np.arange(5).repeat(2_000), [0.1, 0.2, 0.6], 5, seed=1, aggregate="majority")
        >>> round(voted.realised_rate, 2)
        0.14
    """
    classes = checked_num_classes(num_classes)
    clean = checked_labels(labels, classes)
    transitions = _transitions(rates, classes)
    if len(transitions) > MOST_ANNOTATORS:
        raise ValueError(
            f"rates must be at most {MOST_ANNOTATORS}, one per annotator, got {len(transitions)}"
        )
    number = checked_seed(seed)
    how = checked_choice(aggregate, AGGREGATES, "aggregate")
    source = word_source(number)
    answers = np.stack([drawn_one_by_one(clean, matrix, source) for matrix in transitions], axis=1)
    numbers = uniforms(source, clean.size)
    if how == "one":
        who = (numbers * len(transitions)).astype(np.int64)
        given = answers[np.arange(clean.size), who]
    else:
        given = _commonest(answers, numbers, classes)
    details = {"annotators": str(len(transitions))}
    return NoisyLabels(given, clean, classes, "annotators", None, number, how, details, answers=answers)


def _transitions(rates: Sequence[float] | ArrayLike, num_classes: int) -> list[NDArray[np.float64]]:
    array = np.asarray(rates, dtype=np.float64)
    if array.ndim == 1 and array.size:
        return [symmetric_transition(checked_rate(float(rate), "rates"), num_classes) for rate in array]
    if array.ndim == 3 and len(array):
        return [checked_transition(matrix, num_classes, name="rates") for matrix in array]
    raise ValueError(
        "rates must be one number or one transition matrix per annotator, at least one, "
        f"got shape {array.shape}"
    )


def _commonest(answers: NDArray[np.int64], numbers: NDArray[np.float64], num_classes: int) -> Labels:
    given = np.empty(len(answers), dtype=np.int64)
    for start in range(0, len(answers), LABELS_PER_BLOCK):
        block = slice(start, start + LABELS_PER_BLOCK)
        rows = np.arange(len(answers[block]))[:, np.newaxis]
        votes = np.zeros((len(rows), num_classes), dtype=np.int64)
        np.add.at(votes, (rows, answers[block]), 1)
        tied = votes == votes.max(axis=1, keepdims=True)
        # The tied class whose turn it is: the floor(u·ties)-th of them, counted from 0.
        turn = (numbers[block] * tied.sum(axis=1)).astype(np.int64)
        given[block] = np.argmax(np.cumsum(tied, axis=1) > turn[:, np.newaxis], axis=1)
    return given
