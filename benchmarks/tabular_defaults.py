# SPDX-License-Identifier: Apache-2.0
"""How RobustClassifier's automatic values were chosen: variants of each, on tables that tabular.py does not use.

The tables are iris, the diabetes data cut into halves and thirds by its target, and six generated ones. Every
variant changes one value and is scored on clean labels of held-out samples, as in tabular.py.

    python benchmarks/tabular_defaults.py               about ten minutes
"""

import argparse
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from sklearn import datasets
from sklearn.model_selection import train_test_split

from noiseproof.sklearn import RobustClassifier, automatic
from tabular import with_noise

Table = tuple[np.ndarray, np.ndarray]


def diabetes(parts: int) -> Table:
    features, target = datasets.load_diabetes(return_X_y=True)
    return features, np.digitize(target, np.quantile(target, np.arange(1, parts) / parts))


def generated(samples: int, features: int, informative: int, redundant: int, **options: Any) -> Table:
    return datasets.make_classification(
        samples, features, n_informative=informative, n_redundant=redundant, flip_y=0, **options
    )


TABLES: dict[str, Callable[[], Table]] = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "diabetes, halves": lambda: diabetes(2),
    "diabetes, thirds": lambda: diabetes(3),
    "2 classes of 2 clusters": lambda: generated(500, 20, 8, 4, class_sep=1.2, random_state=1),
    "3 classes": lambda: generated(
        200, 13, 8, 2, n_classes=3, n_clusters_per_class=1, class_sep=1.5, random_state=2
    ),
    "5 classes of 2 clusters": lambda: generated(
        2000, 30, 12, 6, n_classes=5, n_clusters_per_class=2, class_sep=1.5, random_state=3
    ),
    "shells": lambda: datasets.make_gaussian_quantiles(
        n_samples=800, n_features=6, n_classes=3, random_state=4
    ),
    "moons": lambda: datasets.make_moons(600, noise=0.2, random_state=5),
    "2 classes": lambda: generated(600, 30, 15, 10, n_clusters_per_class=1, class_sep=1.0, random_state=6),
}


def scaled(field: str, factor: float) -> Callable[[int, int], dict[str, Any]]:
    """The automatic number times a factor."""

    def parameters(samples: int, classes: int) -> dict[str, Any]:
        value = automatic("anl-ce", samples, classes)[field].value
        return {field: round(value * factor) if isinstance(value, int) else value * factor}

    return parameters


VARIANTS: Mapping[str, Callable[[int, int], dict[str, Any]]] = {
    "automatic": lambda n, k: {},
    "no L1": lambda n, k: {"l1": 0.0},
    "L1 / 3": scaled("l1", 1 / 3),
    "L1 x 3": scaled("l1", 3),
    "learning rate / 3": scaled("learning_rate", 1 / 3),
    "learning rate x 3": scaled("learning_rate", 3),
    "half the epochs": scaled("epochs", 0.5),
    "twice the epochs": scaled("epochs", 2),
    "one hidden layer of 128": lambda n, k: {"hidden": (128,)},
    "hidden layers of 256, 256": lambda n, k: {"hidden": (256, 256)},
    "α = 1, β = 5": lambda n, k: {"alpha": 1.0},
    "α = 5, β = 1": lambda n, k: {"beta": 1.0},
    "early stopping": lambda n, k: {"early_stopping": True},
    "loss anl-ce*": lambda n, k: {"loss": "anl-ce*"},
    "loss nce+rce, L1 as automatic": lambda n, k: {
        "loss": "nce+rce",
        "l1": automatic("anl-ce", n, k)["l1"].value,
        "weight_decay": 0.0,
    },
    "loss ce": lambda n, k: {"loss": "ce"},
}


def mean_accuracy(variant: str, rate: float, seeds: list[int]) -> float:
    """Percent, over tables, kinds of noise and seeds, every table and kind counting the same."""
    cells = []
    for make in TABLES.values():
        features, labels = make()
        classes = len(np.unique(labels))
        for kind in ("symmetric",) if classes == 2 else ("symmetric", "pair"):
            scores = []
            for seed in seeds:
                x, x_test, y, y_test = train_test_split(
                    features, labels, test_size=0.3, random_state=seed, stratify=labels
                )
                parameters = VARIANTS[variant](len(x), classes)
                given = with_noise(y, kind, rate, classes, seed)
                fitted = RobustClassifier(random_state=seed, **parameters).fit(x, given)
                scores.append(100 * fitted.score(x_test, y_test))
            cells.append(statistics.fmean(scores))
    return statistics.fmean(cells)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| | 20% wrong | 40% wrong |\n|---|--:|--:|")
    for variant in VARIANTS:
        means = [mean_accuracy(variant, rate, arguments.seeds) for rate in (0.2, 0.4)]
        print(f"| {variant} | {' | '.join(f'{mean:.1f}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main()
