# SPDX-License-Identifier: Apache-2.0
"""What a finished run came to, from its epochs: accuracy of the last, or Dice over the last ten."""

from collections.abc import Mapping, Sequence
from typing import Any

LAST_EPOCHS = 10
"""Epochs over which Dice is averaged, as in the paper; tables of accuracy take the last one."""

SCORES = ("test_accuracy", "test_dice")
"""What a run is judged by: classification by the one, segmentation by the other."""


def score_name(values: Mapping[str, Any]) -> str:
    """Name of what an epoch, or a result, is judged by.

    >>> score_name({"loss": 0.3, "test_dice": 81.0})
    'test_dice'
    """
    return next((name for name in SCORES if values.get(name) is not None), SCORES[0])


def score_of(values: Mapping[str, Any]) -> Any:
    """The number that an epoch, or a result, is judged by, in percent; ``None`` where it was not tested.

    >>> score_of({"test_accuracy": 93.4}), score_of({"loss": 0.3})
    (93.4, None)
    """
    return values.get(score_name(values))


def result_of(epochs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The result of a run whose last epoch was tested.

    Accuracy is that of the last epoch. Dice, pooled and per image, is the mean over those of the last ten epochs
    that were tested. The best epoch was picked by looking at the test set and is for comparison only.

    Example:
        >>> result_of([{"test_accuracy": 91.0}, {"test_accuracy": 90.0}])
        {'test_accuracy': 90.0, 'best_test_accuracy': 91.0, 'best_epoch': 1}
        >>> result_of([{"test_dice": 80.0 + n, "test_dice_per_image": 70.0} for n in range(11)])["test_dice"]
        85.5
    """
    name = score_name(epochs[-1])
    tested = [
        (values[name], number) for number, values in enumerate(epochs, 1) if values.get(name) is not None
    ]
    best, best_epoch = max(tested, key=lambda each: each[0])  # the first of several equal ones
    if name == "test_accuracy":
        result: dict[str, Any] = {name: epochs[-1][name]}
    else:
        last = [values for values in epochs[-LAST_EPOCHS:] if values.get(name) is not None]
        both = (name, f"{name}_per_image")
        result = {each: sum(values[each] for values in last) / len(last) for each in both}
        result["averaged_epochs"] = len(last)
    return result | {f"best_{name}": best, "best_epoch": best_epoch}
