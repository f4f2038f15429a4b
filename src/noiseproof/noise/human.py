# SPDX-License-Identifier: Apache-2.0
"""Labels that people gave: the official files of CIFAR-10N and CIFAR-100N.

The files are torch archives of NumPy arrays, read by :mod:`noiseproof.torch_files`, so that none can run code.
"""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from noiseproof import torch_files
from noiseproof.noise.checks import Labels, checked_choice, checked_labels
from noiseproof.noise.record import NoisyLabels


class HumanLabels(NamedTuple):
    """One set of human labels: the entry that holds the true ones, and how many classes there are."""

    clean_key: str
    num_classes: int


HUMAN_LABELS: Mapping[str, HumanLabels] = MappingProxyType(
    {
        "aggre_label": HumanLabels("clean_label", 10),
        "worse_label": HumanLabels("clean_label", 10),
        "random_label1": HumanLabels("clean_label", 10),
        "random_label2": HumanLabels("clean_label", 10),
        "random_label3": HumanLabels("clean_label", 10),
        "noisy_label": HumanLabels("clean_label", 100),
        "noisy_coarse_label": HumanLabels("clean_coarse_label", 20),
    }
)
"""CIFAR-10N's five sets (majority of three annotators, the worst of them, each of the three) and CIFAR-100N's
two (classes, super-classes)."""

MOST_LABELS = 10_000_000
"""Two hundred times as many as the official files have."""


def from_file(path: str | PathLike[str], key: str, clean: ArrayLike) -> NoisyLabels:
    """Read human labels from ``CIFAR-10_human.pt`` or ``CIFAR-100_human.pt``, checked against the data's own.

    Args:
        path: The official file.
        key: The set: ``aggre_label``, ``worse_label``, ``random_label1`` to ``random_label3`` of CIFAR-10N,
            ``noisy_label`` or ``noisy_coarse_label`` of CIFAR-100N. The paper's "real" noise is
            ``worse_label`` and ``noisy_label``.
        clean: The true labels of the training set in its original order; the super-classes for
            ``noisy_coarse_label``.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, holds something else, has no such key, or its true labels are not
            ``clean``, label by label.
    """
    clean_key, num_classes = HUMAN_LABELS[checked_choice(key, HUMAN_LABELS, "key")]
    entries = _read(Path(path))
    given = _labels(path, entries, key, num_classes)
    stated = _labels(path, entries, clean_key, num_classes)
    return from_arrays(given, stated, key, clean, source=Path(path).name)


def from_arrays(
    labels: ArrayLike, stated_clean: ArrayLike, key: str, clean: ArrayLike, source: str = "human labels"
) -> NoisyLabels:
    """Human labels already read, with the true labels that came with them, checked against ``clean``.

    Examples:
        >>> noisy = from_arrays([3, 5, 5], stated_clean=[3, 3, 5], key="worse_label", clean=[3, 3, 5])
        >>> noisy.flipped
        array([False,  True, False])
    """
    _, num_classes = HUMAN_LABELS[checked_choice(key, HUMAN_LABELS, "key")]
    given = checked_labels(labels, num_classes)
    stated = checked_labels(stated_clean, num_classes, name="stated_clean")
    true_labels = checked_labels(clean, num_classes, name="clean")
    if not given.size == stated.size == true_labels.size:
        raise ValueError(
            f"{source} must be of the same data as clean ({true_labels.size} labels), "
            f"got {given.size} labels and {stated.size} true ones"
        )
    if mismatches := int(np.count_nonzero(stated != true_labels)):
        first = int(np.argmax(stated != true_labels))
        raise ValueError(
            f"{source} must be in the order of clean: {mismatches} of {stated.size} true labels differ, "
            f"the first at position {first} ({stated[first]} there, {true_labels[first]} in clean)"
        )
    return NoisyLabels(given, true_labels, num_classes, "human", details={"file": source, "key": key})


def _read(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}: the official human labels are at http://noisylabels.com")
    try:
        entries = torch_files.load_arrays(path)
    except Exception as error:  # on damaged bytes torch raises nearly every kind
        reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        raise ValueError(f"{path} is not a readable file of human labels: {reason}") from error
    if not isinstance(entries, Mapping):
        raise ValueError(f"{path} must hold named label sets, got {type(entries).__name__}")
    return entries


def _labels(path: str | PathLike[str], entries: Mapping[str, Any], key: str, num_classes: int) -> Labels:
    if key not in entries:
        raise ValueError(f"{path} has no {key!r}; it holds {', '.join(sorted(map(repr, entries)))}")
    name = f"{key!r} in {path}"
    try:
        labels = np.asarray(entries[key])
        # A tensor may claim any size with one number behind it, and looking at them all would take for ever.
        if labels.size > MOST_LABELS:
            raise ValueError(f"{name} must be at most {MOST_LABELS} labels, got shape {labels.shape}")
        return checked_labels(labels, num_classes, name=name)
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"{name}: {error}") from error
