# SPDX-License-Identifier: Apache-2.0
"""How suspect each label is: one number a sample, the higher the more suspect.

Every score here looks at the given labels and at out-of-sample probabilities, and at nothing else. The default,
``posterior``, reads these probabilities in the light of the estimated noise; the others are the plain ones of the
literature, kept for comparison.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseproof.audit.checks import checked_labels, checked_probabilities
from noiseproof.audit.noise_rate import NoiseEstimate, blocks, estimate_noise
from noiseproof.losses.checks import unknown
from noiseproof.sklearn.suspects import score_labels as margins

Scored = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreRecord:
    """One way of scoring labels.

    Attributes:
        name: as the user types it.
        formula: in plain symbols; p are out-of-sample probabilities, y the given label.
        of_rows: ``(given, probabilities, estimate)`` of some rows to their scores.
    """

    name: str
    formula: str
    of_rows: Callable[[NDArray[np.int64], NDArray[np.floating], NoiseEstimate], Scored]


def _of_given(given: NDArray[np.int64], probabilities: NDArray[np.floating]) -> Scored:
    return np.asarray(probabilities[np.arange(len(given)), given], dtype=np.float64)


def posterior(
    given: NDArray[np.int64], probabilities: NDArray[np.floating], estimate: NoiseEstimate
) -> Scored:
    """Probability that the given label is wrong, under the estimated noise."""
    return 1 - _of_given(given, estimate.posterior(given, probabilities))


def self_confidence(
    given: NDArray[np.int64], probabilities: NDArray[np.floating], estimate: NoiseEstimate | None = None
) -> Scored:
    """How little of the probability lies on the given label."""
    return 1 - _of_given(given, probabilities)


def margin(
    given: NDArray[np.int64], probabilities: NDArray[np.floating], estimate: NoiseEstimate | None = None
) -> Scored:
    """How far the likeliest other class is ahead of the given one, from 0 to 1."""
    return margins(given, np.asarray(probabilities, dtype=np.float64)).scores


SCORES: Mapping[str, ScoreRecord] = MappingProxyType(
    {
        each.name: each
        for each in (
            ScoreRecord("posterior", "1 − P(true = y | p, y, estimated T)", posterior),
            ScoreRecord("self-confidence", "1 − p_y", self_confidence),
            ScoreRecord("margin", "(1 + max_{k≠y} p_k − p_y) / 2", margin),
        )
    }
)
"""Scores by name; the first is the default."""

DEFAULT_SCORE = next(iter(SCORES))


@dataclass(frozen=True, eq=False)
class LabelAudit:
    """What was found of each given label.

    Attributes:
        given: labels as they came (N,).
        scores: how suspect each is (N,), float32; for the default score the probability that it is wrong.
        predicted: the class that is likeliest before the given label is looked at (N,).
        suggested: the class that is likeliest once it is (N,).
        suspect: whether the label is rather wrong than right (N,).
        probability_of_given: of the given label, as the model predicted it (N,), float32.
        probability_of_suggested: likewise of the suggested one.
        noise: estimated rate and transition matrix.
        agreement: share of given labels that are the class with the largest probability.
        score_name: the score in use.
        class_names: what each class is called (K,), as the labels came; ``None`` where they came as indices.
        agreement_by_chance: what predictions that know nothing of the labels may agree to, see
            :func:`chance_agreement`.
    """

    given: NDArray[np.int64]
    scores: NDArray[np.float32]
    predicted: NDArray[np.int64]
    suggested: NDArray[np.int64]
    suspect: NDArray[np.bool_]
    probability_of_given: NDArray[np.float32]
    probability_of_suggested: NDArray[np.float32]
    noise: NoiseEstimate
    agreement: float
    score_name: str = DEFAULT_SCORE
    class_names: NDArray[Any] | None = None
    agreement_by_chance: float = 0.0

    def __len__(self) -> int:
        return len(self.given)

    @property
    def noise_rate(self) -> float:
        """Estimated share of wrong labels."""
        return self.noise.rate

    @property
    def is_by_chance(self) -> bool:
        """Whether predictions agree with given labels no better than with shuffled ones: all is void then."""
        return self.agreement <= self.agreement_by_chance

    @property
    def disagreement(self) -> float:
        """Share of labels that are not the predicted class: the model's own mistakes count here as wrong labels."""
        return float((self.predicted != self.given).mean())

    @property
    def transition(self) -> NDArray[np.float64]:
        """Estimated transition matrix (K, K), rows = true class."""
        return self.noise.transition

    @property
    def worst_first(self) -> NDArray[np.int64]:
        """Indices of all samples, the most suspect one first.

        Where images are easy, the scores of most wrong labels round to 1. Ties are ordered by the predicted
        probability of the given label, the smallest first, then as in the data.
        """
        order: NDArray[np.int64] = np.lexsort((self.probability_of_given, -self.scores))
        return order

    @property
    def cleaned(self) -> NDArray[np.int64]:
        """Labels (N,) with the suggested class in place of every suspect one."""
        labels: NDArray[np.int64] = np.where(self.suspect, self.suggested, self.given)
        return labels

    @property
    def given_names(self) -> NDArray[Any]:
        """Given labels (N,) as they came."""
        return self._called(self.given)

    @property
    def suggested_names(self) -> NDArray[Any]:
        """Suggested labels (N,) in the words of the given ones."""
        return self._called(self.suggested)

    @property
    def cleaned_names(self) -> NDArray[Any]:
        """Cleaned labels (N,) in the words of the given ones."""
        return self._called(self.cleaned)

    def _called(self, classes: NDArray[np.int64]) -> NDArray[Any]:
        return classes if self.class_names is None else self.class_names[classes]


def chance_agreement(given: NDArray[np.integer], predicted: NDArray[np.integer]) -> float:
    """Share of samples on which shuffled predictions agree with the given labels: mean and three deviations.

    However uneven the classes are, a model that always predicts the commonest knows nothing, and one that finds
    the few samples of a rare class does.

    Example:
        >>> given = np.array([0] * 192 + [1] * 8)
        >>> round(chance_agreement(given, given), 3), round(chance_agreement(given, np.zeros_like(given)), 3)
        (0.94, 0.96)
    """
    count, classes = len(given), 1 + int(max(given.max(), predicted.max()))
    a, b = (np.bincount(each, minlength=classes) / count for each in (given, predicted))
    mean = float(a @ b)
    # Hoeffding's variance of a sum over a random permutation; pairs of classes share theirs.
    apart = (np.eye(classes) - a[:, None] - b[None, :] + mean) ** 2
    variance = float(b @ apart @ a) / max(count - 1, 1)
    return mean + 3 * float(np.sqrt(variance))


def score_labels(
    labels: object,
    probabilities: object,
    *,
    score: str = DEFAULT_SCORE,
    noise: NoiseEstimate | None = None,
) -> LabelAudit:
    """Score given labels by out-of-sample probabilities.

    Memory beyond the arguments is some 40 bytes a sample; a memory-mapped array of probabilities is read in parts.

    Args:
        labels: class indices (N,).
        probabilities: (N, K), each row by a model that did not see that sample.
        score: a name in :data:`SCORES`.
        noise: an estimate made before; it is made here by default.

    Example:
        >>> given = np.array([0, 1, 1, 0])
        >>> probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1], [0.8, 0.2]])
        >>> found = score_labels(given, probabilities, score="margin")
        >>> found.scores.round(2), found.suggested, found.worst_first[0]
        (array([0.1, 0.2, 0.9, 0.2], dtype=float32), array([0, 1, 0, 0]), np.int64(2))
    """
    if score not in SCORES:
        raise ValueError(unknown("score", score, tuple(SCORES)))
    given = checked_labels(labels)
    checked = checked_probabilities(probabilities, given)
    noise = noise or estimate_noise(given, checked)
    count, uses_noise = len(given), score == "posterior"
    scores, of_given, of_suggested = (np.empty(count, np.float32) for _ in range(3))
    predicted, suggested, likeliest = (np.empty(count, np.int64) for _ in range(3))
    for rows in blocks(count, checked.shape[1]):
        block = np.asarray(checked[rows], dtype=np.float64)
        likelihood = noise.posterior(given[rows], block) if uses_noise else block
        predicted[rows] = (noise.clean_probabilities(block) if uses_noise else block).argmax(1)
        suggested[rows] = likelihood.argmax(1)
        scores[rows] = SCORES[score].of_rows(given[rows], block, noise)
        of_given[rows] = _of_given(given[rows], block)
        likeliest[rows] = block.argmax(1)
        of_suggested[rows] = _of_given(suggested[rows], block)
    return LabelAudit(
        given,
        scores,
        predicted,
        suggested,
        suggested != given,
        of_given,
        of_suggested,
        noise,
        float((likeliest == given).mean()),
        score_name=score,
        agreement_by_chance=chance_agreement(given, likeliest),
    )
