# SPDX-License-Identifier: Apache-2.0
"""The evidence for rules of the planner where neither the paper nor the table in docs/sklearn.md has any.

RobustClassifier with one value changed, on the digits and on Fashion-MNIST images as tables of pixels; 70% for
training with wrong labels, 30% for testing with clean ones.

* hidden layers and batch: 40% symmetric noise.
* balance: anl-ce* against anl-ce, digits, 40% of each class labelled as the next one; the rarest class has a given
  share of the commonest one's samples.

    python benchmarks/tuning_estimator.py --out docs/performance/tuning-estimator.jsonl
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from noiseproof import datasets, noise
from noiseproof.sklearn import RobustClassifier

SEEDS = (1, 2, 3, 4, 5)
BALANCES = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1)


def fashion(count: int) -> tuple[np.ndarray, np.ndarray]:
    data = datasets.load("fashion-mnist")
    some = np.random.RandomState(1).permutation(len(data))[:count]
    assert data.images is not None
    return data.images[some].reshape(count, -1).astype(np.float32), data.labels[some]


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {"digits": load_digits(return_X_y=True)}
    return found | {f"fashion {count}": fashion(count) for count in (2_000, 8_000, 40_000)}


def accuracy(features: np.ndarray, labels: np.ndarray, kind: str, seed: int, **settings: Any) -> float:
    """Accuracy on clean labels in percent."""
    train, test, y_train, y_test = train_test_split(
        features, labels, test_size=0.3, stratify=labels, random_state=seed
    )
    if kind == "sym":
        given = noise.symmetric(y_train, 0.4, 10, seed).labels
    else:
        given = noise.asymmetric(y_train, 0.4, {k: (k + 1) % 10 for k in range(10)}, seed, 10).labels
    classifier = RobustClassifier(random_state=seed, **settings).fit(train, given)
    return 100 * float(classifier.score(test, y_test))


def unbalanced(labels: np.ndarray, balance: float, seed: int) -> np.ndarray:
    """Rows to keep: all of class 0, of the others fewer and fewer, of class 9 a share ``balance``."""
    random = np.random.RandomState(seed)
    kept = []
    for k, share in enumerate(np.linspace(1, balance, 10)):
        members = random.permutation(np.flatnonzero(labels == k))
        kept.append(members[: round(share * len(members))])
    return np.sort(np.concatenate(kept))


def measurements() -> Iterator[dict[str, Any]]:
    every = tables()
    widths = {"64, 64": {"hidden": (64, 64)}, "256, 256": {"hidden": (256, 256)}}
    batches = {str(size): {"batch_size": size} for size in (64, 256, 1024)}
    few, more = ("digits", "fashion 2000", "fashion 8000"), ("fashion 40000",)
    comparisons: list[tuple[str, tuple[str, ...], dict[str, dict[str, Any]]]] = [
        ("hidden layers, up to 8,000 rows", few, widths),
        ("hidden layers, 40,000 rows", more, widths),
        ("batch", few[:2], batches),
    ]
    for what, chosen, variants in comparisons:
        for table in chosen:
            features, labels = every[table]
            for setting, changes in variants.items():
                found = [accuracy(features, labels, "sym", seed, **changes) for seed in SEEDS]
                yield {"what": what, "table": table, "setting": setting, "accuracies": found}
    features, labels = every["digits"]
    for balance in BALANCES:
        for loss in ("anl-ce", "anl-ce*"):
            found = []
            for seed in SEEDS:
                kept = unbalanced(labels, balance, seed)
                found.append(accuracy(features[kept], labels[kept], "asym", seed, loss=loss))
            yield {"what": f"balance {balance}", "table": "digits", "setting": loss, "accuracies": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, help="write JSON lines to this file")
    arguments = parser.parse_args()
    lines = []
    for each in measurements():
        each["accuracies"] = [round(x, 2) for x in each["accuracies"]]
        print(
            f"{each['what']}, {each['table']}, {each['setting']}: {np.mean(each['accuracies']):.2f}",
            flush=True,
        )
        lines.append(json.dumps(each) + "\n")
    if arguments.out:
        arguments.out.write_text("".join(lines))


if __name__ == "__main__":
    main()
