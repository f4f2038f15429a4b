# SPDX-License-Identifier: Apache-2.0
"""An estimate of how many labels are wrong, and whether at random or by confusion: the audit's, in short.

A linear model on features that no label had a part in is cross-validated, and
:func:`noiseproof.audit.estimate_noise` finds the transition matrix from its probabilities. Fewer filters than an
audit has, and a sample of the pictures, keep it to about a minute on one core.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import LabeledData
from noiseproof.planning.facts import Noise

MOST_SAMPLES = 5_000
"""More are not looked at: their number hardly changes the estimate, and takes time."""

FILTERS = 256
FOLDS = 3

WEAK = 0.5
"""A model that predicts less than this share of the labels that the estimate takes for right knows too little of
the classes for the estimate to be more than a guess."""

LEAST_RATE_WITH_A_KIND = 0.08
"""Below it most of what is found may be the model's own mistakes, which look like confusion."""

Tell = Callable[[str, float], None]
"""Told what is being done, and what share of it is done."""


def _silence(what: str, share: float) -> None:
    pass


@dataclass(frozen=True)
class NoiseGuess:
    """What was found.

    Attributes:
        rate: estimated share of wrong labels.
        transition: (K, K), rows = true class: estimated share of each given label.
        agreement: share of given labels that the cross-validated model predicts.
        concentration: of the wrong labels of a class, the share that goes to one other class: 1/(K − 1) for
            symmetric noise, 1 where every class is taken for one other.
        looked_at: samples the estimate is made from.
        by_chance: share of given labels that predictions which know nothing may agree to.
    """

    rate: float
    transition: NDArray[np.float64]
    agreement: float
    concentration: float
    looked_at: int
    by_chance: float = 0.0

    @property
    def is_uncertain(self) -> bool:
        """Whether the model knows too little of the classes, or no more than chance makes of so few samples."""
        return self.agreement < WEAK * (1 - self.rate) or self.agreement <= self.by_chance

    @property
    def kind(self) -> str | None:
        """``"sym"`` or ``"confused"``; ``None`` where too few are wrong to tell, or the model is too weak."""
        classes = len(self.transition)
        if self.rate < LEAST_RATE_WITH_A_KIND or self.is_uncertain:
            return None
        if classes < 3:
            return "sym"
        return "confused" if self.concentration > (1 + 1 / (classes - 1)) / 2 else "sym"

    def as_noise(self) -> Noise:
        """The same in the planner's terms."""
        model = f"the model used for this predicts {self.agreement:.0%} of their labels"
        return Noise(
            self.rate,
            self.kind,
            f"estimated from {self.looked_at} samples; {model}"
            + (", so the estimate is only a guess" if self.is_uncertain else ""),
            largest_class_rate=float((1 - np.diag(self.transition)).max()),
            is_uncertain=self.is_uncertain,
        )


def noise_of(data: LabeledData, *, seed: int = 0, tell: Tell = _silence) -> NoiseGuess:
    """Estimate the label noise of images.

    Args:
        data: images with their given labels.
        seed: for samples, features and folds.
        tell: called with progress.

    Example:
        >>> from dataclasses import replace
        >>> from noiseproof import datasets, noise
        >>> digits = datasets.load("digits").subset(range(700))
        >>> given = noise.symmetric(digits.labels, 0.3, 10, seed=1).labels
        >>> guess = noise_of(replace(digits, labels=given))
        >>> abs(guess.rate - 0.3) < 0.05, guess.kind
        (True, 'sym')
    """
    from noiseproof.audit.cross_validation import picture_probabilities
    from noiseproof.audit.network_features import suits

    if data.masks is not None:
        raise ValueError(f"{data.name}: the noise of masks cannot be estimated; give it, or do without")
    if len(data) < FOLDS:
        raise ValueError(
            f"{data.name}: expected at least {FOLDS} samples to estimate noise from, got {len(data)}"
        )
    chosen = np.sort(np.random.RandomState(seed).permutation(len(data))[:MOST_SAMPLES])
    some = data if len(chosen) == len(data) else data.subset(chosen)
    probabilities = picture_probabilities(
        some, folds=FOLDS, filters=FILTERS, from_imagenet=suits(some), seed=seed, tell=tell
    )
    return guess_noise(some.labels, probabilities)


def guess_noise(given: NDArray[np.int64], probabilities: NDArray[np.floating]) -> NoiseGuess:
    """Estimate the noise of labels (N,) from probabilities (N, K) by a model that did not see them."""
    from noiseproof.audit import estimate_noise
    from noiseproof.audit.scores import chance_agreement

    found = estimate_noise(given, probabilities)
    shares = np.bincount(given, minlength=probabilities.shape[1]) / len(given)
    wrong = shares * found.class_rates
    largest = (found.transition - np.diag(np.diag(found.transition))).max(1)
    return NoiseGuess(
        rate=found.rate,
        transition=found.transition,
        agreement=float((probabilities.argmax(1) == given).mean()),
        concentration=float((shares * largest).sum() / wrong.sum()) if wrong.sum() > 0 else 0.0,
        looked_at=len(given),
        by_chance=chance_agreement(given, probabilities.argmax(1)),
    )
