# SPDX-License-Identifier: Apache-2.0
"""Wrong segmentation masks: annotations too small, too large or out of place."""

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise import storage
from noiseproof.noise.checks import checked_rate, checked_seed
from noiseproof.noise.mask_shapes import dilated, displaced, eroded
from noiseproof.noise.randomness import uniforms, word_source
from noiseproof.noise.storage import FilePath

FORMAT = "noisy masks"

KINDS = ("kept", "erode", "dilate", "affine")
"""What was done to a mask; the record holds positions in this tuple."""

LARGEST_ROTATION = math.radians(30.0)

NUMBERS_PER_MASK = 4
"""Numbers drawn for each mask, whether it is corrupted or not: turn, kind, rotation, direction."""


def mask_fingerprint(masks: ArrayLike) -> str:
    """A name for masks in their order: SHA-256 of their shape and of what is foreground, pixel by pixel.

    Examples:
        >>> mask_fingerprint([[[0, 1]]]) == mask_fingerprint([[[False, True]]])
        True
        >>> mask_fingerprint([[[0, 1]]]) == mask_fingerprint([[[1, 0]]])
        False
    """
    array, _ = _checked_masks(masks)
    digest = hashlib.sha256(f"noiseproof masks 1\n{array.shape}\n".encode())
    digest.update(np.packbits(array != 0).data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class NoisyMasks:
    """Given masks beside the true ones, and how they were made. ``np.asarray`` of it is ``masks``.

    Attributes:
        masks: The given masks, in the dtype and values of the true ones, shape (N, H, W).
        clean: The true masks.
        kinds: For each mask what was done to it, as a position in :data:`KINDS`.
        share: The share of masks that was to be corrupted.
        strength: How strongly.
        seed: The seed.
    """

    masks: NDArray[Any]
    clean: NDArray[Any]
    kinds: NDArray[np.int64]
    share: float
    strength: float
    seed: int

    def __post_init__(self) -> None:
        # A view, so that the caller's own array stays writable.
        object.__setattr__(self, "clean", self.clean.view())
        self.clean.setflags(write=False)
        self.masks.setflags(write=False)
        self.kinds.setflags(write=False)

    @cached_property
    def changed(self) -> NDArray[np.bool_]:
        """Which masks differ from the true ones."""
        different: NDArray[np.bool_] = (self.masks != self.clean).any(axis=(1, 2))
        return different

    @property
    def realised_share(self) -> float:
        """The share of masks that differ."""
        return float(np.mean(self.changed))

    @cached_property
    def area_ratios(self) -> NDArray[np.float64]:
        """The given foreground over the true one; 1 where there is none."""
        return self._over_foreground(np.count_nonzero(self.masks, axis=(1, 2)), where_none=1.0)

    @cached_property
    def differences(self) -> NDArray[np.float64]:
        """The symmetric difference of given and true over the true foreground; 0 where there is none."""
        return self._over_foreground(np.count_nonzero(self.masks != self.clean, axis=(1, 2)), where_none=0.0)

    def _over_foreground(self, pixels: NDArray[np.int64], where_none: float) -> NDArray[np.float64]:
        foreground = np.count_nonzero(self.clean, axis=(1, 2))
        return np.where(foreground > 0, pixels / np.maximum(foreground, 1), where_none)

    def subset(self, indices: NDArray[np.integer]) -> Self:
        """The masks at ``indices``, in that order."""
        given, true = self.masks[indices], self.clean[indices]
        return replace(self, masks=given, clean=true, kinds=self.kinds[indices])

    def save(self, path: FilePath) -> None:
        """Write the record to one ``.npz`` file, whole or not at all. The true masks stay with the data."""
        storage.write(
            path,
            FORMAT,
            {
                "share": self.share,
                "strength": self.strength,
                "seed": self.seed,
                "shape": list(self.clean.shape),
                "clean_fingerprint": mask_fingerprint(self.clean),
            },
            {"bits": np.packbits(self.masks != 0), "kinds": self.kinds},
        )

    @classmethod
    def load(cls, path: FilePath, *, clean: ArrayLike) -> Self:
        """Read a saved record for the data whose masks are ``clean``.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The file is damaged or no record, or belongs to other masks or to another order.
        """
        true_masks, foreground_value = _checked_masks(clean)
        description, arrays = storage.read(
            path,
            FORMAT,
            _DESCRIPTION_TYPES,
            required={"bits", "kinds"},
            optional=set(),
            most_bytes=true_masks.size // 8 + 8 * len(true_masks),
        )
        expected, found = description["clean_fingerprint"], mask_fingerprint(true_masks)
        if expected != found:
            if description["shape"] != list(true_masks.shape):
                made_for = "×".join(str(each) for each in description["shape"][:4])[:60]
                raise ValueError(
                    f"{path} belongs to other masks: it was made for {made_for} (number, height, width), and these "
                    f"are {'×'.join(map(str, true_masks.shape))}"
                )
            raise ValueError(
                f"{path} belongs to other masks, or to the same in another order: it was made for "
                f"fingerprint {expected[:12]}…, the masks given have {found[:12]}…"
            )
        kinds = storage.checked_array(path, arrays, "kinds", np.int64, (len(true_masks),))
        if kinds.min() < 0 or kinds.max() >= len(KINDS):
            raise ValueError(f"{path} is damaged: kinds must lie in [0, {len(KINDS)})")
        bits = storage.checked_array(path, arrays, "bits", np.uint8, (-(-true_masks.size // 8),))
        given = np.unpackbits(bits, count=true_masks.size).reshape(true_masks.shape) * foreground_value
        return cls(
            given.astype(true_masks.dtype),
            true_masks,
            kinds,
            description["share"],
            description["strength"],
            description["seed"],
        )

    def __len__(self) -> int:
        return len(self.masks)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False and dtype is not None and np.dtype(dtype) != self.masks.dtype:
            raise ValueError(f"masks of {self.masks.dtype} cannot become {np.dtype(dtype)} without a copy")
        return np.array(self.masks, dtype=dtype) if copy else np.asarray(self.masks, dtype=dtype)

    def __repr__(self) -> str:
        counts = np.bincount(self.kinds, minlength=len(KINDS))
        done = ", ".join(f"{name} {count}" for name, count in zip(KINDS, counts, strict=True))
        return (
            f"NoisyMasks({len(self)} masks: {done}; share={self.share}, strength={self.strength}, "
            f"seed={self.seed})"
        )


def corrupt_masks(
    masks: ArrayLike, share: float, strength: float, seed: int, void: int | None = None
) -> NoisyMasks:
    r"""Erode, dilate or displace a share of the masks.

    :math:`\lfloor \alpha N \rfloor` masks are chosen, and for each one of three kinds, all alike:

    * erode, one pixel at a time until the area passes :math:`1 - \beta` of the foreground;
    * dilate, likewise until :math:`1 + \beta`; of the last two steps the nearer is kept;
    * affine: a rotation in ±30°, then a shift in any direction such that the symmetric difference over the
      foreground comes nearest to β.

    A mask never becomes empty nor full, and one that is so already is left alone. Resampling is by nearest
    neighbour. See :mod:`noiseproof.noise.mask_shapes`.

    Args:
        masks: (N, H, W), booleans, or integers with 0 for the background and one other value.
        share: α in [0, 1].
        strength: β in [0, 1].
        seed: A whole number of 32 bits; it alone decides the draw. Each mask has four numbers of
            :func:`~noiseproof.noise.randomness.uniforms`: those with the smallest first numbers are chosen,
            the others give kind, rotation and direction.
        void: The value of pixels without a label, if there are such. They are taken for background, in the true
            masks as in the given ones.

    Returns:
        The record: ``masks``, and what was done to each.

    Examples:
        >>> squares = np.zeros((30, 40, 40), dtype=np.uint8)
        >>> squares[:, 10:30, 10:30] = 1
        >>> noisy = corrupt_masks(squares, share=0.7, strength=0.7, seed=1)
        >>> noisy
        NoisyMasks(30 masks: kept 9, erode 6, dilate 6, affine 9; share=0.7, strength=0.7, seed=1)
        >>> noisy.realised_share
        0.7
        >>> np.asarray(noisy).shape
        (30, 40, 40)
    """
    without_label = None if void is None else np.asarray(masks) == void
    known = (
        masks if without_label is None else np.where(without_label, 0, masks).astype(np.asarray(masks).dtype)
    )
    clean, foreground_value = _checked_masks(known)
    part, degree, number = (
        checked_rate(share, "share"),
        checked_rate(strength, "strength"),
        checked_seed(seed),
    )
    numbers = uniforms(word_source(number), NUMBERS_PER_MASK * len(clean)).reshape(-1, NUMBERS_PER_MASK)
    chosen = np.argsort(numbers[:, 0], kind="stable")[: int(part * len(clean))]
    given = clean.copy()
    kinds = np.zeros(len(clean), dtype=np.int64)
    for index in np.sort(chosen):
        mask = clean[index].astype(np.bool_)
        if mask.all() or not mask.any():
            continue
        kind = 1 + int(3 * numbers[index, 1])
        if KINDS[kind] == "erode":
            wrong = eroded(mask, degree)
        elif KINDS[kind] == "dilate":
            wrong = dilated(mask, degree)
        else:
            rotation = (2.0 * numbers[index, 2] - 1.0) * LARGEST_ROTATION
            wrong = displaced(mask, degree, rotation, direction=2.0 * math.pi * numbers[index, 3])
        if without_label is not None:
            wrong = wrong & ~without_label[index]
            if not wrong.any():  # all that is left of it has no label
                continue
        given[index] = wrong
        if foreground_value != 1:
            given[index] *= foreground_value
        kinds[index] = kind
    return NoisyMasks(given, clean, kinds, part, degree, number)


def _checked_masks(masks: ArrayLike) -> tuple[NDArray[Any], int]:
    array = np.asarray(masks)
    if array.dtype.kind not in "biu":
        raise TypeError(f"masks must be booleans or integers, got dtype {array.dtype}")
    if array.ndim != 3 or array.size == 0:
        raise ValueError(f"masks must have shape (N, height, width), none of them 0, got {array.shape}")
    if array.dtype.kind == "b":
        return array, 1
    largest, smallest = int(array.max()), int(array.min())
    # One mask at a time, so that the comparisons stay in the cache.
    if smallest < 0 or not all(bool(((mask == 0) | (mask == largest)).all()) for mask in array):
        raise ValueError(f"masks must hold 0 and one other value, got values from {smallest} to {largest}")
    return array, max(largest, 1)


_DESCRIPTION_TYPES = {
    "share": (float, int),
    "strength": (float, int),
    "seed": int,
    "shape": list,
    "clean_fingerprint": str,
}
