# SPDX-License-Identifier: Apache-2.0
"""Splits by stored indices: the paper's 90/10 tuning split, with the labels as given on both sides.

A split is drawn once from a seed, kept as indices together with the fingerprint of the data it was drawn
for, and refused for any other data. Random numbers come from ``numpy.random.RandomState``, whose streams
NumPy has frozen, so a seed gives the same split with every version.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import cache, npz_file
from noiseproof.datasets.errors import BadFileError, DataError
from noiseproof.datasets.labeled_data import LabeledData

FORMAT_VERSION = 1
MOST_BYTES = 1 << 30  # indices of 130 million samples


@dataclass(frozen=True, eq=False)
class Split:
    """Two disjoint sets of indices into one data set, which together cover it.

    Attributes:
        train: indices to train on, ascending.
        validation: indices held out, ascending.
        fingerprint: of the data the indices belong to.
        seed: what the split was drawn with.
    """

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    fingerprint: str
    seed: int

    def __post_init__(self) -> None:
        both = np.concatenate([self.train, self.validation])
        if self.train.dtype != np.int64 or self.validation.dtype != np.int64:
            raise ValueError(f"indices must be int64, got {self.train.dtype} and {self.validation.dtype}")
        if not np.array_equal(np.sort(both), np.arange(len(both))):
            raise ValueError(
                f"train and validation must share out 0..{len(both) - 1} between them, once each"
            )

    def apply(
        self, data: LabeledData, *, labels: NDArray[np.int64] | None = None, clean_validation: bool = False
    ) -> tuple[LabeledData, LabeledData]:
        """Return the part to train on and the part held out.

        Args:
            data: the data the split was drawn for; its own labels count as clean.
            labels: labels as given, for all of ``data`` in its order, where they are noisy. Validation gets
                them too: who tunes on noisy data has no clean labels to look at.
            clean_validation: keep the data's own labels in the held-out part instead.

        Raises:
            DataError: the data is not the data the split was drawn for.
        """
        if data.fingerprint != self.fingerprint:
            raise DataError(
                f"this split was drawn for other data than {data.name} {data.split}: expected the "
                f"fingerprint {self.fingerprint}, found {data.fingerprint}; draw a new one with tuning_split"
            )
        given = data
        if labels is not None:
            given = replace(data, labels=np.asarray(labels, dtype=np.int64))
        held_out = (data if clean_validation else given).subset(self.validation)
        return given.subset(self.train), replace(held_out, split="validation")

    def save(self, path: Path | str) -> None:
        """Write the split to an ``.npz`` file, without pickle, all at once or not at all."""
        with cache.replacing_file(Path(path)) as file:
            np.savez_compressed(
                file,
                format_version=np.int64(FORMAT_VERSION),
                train=self.train,
                validation=self.validation,
                fingerprint=np.array(self.fingerprint),
                seed=np.int64(self.seed),
            )


def load_split(path: Path | str) -> Split:
    """Read a split written by :meth:`Split.save`."""
    path = Path(path)
    expected, advice = "a split written by Split.save", "draw it again"
    content = npz_file.read(path, MOST_BYTES, expected, advice)
    try:
        version = int(content["format_version"])
        if version != FORMAT_VERSION:
            raise BadFileError(path, f"format_version {FORMAT_VERSION}", f"{version}")
        return Split(
            train=content["train"],
            validation=content["validation"],
            fingerprint=str(content["fingerprint"]),
            seed=int(content["seed"]),
        )
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, BadFileError):
            raise
        raise BadFileError(path, expected, f"something else ({error})", advice) from error


def tuning_split(data: LabeledData, *, share: float = 0.1, seed: int = 0, stratified: bool = False) -> Split:
    """Draw the split the paper tunes on: a tenth of the training set is held out.

    Args:
        data: what to split.
        share: of the samples to hold out, between 0 and 1.
        seed: of the draw.
        stratified: hold out the same share of each class of ``data.labels`` (rounded), instead of the same
            share of all. With noisy data pass the given labels, or the draw knows more than it should.

    Example:
        >>> from noiseproof import datasets
        >>> data = datasets.load("digits")
        >>> split = tuning_split(data, seed=1)
        >>> len(split.train), len(split.validation), split.validation[:4]
        (1294, 144, array([ 3, 19, 37, 48]))
        >>> train, validation = split.apply(data)
        >>> validation
        LabeledData('digits', 'validation', 144 of 8x8x1, 10 classes)
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}")
    random = np.random.RandomState(seed)
    if stratified:
        members = [random.permutation(np.flatnonzero(data.labels == k)) for k in range(data.num_classes)]
        chosen = np.concatenate([indices[: round(share * len(indices))] for indices in members])
    else:
        chosen = random.permutation(len(data))[: round(share * len(data))]
    validation = np.sort(chosen).astype(np.int64)
    train = np.setdiff1d(np.arange(len(data), dtype=np.int64), validation)
    return Split(train=train, validation=validation, fingerprint=data.fingerprint, seed=seed)
