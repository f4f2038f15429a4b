# SPDX-License-Identifier: Apache-2.0
"""Which given labels are probably wrong, seen from predicted probabilities; the only place that decides it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LabelScores:
    """What predictions say of given labels.

    Args:
        scores: one number in [0, 1] a label; the higher, the more suspect.
        suspect: whether a label is probably wrong.
        suggested: index of the class that is likeliest.
        noise_rate: estimated share of wrong labels.
    """

    scores: NDArray[np.float64]
    suspect: NDArray[np.bool_]
    suggested: NDArray[np.int64]
    noise_rate: float


def score_labels(
    given: NDArray[np.int64], probabilities: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> LabelScores:
    """Score given labels by the probabilities of a model that was trained not to learn wrong ones.

    The score is ``(1 + max_{k≠y} p_k − p_y) / 2``: 0 for a label that is certain, 1 for one that is certainly
    another's, above 1/2 where another class is likelier. Labels above 1/2 are suspect, and their share, weighted
    like the samples, is the estimated noise rate.

    Args:
        given: class indices (N,).
        probabilities: (N, K).
        weights: of the samples, for the noise rate; all alike by default.

    Example:
        >>> scored = score_labels(np.array([0, 1]), np.array([[0.9, 0.1], [0.7, 0.3]]))
        >>> scored.scores.round(2), scored.suspect, scored.noise_rate
        (array([0.1, 0.7]), array([False,  True]), 0.5)
    """
    samples = np.arange(len(given))
    others = probabilities.copy()
    others[samples, given] = -np.inf
    likeliest_other = others.max(1) if probabilities.shape[1] > 1 else np.zeros(len(given))
    scores = (1 + likeliest_other - probabilities[samples, given]) / 2
    suspect = scores > 0.5
    rate = float(np.average(suspect, weights=weights)) if len(given) else 0.0
    return LabelScores(scores, suspect, probabilities.argmax(1), rate)
