# SPDX-License-Identifier: Apache-2.0
"""How a page names what was measured and what was wrong: accuracy and labels, or Dice and masks."""

from collections.abc import Iterable
from dataclasses import dataclass

from noiseproof.results import Result


@dataclass(frozen=True)
class Words:
    """The words for one metric.

    Attributes:
        score: what a result is, within a sentence.
        result: the same, with the epochs it is taken from.
        test: legend of the curve on test data.
        pieces: what is right or wrong one by one, and learned one by one.
        samples: what the noise makes wrong, one a sample.
        curves: what the curves show.
        noise: heading of the section on noise.
    """

    score: str
    result: str
    test: str
    pieces: str
    samples: str
    curves: str
    noise: str

    def of_curve(self, field: str) -> str:
        """Legend of a field of the curves.

        >>> words_of([]).of_curve("flipped")
        'training, wrong labels'
        """
        return {
            "test": self.test,
            "clean": f"training, right {self.pieces}",
            "flipped": f"training, wrong {self.pieces}",
        }[field]


_WORDS = {
    "test_accuracy": Words(
        score="accuracy",
        result="accuracy at the last epoch",
        test="test",
        pieces="labels",
        samples="labels",
        curves="Accuracy",
        noise="Label noise",
    ),
    "test_dice": Words(
        score="Dice",
        result="Dice pooled over the test set, mean over the last ten epochs",
        test="test Dice",
        pieces="pixels",
        samples="masks",
        curves="Dice on the test set and accuracy on the pixels of training masks,",
        noise="Mask noise",
    ),
}


def words_of(results: Iterable[Result]) -> Words:
    """Return the words for results of one grid, which share their metric."""
    metric = next((result.metric for result in results), "test_accuracy")
    return _WORDS[metric]
