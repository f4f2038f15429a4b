# SPDX-License-Identifier: Apache-2.0
"""Arguments looked at once, at the door: a message names the argument, what was expected and what came."""

import difflib
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Labels = NDArray[np.int64]

LARGEST_SEED = 2**32 - 1
"""The legacy NumPy stream takes seeds of 32 bits; all generators share that range."""

ROW_SUM_TOLERANCE = 1e-9
"""How far from one a row of a transition matrix may sum."""


def checked_labels(labels: ArrayLike, num_classes: int | None = None, name: str = "labels") -> Labels:
    """Labels as a new one-dimensional int64 array, every value in ``[0, num_classes)``.

    Examples:
        >>> checked_labels([0, 2, 1], num_classes=3)
        array([0, 2, 1])
        >>> checked_labels([0, 3], num_classes=3)
        Traceback (most recent call last):
        ValueError: labels must lie in [0, 3), got values from 0 to 3
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got dtype {array.dtype}")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one-dimensional and not empty, got shape {array.shape}")
    smallest, largest = int(array.min()), int(array.max())
    limit = num_classes if num_classes is not None else np.iinfo(np.int64).max
    if smallest < 0 or largest >= limit:
        expected = f"lie in [0, {num_classes})" if num_classes is not None else "be 0 or more"
        raise ValueError(f"{name} must {expected}, got values from {smallest} to {largest}")
    return array.astype(np.int64, copy=True)


def checked_rate(rate: float, name: str = "rate") -> float:
    """A number in [0, 1] as a float.

    Examples:
        >>> checked_rate(0.8)
        0.8
        >>> checked_rate(1.2)
        Traceback (most recent call last):
        ValueError: rate must lie in [0, 1], got 1.2
    """
    if isinstance(rate, bool | np.bool_) or not isinstance(rate, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number in [0, 1], got {type(rate).__name__}")
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], got {rate}")
    return float(rate)


def checked_integer(value: int, name: str, smallest: int, largest: int | None = None) -> int:
    """A whole number in ``[smallest, largest]`` as an int; booleans and floats are refused."""
    expected = f"at least {smallest}" if largest is None else f"between {smallest} and {largest}"
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer {expected}, got {type(value).__name__}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer {expected}, got {type(value).__name__}") from None
    if number < smallest or (largest is not None and number > largest):
        raise ValueError(f"{name} must be {expected}, got {number}")
    return number


def checked_num_classes(num_classes: int) -> int:
    """The number of classes: two or more."""
    return checked_integer(num_classes, "num_classes", smallest=2)


def checked_seed(seed: int) -> int:
    """A seed: a whole number of 32 bits."""
    return checked_integer(seed, "seed", smallest=0, largest=LARGEST_SEED)


def checked_transition(
    matrix: ArrayLike, num_classes: int | None = None, name: str = "matrix"
) -> NDArray[np.float64]:
    """A transition matrix: square, rows = true class, entries in [0, 1], every row sums to one.

    A matrix whose columns sum to one instead is a transposed one; the message says so.

    Examples:
        >>> checked_transition([[0.9, 0.1], [0.4, 0.6]])
        array([[0.9, 0.1],
               [0.4, 0.6]])
        >>> checked_transition([[0.9, 0.4], [0.1, 0.6]])
        Traceback (most recent call last):
        ValueError: matrix must have rows that sum to one (rows = true class), got a row that sums to 1.3; \
its columns do sum to one: transpose it
    """
    array = np.array(matrix, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] < 2:
        raise ValueError(f"{name} must be square, classes by classes (two or more), got shape {array.shape}")
    if num_classes is not None and array.shape[0] != num_classes:
        raise ValueError(f"{name} must be {num_classes} by {num_classes}, got shape {array.shape}")
    if not bool(np.all((array >= 0.0) & (array <= 1.0))):
        raise ValueError(f"{name} must hold probabilities in [0, 1], got {array.min()} to {array.max()}")
    row_sums = array.sum(axis=1)
    worst = int(np.argmax(np.abs(row_sums - 1.0)))
    if abs(row_sums[worst] - 1.0) > ROW_SUM_TOLERANCE:
        transposed = bool(np.all(np.abs(array.sum(axis=0) - 1.0) <= ROW_SUM_TOLERANCE))
        hint = "; its columns do sum to one: transpose it" if transposed else ""
        raise ValueError(
            f"{name} must have rows that sum to one (rows = true class), "
            f"got a row that sums to {row_sums[worst]:.6g}{hint}"
        )
    return array


def checked_choice(value: Any, choices: Iterable[str], name: str) -> str:
    """One of a few names; any other is refused with the nearest one.

    Examples:
        >>> checked_choice("exakt", ("exact", "bernoulli"), "generator")
        Traceback (most recent call last):
        ValueError: generator must be one of 'exact', 'bernoulli', got 'exakt'; did you mean 'exact'?
    """
    known = tuple(choices)
    if isinstance(value, str) and value in known:
        return value
    listed = ", ".join(repr(choice) for choice in known)
    nearest = difflib.get_close_matches(value, known, n=1, cutoff=0.4) if isinstance(value, str) else []
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"{name} must be one of {listed}, got {value!r}{hint}")
