# SPDX-License-Identifier: Apache-2.0
"""Labels that are names: which class index stands for which."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseproof.audit.checks import checked_labels
from noiseproof.losses.checks import unknown

KINDS_OF_NAMES = "USTOb"
"""NumPy's kinds of text, objects and booleans: no class indices."""


def indices_and_names(
    labels: NDArray[Any], class_names: Any = None, *, columns: int | None = None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Labels as class indices (N,), and what each class is called (K,), ``None`` where no one said.

    Args:
        labels: names or class indices (N,).
        class_names: of all classes, in the order of their indices; by default those that occur, sorted.
        columns: of the probabilities that go with the labels; without any, labels count as names in any case.

    Example:
        >>> indices_and_names(np.array(["dog", "cat", "dog"]), columns=2)
        (array([1, 0, 1]), array(['cat', 'dog'], dtype='<U3'))
        >>> indices_and_names(np.array([1, 0, 1]), ("dog", "cat"), columns=2)
        (array([1, 0, 1]), array(['dog', 'cat'], dtype='<U3'))
    """
    if class_names is None:
        if columns is not None and labels.dtype.kind not in KINDS_OF_NAMES:
            return labels, None
        names, indices = np.unique(_names(labels), return_inverse=True)
        if columns is not None and len(names) != columns:
            raise ValueError(
                f"labels: got {len(names)} different names for {columns} columns of probabilities; give "
                "class_names=…, in the order of the columns"
            )
        return indices, names
    names = _distinct(class_names)
    if columns is not None and len(names) != columns:
        raise ValueError(
            f"class_names: expected {columns}, one per column of probabilities, got {len(names)}"
        )
    if labels.dtype.kind in "iu" and names.dtype.kind not in "iu":
        if checked_labels(labels).max() >= len(names):
            raise ValueError(f"labels: expected class indices below {len(names)}, got {labels.max()}")
        return labels, names
    places = {name: index for index, name in enumerate(names.tolist())}
    given = _names(labels).tolist()
    strange = next((each for each in given if each not in places), None)
    if strange is not None:
        raise ValueError(unknown("labels", strange, [str(name) for name in places]))
    return np.array([places[each] for each in given], dtype=np.int64), names


def _distinct(class_names: Any) -> NDArray[Any]:
    names = np.asarray(class_names)
    if names.ndim != 1 or len(set(names.tolist())) != names.size:
        raise ValueError(f"class_names: expected a different name for each class, got {class_names!r}")
    return names


def _names(labels: NDArray[Any]) -> NDArray[Any]:
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"labels: expected names or class indices of shape (N,), got shape {labels.shape}")
    kinds = sorted({type(each).__name__ for each in labels.tolist()})
    if len(kinds) > 1 or kinds == ["NoneType"] or (labels.dtype.kind == "f" and np.isnan(labels).any()):
        raise ValueError(f"labels: expected one for each sample, all of one kind, got {' and '.join(kinds)}")
    return labels
