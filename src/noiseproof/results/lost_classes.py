# SPDX-License-Identifier: Apache-2.0
"""Classes that a run has lost: it hardly ever predicts them, though labels name them.

Losses that are nearly linear in the predicted probability, such as MAE, hardly pull at samples whose class is
improbable. A class that falls behind early may so be given up for good, and which one that is depends on the seed.
Each lost class costs what would else be right of it, up to its whole share of the test set: runs of the same cell
then differ by such steps, not by the small normal spread of others.
"""

from collections.abc import Iterable, Sequence

from noiseproof.results.result import Result

LOST_BELOW = 0.1
"""A class is lost whose mean predicted probability is less than so many times its share of the labels. Runs leave
little doubt: in those of the paper's table it is either less than 0.03 or more than 0.4 times that share."""

MOST_NAMED = 12
"""Lost classes of a run that are named; of a hundred classes many may be lost."""


def lost_classes(result: Result) -> tuple[str, ...]:
    """Names of the classes that a run has lost, in the order of classes; empty where that is not on record.

    Predictions are the mean predicted probabilities over the last epoch's training samples, labels those that were
    trained on.

    Example:
        >>> from noiseproof.results import Result
        >>> facts = {"label_marginals": [0.3, 0.4, 0.3], "class_names": ["cat", "dog", "frog"]}
        >>> lost_classes(Result("pets", "mae", "sym-0.4", 1, 66.0, "0", "MAE", noise_facts=facts,
        ...     predicted_marginals=(0.5, 0.49, 0.01)))
        ('frog',)
    """
    predicted, labels = result.predicted_marginals, result.noise_facts.get("label_marginals")
    if not predicted or not labels or len(labels) != len(predicted):
        return ()
    names = result.noise_facts.get("class_names") or ()
    if len(names) != len(predicted):
        names = range(len(predicted))
    return tuple(
        str(name)
        for name, share, named in zip(names, predicted, labels, strict=True)
        if share < LOST_BELOW * named
    )


def named(lost: Sequence[str]) -> str:
    """Lost classes on one line: the first few where they are many; a number would be taken for how many.

    >>> named(["cat", "deer"]), named(["5"])
    ('cat, deer', 'class 5')
    """
    shown = [f"class {name}" if name.isdecimal() else name for name in lost[:MOST_NAMED]]
    more = f" and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
    return ", ".join(shown) + more


def note_on_lost_classes(results: Iterable[Result]) -> str | None:
    """How many runs have lost classes, in a sentence for a table's caption; None where none has."""
    results = list(results)
    known = [result for result in results if result.predicted_marginals]
    found = [lost for result in known if (lost := lost_classes(result))]
    if not found:
        return None
    most = max(len(lost) for lost in found)
    up_to = f" (up to {most} in one run)" if most > 1 else ""
    on_record = " whose predictions are on record" if len(known) < len(results) else ""
    return (
        f"{len(found)} of {len(known)} runs{on_record} lost a class{up_to}: its mean predicted probability is less "
        "than a tenth of its share of the labels. Each lost class costs up to its share of the test set."
    )
