# SPDX-License-Identifier: Apache-2.0
"""RobustClassifier's L1 strength where there are many classes: as for ten, and as it is chosen now.

Accuracy on clean labels of held-out samples, at 0, 20 and 40% symmetric noise, next to our classifier with
cross-entropy and to logistic regression. The tables are clouds of points that overlap, generated ones of
scikit-learn's, and pairs of real digits side by side, whose class is the pair.

    python benchmarks/tabular_many_classes.py           about five minutes on one core; prints a table
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from noiseproof import noise
from noiseproof.sklearn import RobustClassifier

Table = tuple[np.ndarray, np.ndarray]
RATES = (0.0, 0.2, 0.4)
HELD_OUT = 0.4


def clouds(classes: int, each: int) -> Table:
    random = np.random.RandomState(classes)
    labels = np.repeat(np.arange(classes), each)
    return random.randn(classes, 20)[labels] + 0.9 * random.randn(len(labels), 20), labels


def generated(classes: int, each: int) -> Table:
    return datasets.make_classification(
        classes * each,
        40,
        n_informative=16,
        n_redundant=6,
        n_classes=classes,
        n_clusters_per_class=1,
        class_sep=1.2,
        random_state=1,
    )


def pairs_of_digits(first: int) -> Table:
    """Two digits side by side; of the one on the left, so many kinds are told apart."""
    digits = datasets.load_digits()
    other = np.random.RandomState(0).permutation(len(digits.data))
    both = np.concatenate([digits.data, digits.data[other]], axis=1) / 16
    return both, digits.target % first * 10 + digits.target[other]


TABLES: dict[str, Callable[[], Table]] = {
    "generated, 16 classes": lambda: generated(16, 60),
    "generated, 26 classes": lambda: generated(26, 100),
    "clouds, 30 classes": lambda: clouds(30, 100),
    "clouds, 50 classes": lambda: clouds(50, 40),
    "clouds, 100 classes": lambda: clouds(100, 20),
    "pairs of digits, 20 classes": lambda: pairs_of_digits(2),
    "pairs of digits, 50 classes": lambda: pairs_of_digits(5),
    "pairs of digits, 100 classes": lambda: pairs_of_digits(10),
}


def classifiers(samples: int) -> dict[str, Any]:
    """By heading of the table."""
    return {
        "automatic": RobustClassifier(random_state=1),
        "L1 as for ten": RobustClassifier(l1=0.03 / samples**0.5, random_state=1),
        "cross-entropy": RobustClassifier("ce", random_state=1),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    }


def accuracies(table: Table) -> Iterator[tuple[str, list[float]]]:
    """Of each classifier, at each rate."""
    features, labels = table
    train_x, test_x, train_y, test_y = train_test_split(
        features, labels, test_size=HELD_OUT, random_state=0, stratify=labels
    )
    classes = 1 + int(labels.max())
    given = [noise.symmetric(train_y, rate, classes, seed=1, generator="bernoulli").labels for rate in RATES]
    for heading, classifier in classifiers(len(train_y)).items():
        yield heading, [100 * classifier.fit(train_x, each).score(test_x, test_y) for each in given]


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="sklearn")
    for number, (name, make) in enumerate(TABLES.items()):
        found = dict(accuracies(make()))
        if not number:
            print("|".join(("", " accuracy at 0, 20 and 40% wrong ", *(f" {each} " for each in found), "")))
            print("|".join(("", "---", *["--:"] * len(found), "")))
        cells = [" / ".join(f"{value:.1f}" for value in values) for values in found.values()]
        print("|".join(("", f" {name} ", *(f" {cell} " for cell in cells), "")), flush=True)


if __name__ == "__main__":
    main()
