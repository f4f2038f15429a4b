# SPDX-License-Identifier: Apache-2.0
"""A table with wrong labels: RobustClassifier against logistic regression, and the labels that it suspects.

The table is scikit-learn's breast cancer data. A third of the training labels are made wrong; the test labels are
as published.

    python examples/tabular.py
    python examples/tabular.py --rate 0.2 --seed 3
"""

import argparse

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from noiseproof import noise
from noiseproof.sklearn import RobustClassifier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=float, default=1 / 3, help="share of wrong training labels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a few epochs, to see that it runs")
    arguments = parser.parse_args()

    table = load_breast_cancer(as_frame=True)
    names = table.target_names[table.target]
    x, x_test, y, y_test = train_test_split(
        table.data, names, test_size=0.3, random_state=arguments.seed, stratify=names
    )
    classes, indices = np.unique(y, return_inverse=True)
    noisy = noise.symmetric(indices, arguments.rate, len(classes), arguments.seed)
    given, wrong = classes[noisy.labels], noisy.labels != indices
    print(f"{len(x)} patients for training, {noisy.realised_rate:.1%} of the labels wrong\n")

    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(x, given)
    print(f"LogisticRegression  {plain.score(x_test, y_test):.1%} on clean test labels")
    epochs = 20 if arguments.quick else "auto"
    robust = RobustClassifier(epochs=epochs, random_state=arguments.seed).fit(x, given)
    print(f"RobustClassifier    {robust.score(x_test, y_test):.1%}\n")

    for choice in robust.choices_.values():
        print(f"  {choice.field} = {choice.value}: {choice.reason}")

    suspect = robust.suspect_labels_
    caught = (suspect & wrong).sum()
    print(f"\nestimated share of wrong labels: {robust.estimated_noise_:.1%}")
    print(f"{suspect.sum()} labels suspected, {caught} of them wrong; {wrong.sum()} are wrong in all")
    for worst in np.argsort(-robust.label_scores_)[:3]:
        print(f"  row {x.index[worst]}: given {given[worst]}, suggested {robust.suggested_labels_[worst]}")

    # Chosen by cross-validation on the noisy labels: there are no others.
    pipeline = make_pipeline(SimpleImputer(), RobustClassifier(epochs=epochs, random_state=arguments.seed))
    strengths = [1e-3, 1e-2] if arguments.quick else [1e-4, 1e-3, 1e-2]
    search = GridSearchCV(pipeline, {"robustclassifier__l1": strengths}, cv=3).fit(x, given)
    print(f"\ngrid search over L1: {search.best_params_['robustclassifier__l1']:g}", end=" ")
    print(f"gives {search.score(x_test, y_test):.1%}")


if __name__ == "__main__":
    main()
