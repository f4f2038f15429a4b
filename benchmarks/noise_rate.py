# SPDX-License-Identifier: Apache-2.0
"""How far the estimated noise rate is from the truth, on many sets whose truth is known.

The sets are points with a known distribution (2 to 100 classes; exact or over-confident probabilities; noise by a
rule, at random, or from somebody who sees the points blurred), scikit-learn's tables under two model families, and
digits through the audit's own patches. The rate is shown next to the mean of the scores, which it corrects.

    python benchmarks/noise_rate.py --out docs/performance/noise-rate.json      a few minutes on a CPU
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SPACES = ((2, 2, 2.5), (3, 3, 2.5), (5, 4, 2.5), (10, 5, 2.5), (10, 5, 1.5), (20, 8, 2.0), (100, 20, 2.0))
"""Classes, dimensions, and how far the classes lie apart."""
NOISES = (("clean", 0.0), ("sym", 0.2), ("sym", 0.4), ("pair", 0.3), ("random", 0.3))
BLURRED = (0.2, 0.4)
CONFIDENCES = (1.0, 3.0)
"""Powers that exact probabilities are raised to: a model may be surer than it should be."""
TABLE_NOISES = (("clean", 0.0), ("sym", 0.2), ("sym", 0.4), ("pair", 0.2), ("pair", 0.3))
DIGIT_NOISES = ("clean", "sym-0.2", "sym-0.4", "sym-0.6", "asym-0.2", "asym-0.4", "dep-0.4")


@dataclass(frozen=True)
class Labelled:
    """Labels as given and as they are, and what a model says that did not see them."""

    group: str
    name: str
    given: NDArray[np.int64]
    true: NDArray[np.int64]
    probabilities: NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Noise rates of one set, in percent."""

    group: str
    name: str
    wrong: float
    rate: float
    mean_score: float


def transition(kind: str, classes: int, rate: float, random: np.random.RandomState) -> NDArray[np.float64]:
    stays = np.eye(classes)
    if kind == "sym":
        return stays * (1 - rate - rate / (classes - 1)) + rate / (classes - 1)
    if kind == "pair":
        return (1 - rate) * stays + rate * np.roll(stays, 1, axis=1)
    if kind == "random":
        flips = random.dirichlet(np.full(classes, 0.3), classes) * (1 - stays) + 1e-9 * (1 - stays)
        rates = random.uniform(0, 2 * rate, classes)[:, None]
        return rates * flips / flips.sum(1, keepdims=True) + (1 - rates) * stays
    return stays


def drawn(shares: NDArray[np.float64], random: np.random.RandomState) -> NDArray[np.int64]:
    """One class a row, by the row's shares."""
    found = (random.rand(len(shares), 1) > shares.cumsum(1)).sum(1)
    return np.minimum(found, shares.shape[1] - 1)


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def cross_validated(
    model: object, features: NDArray[np.float64], given: NDArray[np.int64]
) -> NDArray[np.float64]:
    from sklearn.model_selection import cross_val_predict

    return cross_val_predict(model, features, given, cv=3, method="predict_proba")


def linear_model(**options: float) -> object:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500, **options))


def points() -> Iterator[Labelled]:
    for classes, dimensions, apart in SPACES:
        count = 20_000 if classes > 20 else 1000 * max(4, min(classes, 10))
        space = f"{classes} classes {apart} apart"
        random = np.random.RandomState(classes)
        centres = apart * random.randn(classes, dimensions)
        true = random.randint(classes, size=count)
        seen = centres[true] + random.randn(count, dimensions)
        exact = softmax(seen @ centres.T - np.square(centres).sum(1) / 2)
        for kind, rate in NOISES:
            matrix = transition(kind, classes, rate, random)
            given = drawn(matrix[true], random)
            for power in CONFIDENCES:
                said = (exact @ matrix) ** power
                name = f"{space}, {kind} {rate}, power {power:g}"
                yield Labelled("points, noise by class", name, given, true, said / said.sum(1, keepdims=True))
        for rate in BLURRED:
            given = blurred_labels(seen, true, centres, rate)
            if len(np.unique(given)) == classes:
                said = cross_validated(linear_model(), np.column_stack([seen, seen**2]), given)
                yield Labelled("points, seen blurred", f"{space}, {rate}", given, true, said)


def blurred_labels(
    seen: NDArray[np.float64], true: NDArray[np.int64], centres: NDArray[np.float64], rate: float
) -> NDArray[np.int64]:
    """Labels by somebody who sees the same points through noise, so strong that so many labels are wrong."""
    low, high = 0.1, 8.0
    kept = centres[true] + 0.6 * (seen - centres[true])
    for _ in range(25):
        blur = (low + high) / 2
        view = kept + blur * np.random.RandomState(1).randn(*seen.shape)
        given = (view @ centres.T - np.square(centres).sum(1) / 2).argmax(1)
        low, high = (blur, high) if (given != true).mean() < rate else (low, blur)
    return given


def tables() -> Iterator[Labelled]:
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
    from sklearn.ensemble import RandomForestClassifier

    models = {
        "linear": linear_model(C=0.1),
        "forest": RandomForestClassifier(100, min_samples_leaf=5, random_state=0),
    }
    for load in (load_wine, load_breast_cancer, load_digits, load_iris):
        features, true = load(return_X_y=True)
        classes = int(true.max()) + 1
        for kind, rate in TABLE_NOISES:
            if classes == 2 and rate == 0.4:
                continue  # of two classes, hardly anything is known then
            random = np.random.RandomState(7)
            given = drawn(transition(kind, classes, rate, random)[true], random)
            for which, model in models.items():
                name = f"{load.__name__.removeprefix('load_')}, {kind} {rate}, {which}"
                yield Labelled("tables", name, given, true, cross_validated(model, features, given))


def digits() -> Iterator[Labelled]:
    from dataclasses import replace

    from noiseproof import datasets
    from noiseproof.audit.cross_validation import picture_probabilities
    from noiseproof.training.config import Config
    from noiseproof.training.data import draw_noise

    data = datasets.load("digits")
    for noise in DIGIT_NOISES:
        found = draw_noise(Config("digits", "mlp", 1, 0.1, noise=noise, noise_seed=1), data)
        given = data.labels if found is None else found.labels
        said = picture_probabilities(replace(data, labels=given), folds=3, filters=128, seed=1)
        yield Labelled("digits, patches", noise, given, data.labels, np.asarray(said, dtype=np.float64))


def measure(each: Labelled) -> Measured:
    from noiseproof.audit import score_labels

    found = score_labels(each.given, each.probabilities)
    wrong, rate, mean = (each.given != each.true).mean(), found.noise_rate, found.scores.mean()
    shown = [round(100 * float(value), 2) for value in (wrong, rate, mean)]
    return Measured(each.group, each.name, *shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, help="write every set's rates here, as JSON")
    arguments = parser.parse_args()
    found: list[Measured] = []
    for source in (tables, digits, points):
        for each in source():
            found.append(measure(each))
            print(found[-1], flush=True)
    print("\n| labels | sets | mean of the scores | rate |\n|---|---:|---:|---:|")
    for group in (*dict.fromkeys(each.group for each in found), "all"):
        rows = [each for each in found if group in (each.group, "all")]
        errors = [
            float(np.mean([abs(getattr(row, name) - row.wrong) for row in rows]))
            for name in ("mean_score", "rate")
        ]
        print(f"| {group} | {len(rows)} | {errors[0]:.1f} | {errors[1]:.1f} |")
    if arguments.out:
        arguments.out.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
