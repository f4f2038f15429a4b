# SPDX-License-Identifier: Apache-2.0
"""RobustClassifier against the usual classifiers, on real tables with wrong training labels.

Every method gets the same scaled features and noisy labels and is scored on the same clean test labels: 30% of the
table, a different part for every seed. All run with their defaults (logistic regression and the perceptron with
enough iterations to converge); nothing is tuned on these tables.

    python benchmarks/tabular.py                        everything, about ten minutes
    python benchmarks/tabular.py --tables wine --seeds 1 2
    python benchmarks/tabular.py --out tabular.md
"""

import argparse
import os
import platform
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cleanlab
import numpy as np
import sklearn
import torch
from cleanlab.classification import CleanLearning
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from noiseproof import noise
from noiseproof.sklearn import RobustClassifier

TABLES = {"digits": load_digits, "wine": load_wine, "breast cancer": load_breast_cancer}
NOISES = (("none", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("pair", 0.2), ("pair", 0.4))
METHODS: dict[str, Callable[[int], Any]] = {
    "RobustClassifier": lambda seed: RobustClassifier(random_state=seed),
    "LogisticRegression": lambda seed: LogisticRegression(max_iter=5000),
    "HistGradientBoosting": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "MLPClassifier": lambda seed: MLPClassifier(max_iter=1000, random_state=seed),
    "CleanLearning": lambda seed: CleanLearning(LogisticRegression(max_iter=5000), seed=seed),
}


def with_noise(labels: np.ndarray, kind: str, rate: float, num_classes: int, seed: int) -> np.ndarray:
    """Labels of which a share is wrong; a pair is a class and the next one, the last going to the first."""
    if kind == "none":
        return labels
    if kind == "symmetric":
        return noise.symmetric(labels, rate, num_classes, seed, generator="bernoulli").labels
    following = {k: (k + 1) % num_classes for k in range(num_classes)}
    return noise.asymmetric(labels, rate, following, seed, num_classes, generator="bernoulli").labels


def measure(table: str, seeds: list[int]) -> tuple[dict[tuple[str, float], dict[str, list[float]]], Any]:
    """Test accuracies in percent by noise and method, and seconds a fit by method."""
    features, labels = TABLES[table](return_X_y=True)
    num_classes = len(np.unique(labels))
    accuracies: dict[tuple[str, float], dict[str, list[float]]] = {}
    seconds = defaultdict(list)
    for kind, rate in NOISES:
        if kind == "pair" and num_classes == 2:
            continue  # with two classes it is symmetric noise
        cell = accuracies[kind, rate] = defaultdict(list)
        for seed in seeds:
            x, x_test, y, y_test = train_test_split(
                features, labels, test_size=0.3, random_state=seed, stratify=labels
            )
            given = with_noise(y, kind, rate, num_classes, seed)
            scaler = StandardScaler().fit(x)
            for name, make in METHODS.items():
                started = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    classifier = make(seed).fit(scaler.transform(x), given)
                seconds[name].append(time.perf_counter() - started)
                right = classifier.predict(scaler.transform(x_test)) == y_test
                cell[name].append(100 * float(right.mean()))
    return accuracies, seconds


def rows(table: str, accuracies: Any) -> list[str]:
    lines = []
    for (kind, rate), cell in accuracies.items():
        means = {name: statistics.fmean(values) for name, values in cell.items()}
        best = max(round(mean, 1) for mean in means.values())
        shown = []
        for name, mean in means.items():
            spread = statistics.stdev(cell[name]) if len(cell[name]) > 1 else 0.0
            text = f"{mean:.1f} ± {spread:.1f}"
            shown.append(f"**{text}**" if round(mean, 1) == best else text)
        noise_name = "none" if kind == "none" else f"{kind} {rate:.0%}"
        lines.append(f"| {table} | {noise_name} | {' | '.join(shown)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--out", type=Path, help="write the Markdown to this file as well")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        f"{os.cpu_count()} cores, one thread, Python {platform.python_version()}, torch "
        f"{torch.__version__.split('+')[0]}, scikit-learn {sklearn.__version__}, cleanlab {cleanlab.__version__}. "
        f"Mean ± standard deviation of {len(arguments.seeds)} seeds; the best of each row in bold.",
        "",
        f"| table | wrong labels | {' | '.join(METHODS)} |",
        f"|---|---|{'--:|' * len(METHODS)}",
    ]
    times = []
    for table in arguments.tables:
        accuracies, seconds = measure(table, arguments.seeds)
        lines += rows(table, accuracies)
        medians = (f"{statistics.median(values):.2f}" for values in seconds.values())
        times.append(f"| {table} | {' | '.join(medians)} |")
        print("\n".join(lines), flush=True)
    lines += ["", "Seconds per fit, median:", "", f"| table | {' | '.join(METHODS)} |"]
    lines += [f"|---|{'--:|' * len(METHODS)}", *times]
    text = "\n".join(lines)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
