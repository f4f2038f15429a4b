# SPDX-License-Identifier: Apache-2.0
"""Checks of what an audit is given."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS_CHECKED_AT_A_TIME = 1 << 16
SUM_TOLERANCE = 1e-2
"""Half precision and a thousand classes sum to one no better than this."""


def checked_labels(labels: object) -> NDArray[np.int64]:
    """Labels as class indices (N,)."""
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(
            f"labels: expected class indices of shape (N,), got {given.dtype} of shape {given.shape}"
        )
    if not len(given):
        raise ValueError("labels: expected at least one, got none")
    if given.min() < 0:
        raise ValueError(f"labels: expected class indices from 0, got {given.min()}")
    return given.astype(np.int64, copy=False)


def checked_columns(probabilities: NDArray[Any]) -> int:
    """Number K of columns of probabilities (N, K)."""
    if probabilities.ndim != 2 or probabilities.dtype.kind != "f":
        raise ValueError(
            f"probabilities: expected floats of shape (N, K), got {probabilities.dtype} of shape "
            f"{probabilities.shape}"
        )
    return int(probabilities.shape[1])


def checked_probabilities(probabilities: object, given: NDArray[np.int64]) -> NDArray[np.floating]:
    """Probabilities (N, K) that go with the labels; memory-mapped ones stay on disk."""
    found = probabilities if isinstance(probabilities, np.ndarray) else np.asarray(probabilities)
    columns = checked_columns(found)
    if len(found) != len(given):
        raise ValueError(f"probabilities: expected a row for each of {len(given)} labels, got {len(found)}")
    if given.max() >= columns:
        raise ValueError(
            f"labels: expected class indices below {columns}, the number of columns of probabilities, got "
            f"{given.max()}"
        )
    for start in range(0, len(found), ROWS_CHECKED_AT_A_TIME):
        rows = np.asarray(found[start : start + ROWS_CHECKED_AT_A_TIME], dtype=np.float64)
        # NaN fails both comparisons, so it is caught without looking for it.
        good = (rows >= 0).all(1) & (np.abs(rows.sum(1) - 1) <= SUM_TOLERANCE)
        if not good.all():
            bad = start + int(np.argmin(good))
            raise ValueError(
                f"probabilities: expected rows of numbers >= 0 that sum to 1, got row {bad} with the sum "
                f"{float(rows[bad - start].sum()):g} and the least {float(rows[bad - start].min()):g}; logits "
                "need a softmax first"
            )
    return found
