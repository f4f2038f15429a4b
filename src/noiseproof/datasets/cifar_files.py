# SPDX-License-Identifier: Apache-2.0
"""The forms in which CIFAR's files are found, each read into the same rows, and back to the official binary.

Layouts, from the authors' page (https://www.cs.toronto.edu/~kriz/cifar.html): a row is 3,072 bytes, the red
plane, then the green, then the blue, each of 32×32 in row order. The binary version puts one label byte
before each row (CIFAR-100: two, coarse then fine); the Python version is a pickled dictionary with ``data``
and ``labels`` (CIFAR-100: ``fine_labels`` and ``coarse_labels``).
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from noiseproof.datasets import pickle_reader
from noiseproof.datasets.errors import BadFileError

SIDE = 32
PIXEL_BYTES = 3 * SIDE * SIDE
_FETCH_AGAIN = "download the file again"


@dataclass(frozen=True, eq=False)
class Rows:
    """Images with the label bytes that stand before them in the binary version.

    Attributes:
        labels: uint8 of shape (N, label bytes), in the order of the binary version.
        images: uint8 of shape (N, 32, 32, 3).
    """

    labels: NDArray[np.uint8]
    images: NDArray[np.uint8]

    def checksum(self, algorithm: str) -> str:
        """Return the checksum that the official binary file of these rows has."""
        planes = self.images.transpose(0, 3, 1, 2).reshape(len(self.images), PIXEL_BYTES)
        binary = np.concatenate([self.labels, planes], axis=1)
        return hashlib.new(algorithm, binary.data, usedforsecurity=False).hexdigest()


def read_binary(path: Path, count: int, label_bytes: int) -> Rows:
    """Read a file of the official binary version."""
    row_bytes = label_bytes + PIXEL_BYTES
    if path.stat().st_size != count * row_bytes:
        expected = f"{count} rows of {row_bytes} bytes, {count * row_bytes} in all"
        raise BadFileError(path, expected, f"{path.stat().st_size} bytes", _FETCH_AGAIN)
    rows = np.fromfile(path, dtype=np.uint8).reshape(count, row_bytes)
    return Rows(rows[:, :label_bytes].copy(), _from_planes(rows[:, label_bytes:]))


def read_python(path: Path, count: int, label_keys: tuple[str, ...]) -> Rows:
    """Read a file of the official Python version, with no unpickling.

    Args:
        path: the pickle.
        count: how many images it must hold.
        label_keys: the entries with labels, in the order of the binary version.
    """
    content = pickle_reader.read(path)
    data = content.get("data")
    if not isinstance(data, np.ndarray) or data.shape != (count, PIXEL_BYTES):
        entries = ", ".join(repr(key[:40]) for key in sorted(content)[:10]) or "none"
        found = f"shape {data.shape}" if isinstance(data, np.ndarray) else f"the entries {entries}"
        raise BadFileError(path, f"'data' of shape {(count, PIXEL_BYTES)}", found, _FETCH_AGAIN)
    labels = [byte_labels(path, content.get(key), count, key) for key in label_keys]
    return Rows(np.stack(labels, axis=1), _from_planes(data))


def byte_labels(path: Path, values: Any, count: int, what: str) -> NDArray[np.uint8]:
    """Return labels found in a file as bytes; anything but a list of so many numbers 0..255 is an error."""
    if not isinstance(values, list) or len(values) != count:
        found = f"{len(values)}" if isinstance(values, list) else type(values).__name__
        raise BadFileError(path, f"a list {what!r} of {count} labels", found, _FETCH_AGAIN)
    for position, value in enumerate(values):
        if type(value) is not int or not 0 <= value <= 255:
            shown = repr(value) if isinstance(value, int | float | None) else f"a {type(value).__name__}"
            raise BadFileError(path, f"{what!r} to be class numbers", f"{shown} at position {position}")
    return np.array(values, dtype=np.uint8)


def check_range(path: Path, labels: NDArray[np.uint8], num_classes: int) -> None:
    """Refuse labels that name no class, and say where the first one stands."""
    wrong = np.flatnonzero(labels >= num_classes)
    if len(wrong):
        found = f"{labels[wrong[0]]} at position {wrong[0]}"
        raise BadFileError(path, f"labels in 0..{num_classes - 1}", found, _FETCH_AGAIN)


def read_sheet(path: Path, count: int) -> NDArray[np.uint8]:
    """Read a lossless sheet with one image a row: 1,024 pixels wide, ``count`` high."""
    return _decode(path, (SIDE * SIDE, count)).reshape(count, SIDE, SIDE, 3)


def read_strip(path: Path, count: int) -> NDArray[np.uint8]:
    """Read a lossless strip with one image below the other: 32 pixels wide, 32·``count`` high."""
    return _decode(path, (SIDE, SIDE * count)).reshape(count, SIDE, SIDE, 3)


def _from_planes(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    planes = rows.reshape(len(rows), 3, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def _decode(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    try:
        with Image.open(path, formats=("PNG", "WEBP")) as image:
            if image.size != size:
                expected = f"an image of {size[0]}×{size[1]} pixels"
                raise BadFileError(path, expected, f"{image.size[0]}×{image.size[1]}")
            if image.mode != "RGB":
                raise BadFileError(path, "an RGB image", f"mode {image.mode}")
            return np.asarray(image)
    except FileNotFoundError:
        raise BadFileError(path, "an image", "no such file") from None
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError) as error:
        if isinstance(error, BadFileError):
            raise
        raise BadFileError(
            path, "a whole PNG or WebP image", f"a damaged one ({error})", _FETCH_AGAIN
        ) from error
