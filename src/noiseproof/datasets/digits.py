# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits: 1,797 real 8×8 images inside scikit-learn, so they need no download.

They are the test part of the UCI set "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak,
1998).

* **Scale.** The pixels count ink from 0 to 16. They are stored as ``round(ink · 255 / 16)``, which keeps
  all 17 levels apart and makes full ink 255.
* **Split.** Within each class, in the original order, the middle one of every five images is a test image:
  1,438 to train on, 359 to test, every class in the same proportion, no random numbers.
"""

import functools
import gzip
import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import fingerprint
from noiseproof.datasets.errors import DataError
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, SplitFacts, register

CLASS_NAMES = tuple(str(digit) for digit in range(10))
MOST_INK = 16
ONE_OF_EVERY = 5

_KNOWN_LABELS = "5383ddd907a091bb"


def held_out_indices(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the fixed test part: of every five images of a class, in order, the middle one.

    Example:
        >>> held_out_indices(np.array([0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0]))
        array([3, 5])
    """
    chosen = [
        np.flatnonzero(labels == label)[ONE_OF_EVERY // 2 :: ONE_OF_EVERY] for label in np.unique(labels)
    ]
    return np.sort(np.concatenate(chosen))


@functools.cache
def _ink_and_labels() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Scikit-learn's digits, read from its file without importing it, which takes longer than a short run does."""
    home = importlib.util.find_spec("sklearn")
    if home is not None and home.origin is not None:
        file = Path(home.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            with gzip.open(file, "rt", encoding="utf-8") as text:
                rows = np.loadtxt(text, delimiter=",")
            return rows[:, :-1].reshape(-1, 8, 8), rows[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits  # wherever a later release keeps them

    bunch = load_digits()
    return np.asarray(bunch.images), np.asarray(bunch.target, dtype=np.int64)


def read(_folder: Path, split: str) -> LabeledData:
    """Return one split; nothing is read from the cache folder."""
    ink, labels = _ink_and_labels()
    images = np.rint(ink * (255 / MOST_INK)).astype(np.uint8)[..., np.newaxis]
    if not fingerprint.of_array(labels).startswith(_KNOWN_LABELS):
        raise DataError(
            "scikit-learn's digits are not the 1,797 known ones in their known order, so the fixed split "
            f"would not be the same: expected labels with fingerprint {_KNOWN_LABELS}..., "
            f"found {fingerprint.of_array(labels)[:16]}...; install a released scikit-learn"
        )
    held_out = held_out_indices(labels)
    chosen = held_out if split == "test" else np.setdiff1d(np.arange(len(labels)), held_out)
    return LabeledData(
        name="digits", split=split, labels=labels[chosen], class_names=CLASS_NAMES, images=images[chosen]
    )


def prepare(_origin: Path | None, _folder: Path) -> None:
    """Do nothing: the digits are already here."""


SOURCE = register(
    Source(
        name="digits",
        description="1,797 handwritten digits of 8×8 pixels, 10 classes",
        splits=("train", "test"),
        form="in memory",
        where="Comes with scikit-learn; nothing to download.",
        prepare=prepare,
        read=read,
        embedded=True,
        licence="CC BY 4.0",
        facts=(SplitFacts("train", 1438, (8, 8, 1)), SplitFacts("test", 359, (8, 8, 1))),
    )
)
