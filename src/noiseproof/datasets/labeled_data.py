# SPDX-License-Identifier: Apache-2.0
"""The one type of every data set: images (or where to find them), labels, class names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import fingerprint

SPLITS = ("train", "test", "validation")


@dataclass(frozen=True, eq=False)
class LabeledData:
    """One split of a labeled data set.

    Images are held as an array, possibly memory-mapped, or as paths that are decoded on demand: exactly one
    of the two. For segmentation ``masks`` carries the classes and ``labels`` is all zeros.

    Attributes:
        name: the set's name, as in ``noiseproof data list``.
        split: ``"train"``, ``"test"`` or ``"validation"``.
        labels: class indices, int64 of shape (N,).
        class_names: the name of each class index.
        images: uint8 of shape (N, H, W, C).
        paths: one image file a sample.
        masks: uint8 of shape (N, H, W), class indices a pixel.
        coarse_labels: super-class indices, int64 of shape (N,).
        uncertain: indices of samples whose place in the official order is not certain, so that labels taken
            from another file by position may belong to a neighbour. The sample's own label is right.

    Example:
        >>> data = LabeledData(
        ...     name="mine",
        ...     split="train",
        ...     labels=np.array([0, 1, 1]),
        ...     class_names=("cat", "dog"),
        ...     images=np.zeros((3, 8, 8, 1), dtype=np.uint8),
        ... )
        >>> len(data), data.num_classes, data.fingerprint[:16]
        (3, 2, '79f9a2e9fc4c0379')
        >>> data.subset([2, 0]).labels
        array([1, 0])
    """

    name: str
    split: str
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    images: NDArray[np.uint8] | None = None
    paths: tuple[Path, ...] | None = None
    masks: NDArray[np.uint8] | None = None
    coarse_labels: NDArray[np.int64] | None = None
    uncertain: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {self.split!r}")
        if self.labels.dtype != np.int64 or self.labels.ndim != 1:
            raise ValueError(
                f"labels of {self.name} must be int64 of shape (N,), got {_describe(self.labels)}"
            )
        if not self.class_names:
            raise ValueError(f"class_names of {self.name} must name at least one class, got none")
        if (self.images is None) == (self.paths is None):
            given = "neither" if self.images is None else "both"
            raise ValueError(f"{self.name} needs either images or paths, got {given}")
        if self.images is not None and (self.images.dtype != np.uint8 or self.images.ndim != 4):
            raise ValueError(
                f"images of {self.name} must be uint8 of shape (N, H, W, C), got {_describe(self.images)}"
            )
        if self.masks is not None and (self.masks.dtype != np.uint8 or self.masks.ndim != 3):
            raise ValueError(
                f"masks of {self.name} must be uint8 of shape (N, H, W), got {_describe(self.masks)}"
            )
        coarse = self.coarse_labels
        if coarse is not None and (coarse.dtype != np.int64 or coarse.ndim != 1):
            raise ValueError(
                f"coarse_labels of {self.name} must be int64 of shape (N,), got {_describe(coarse)}"
            )
        self._check_lengths()
        self._check_ranges()

    def _check_lengths(self) -> None:
        parts = {
            "images": self.images,
            "paths": self.paths,
            "masks": self.masks,
            "coarse_labels": self.coarse_labels,
        }
        for part, values in parts.items():
            if values is not None and len(values) != len(self.labels):
                raise ValueError(
                    f"{self.name} has {len(self.labels)} labels but {len(values)} {part}; they must match"
                )

    def _check_ranges(self) -> None:
        if len(self.labels) and not (self.labels.min() >= 0 and self.labels.max() < self.num_classes):
            raise ValueError(
                f"labels of {self.name} must lie in 0..{self.num_classes - 1}, "
                f"got {self.labels.min()}..{self.labels.max()}"
            )
        if self.uncertain is not None and len(self.uncertain):
            if self.uncertain.dtype != np.int64 or self.uncertain.ndim != 1:
                raise ValueError(
                    f"uncertain of {self.name} must be int64 indices, got {_describe(self.uncertain)}"
                )
            if not (self.uncertain.min() >= 0 and self.uncertain.max() < len(self)):
                raise ValueError(
                    f"uncertain of {self.name} must lie in 0..{len(self) - 1}, "
                    f"got {self.uncertain.min()}..{self.uncertain.max()}"
                )

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        content = "paths" if self.images is None else "x".join(map(str, self.images.shape[1:]))
        size = f"{len(self)} of {content}, {self.num_classes} classes"
        return f"LabeledData({self.name!r}, {self.split!r}, {size})"

    @property
    def num_classes(self) -> int:
        """How many classes there are, seen in this split or not."""
        return len(self.class_names)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over the content in its order: labels, images (or file names), masks; not the set's name.

        File names count below their common folder, so the fingerprint is the same on every machine.
        """
        parts = [fingerprint.of_array(self.labels)]
        if self.images is not None:
            parts.append(fingerprint.of_array(self.images))
        if self.paths is not None:
            parts.append(fingerprint.of_paths(self.paths))
        if self.masks is not None:
            parts.append(fingerprint.of_array(self.masks))
        return fingerprint.of_parts(*parts)

    @cached_property
    def labels_fingerprint(self) -> str:
        """sha256 over the labels alone: tells in an instant whether an order is the expected one."""
        return fingerprint.of_array(self.labels)

    def subset(self, indices: Sequence[int] | NDArray[np.integer]) -> "LabeledData":
        """Return the samples at ``indices``, in that order; the chosen images are copied into memory."""
        chosen = np.asarray(indices)
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise ValueError(f"indices must be a 1-D sequence of integers, got {_describe(chosen)}")
        chosen = chosen.astype(np.int64)
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < len(self)):
            raise IndexError(
                f"indices into {self.name} must lie in 0..{len(self) - 1}, got {chosen.min()}..{chosen.max()}"
            )
        uncertain = None if self.uncertain is None else np.flatnonzero(np.isin(chosen, self.uncertain))
        return replace(
            self,
            labels=self.labels[chosen],
            images=None if self.images is None else self.images[chosen],
            paths=None if self.paths is None else tuple(self.paths[index] for index in chosen),
            masks=None if self.masks is None else self.masks[chosen],
            coarse_labels=None if self.coarse_labels is None else self.coarse_labels[chosen],
            uncertain=uncertain if uncertain is not None and len(uncertain) else None,
        )


def _describe(array: NDArray[np.generic]) -> str:
    return f"{array.dtype} of shape {array.shape}"
