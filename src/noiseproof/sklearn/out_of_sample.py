# SPDX-License-Identifier: Apache-2.0
"""Probabilities of samples that the predicting network did not see."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict


def out_of_sample_probabilities(
    classifier: Any,
    samples: Any,
    labels: NDArray[np.int64],
    weights: NDArray[np.float64],
    folds: int,
    seed: int,
) -> NDArray[np.float64]:
    """Cross-validated ``predict_proba`` (N, K); every class of 0…K−1 must occur among the labels."""
    parts = min(folds, len(labels))
    rarest = int(np.bincount(labels).min())
    kind = StratifiedKFold if rarest >= parts else KFold
    with warnings.catch_warnings():
        # A class may be missing from a part's training samples; its probability there is 0.
        warnings.filterwarnings("ignore", message="Number of classes in training fold")
        probabilities: NDArray[np.float64] = cross_val_predict(
            classifier,
            samples,
            labels,
            cv=kind(parts, shuffle=True, random_state=seed),
            method="predict_proba",
            params={"sample_weight": weights},
        )
    return probabilities
