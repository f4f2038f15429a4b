# SPDX-License-Identifier: Apache-2.0
"""What every label-noise generator returns: the given labels, the true ones, and how the two came apart."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise import storage
from noiseproof.noise.checks import Labels, checked_labels
from noiseproof.noise.storage import FilePath

FORMAT = "noisy labels"
MOST_ANNOTATORS = 1_000
"""A file with answers of more is taken for a hostile one."""

MOST_CLASSES = 100_000
"""Likewise a file that states more classes: a transition matrix of them would fill any memory."""


def fingerprint(labels: ArrayLike) -> str:
    """A name for labels in their order: SHA-256 of their count and values as little-endian 64-bit integers.

    Two arrays share it exactly when they hold the same labels in the same order, whatever their dtype.

    Examples:
        >>> fingerprint([3, 1, 2]) == fingerprint(np.array([3, 1, 2], dtype=np.uint8))
        True
        >>> fingerprint([3, 1, 2]) == fingerprint([1, 3, 2])
        False
    """
    array = checked_labels(labels).astype("<i8", copy=False)
    digest = hashlib.sha256(f"noiseproof labels 1\n{array.size}\n".encode())
    digest.update(array.data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class NoisyLabels:
    """Given labels beside the true ones, and how they were made. Its arrays cannot be written to.

    Attributes:
        labels: The given labels, some of them wrong, int64, shape (N,).
        clean: The true labels in the same order.
        num_classes: K.
        kind: The family: ``symmetric``, ``asymmetric``, ``transition``, ``instance-dependent``, ``human``,
            ``open-set``, ``annotators``, or ``file`` of labels that came without a record.
        rate: The rate that was asked for; None where none was (human labels, a matrix of one's own).
        seed: The seed, None where nothing was drawn.
        generator: The way of drawing, by the name that draws it again.
        details: Whatever else is needed to draw it again, as short texts.
        outside: For open-set noise, the index of the outside image that took the place of the sample's own,
            -1 where the sample kept it; else None.
        answers: For annotators' noise, what each annotator (column) answered for each sample; else None.

    Examples:
        >>> from noiseproof import noise
        >>> noisy = noise.symmetric([0, 1, 2] * 100, rate=0.6, num_classes=3, seed=1)
        >>> noisy
        NoisyLabels(symmetric, 300 labels, 3 classes, realised rate 0.6000, rate=0.6, seed=1, \
generator='exact-published')
        >>> noisy.transition
        array([[0.4, 0.3, 0.3],
               [0.3, 0.4, 0.3],
               [0.3, 0.3, 0.4]])
        >>> bool((noisy.labels[noisy.flipped] != noisy.clean[noisy.flipped]).all())
        True
    """

    labels: Labels
    clean: Labels
    num_classes: int
    kind: str
    rate: float | None = None
    seed: int | None = None
    generator: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    outside: NDArray[np.int64] | None = None
    answers: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.labels.shape != self.clean.shape:
            raise ValueError(
                f"labels and clean must have one shape, got {self.labels.shape} and {self.clean.shape}"
            )
        for extra, name in ((self.outside, "outside"), (self.answers, "answers")):
            if extra is not None and len(extra) != len(self.labels):
                raise ValueError(f"{name} must have one row per label ({len(self.labels)}), got {len(extra)}")
        for array in (self.labels, self.clean, self.outside, self.answers):
            if array is not None:
                array.setflags(write=False)
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))

    @cached_property
    def flipped(self) -> NDArray[np.bool_]:
        """Where the given label is not the truth: another label, or an image of no class."""
        wrong: NDArray[np.bool_] = np.not_equal(self.labels, self.clean)
        if self.outside is not None:
            wrong |= self.outside >= 0
        wrong.setflags(write=False)
        return wrong

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many samples of true class i (row) were given label j (column).

        Samples whose image is of no class have no true class and are left out.
        """
        cells = self.clean * self.num_classes
        cells += self.labels
        if self.outside is not None:
            cells = cells[self.outside < 0]
        counts = np.bincount(cells, minlength=self.num_classes**2).astype(np.int64, copy=False)
        counts = counts.reshape(self.num_classes, self.num_classes)
        counts.setflags(write=False)
        return counts

    @cached_property
    def transition(self) -> NDArray[np.float64]:
        """The realised transition matrix: rows = true class, columns = given label, rows sum to one.

        A class without samples, of which nothing can be said, keeps its one on the diagonal.
        """
        totals = self.counts.sum(axis=1, keepdims=True)
        matrix = np.where(totals > 0, self.counts / np.maximum(totals, 1), np.eye(self.num_classes))
        matrix.setflags(write=False)
        return matrix

    @cached_property
    def realised_rate(self) -> float:
        """The share of wrong labels."""
        return int(np.count_nonzero(self.flipped)) / self.flipped.size

    @cached_property
    def class_rates(self) -> NDArray[np.float64]:
        """The share of wrong labels among the samples of each class; 0 for a class without samples."""
        totals = np.bincount(self.clean, minlength=self.num_classes)
        wrong = np.bincount(self.clean[self.flipped], minlength=self.num_classes)
        rates = wrong / np.maximum(totals, 1)
        rates.setflags(write=False)
        return rates

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the clean labels, which a saved record is bound to."""
        return fingerprint(self.clean)

    def subset(self, indices: NDArray[np.integer]) -> Self:
        """The samples at ``indices``, in that order; how they were made stays as it was said of all."""
        outside, answers = (None if each is None else each[indices] for each in (self.outside, self.answers))
        labels, clean = self.labels[indices], self.clean[indices]
        return replace(self, labels=labels, clean=clean, outside=outside, answers=answers)

    def save(self, path: FilePath) -> None:
        """Write the record to one ``.npz`` file, whole or not at all. The clean labels stay with the data.

        The file holds ``labels`` (``outside``, ``answers``) and a description: how they were made, and the
        fingerprints of the clean and the given labels.
        """
        description = {
            **{name: getattr(self, name) for name in _MADE_BY},
            "details": dict(self.details),
            "clean_fingerprint": self.fingerprint,
            "labels_fingerprint": fingerprint(self.labels),
        }
        arrays = {name: getattr(self, name) for name in ("labels", "outside", "answers")}
        present = {name: array for name, array in arrays.items() if array is not None}
        storage.write(path, FORMAT, description, present)

    @classmethod
    def load(cls, path: FilePath, *, clean: ArrayLike) -> Self:
        """Read a saved record for the data whose labels are ``clean``.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The file is damaged or no record, or belongs to other labels or to another order.
        """
        true_labels = checked_labels(clean, name="clean")
        description, arrays = storage.read(
            path,
            FORMAT,
            _DESCRIPTION_TYPES,
            required={"labels"},
            optional={"outside", "answers"},
            most_bytes=true_labels.nbytes * (2 + MOST_ANNOTATORS),
        )
        expected, found = description["clean_fingerprint"], fingerprint(true_labels)
        if expected != found:
            if (held := arrays["labels"].size) != true_labels.size:
                raise ValueError(
                    f"{path} belongs to other clean labels: it holds {held} labels, and there are "
                    f"{true_labels.size} clean ones"
                )
            raise ValueError(
                f"{path} belongs to other clean labels, or to the same in another order: it was made for "
                f"fingerprint {expected[:12]}…, the labels given have {found[:12]}…"
            )
        count, num_classes = true_labels.size, description["num_classes"]
        labels = storage.checked_array(path, arrays, "labels", np.int64, (count,))
        if num_classes > MOST_CLASSES:
            raise ValueError(
                f"{path} is damaged: it states {num_classes} classes; {MOST_CLASSES} are the most"
            )
        if labels.min() < 0 or max(labels.max(), true_labels.max()) >= num_classes:
            raise ValueError(f"{path} is damaged: it states {num_classes} classes, and labels go beyond them")
        if fingerprint(labels) != description["labels_fingerprint"]:
            raise ValueError(f"{path} is damaged: its labels do not have the fingerprint it states")
        entries = {name: description[name] for name in (*_MADE_BY, "details")}
        for name, shape in (("outside", (count,)), ("answers", (count, -1))):
            if name in arrays:
                entries[name] = storage.checked_array(path, arrays, name, np.int64, shape)
        return cls(labels, true_labels, **entries)

    def __len__(self) -> int:
        return self.labels.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyLabels):
            return NotImplemented
        return (
            self._description() == other._description()
            and np.array_equal(self.labels, other.labels)
            and np.array_equal(self.clean, other.clean)
            and _equal_or_both_none(self.outside, other.outside)
            and _equal_or_both_none(self.answers, other.answers)
        )

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only mapping cannot be pickled or deep-copied; the record is built again from its fields.
        arguments = [getattr(self, entry.name) for entry in fields(self)]
        arguments[[entry.name for entry in fields(self)].index("details")] = dict(self.details)
        return type(self), tuple(arguments)

    def __repr__(self) -> str:
        made = [
            f"{name}={value!r}"
            for name, value in (("rate", self.rate), ("seed", self.seed), ("generator", self.generator))
            if value is not None
        ]
        facts = [
            self.kind,
            f"{len(self)} labels",
            f"{self.num_classes} classes",
            f"realised rate {self.realised_rate:.4f}",
            *made,
        ]
        return f"NoisyLabels({', '.join(facts)})"

    def _description(self) -> tuple[object, ...]:
        return (*(getattr(self, name) for name in _MADE_BY), dict(self.details))


def _equal_or_both_none(first: NDArray[np.int64] | None, second: NDArray[np.int64] | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


_MADE_BY = ("num_classes", "kind", "rate", "seed", "generator")
_DESCRIPTION_TYPES = {
    "num_classes": int,
    "kind": str,
    "rate": (float, int, type(None)),
    "seed": (int, type(None)),
    "generator": (str, type(None)),
    "details": dict,
    "clean_fingerprint": str,
    "labels_fingerprint": str,
}
