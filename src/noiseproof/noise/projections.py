"""Random projections of images, class by class, in little memory."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise.checks import Labels
from noiseproof.noise.drawing import samples_by_class

BYTES_PER_BLOCK = 6 * 2**20
"""Size of the converted pixels held at one time: enough for the matrix product, little enough for a cache."""

Weights = NDArray[np.float32] | NDArray[np.float64]


def checked_images(images: ArrayLike, num_labels: int) -> NDArray[np.generic]:
    """Images as rows of numbers, (N, D), in the order of their own axes (height, width, channel); no copy.

    Examples:
        >>> checked_images(np.zeros((2, 4, 4, 3), dtype=np.uint8), num_labels=2).shape
        (2, 48)
    """
    array = np.asarray(images)
    if array.dtype.kind not in "uif":
        raise TypeError(f"images must be integers or floats, got dtype {array.dtype}")
    if array.ndim < 2 or len(array) != num_labels:
        raise ValueError(f"images must have one row per label, ({num_labels}, ...), got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"images must have pixels, got shape {array.shape}")
    if array.dtype.kind == "f" and not bool(np.isfinite(array).all()):
        raise ValueError("images must be finite, got NaN or infinity")
    return array.reshape(num_labels, -1)


def largest_magnitude(images: NDArray[np.generic]) -> float:
    """A bound on every pixel's magnitude; for bytes it is known without looking."""
    if images.dtype == np.uint8:
        return 255.0
    return float(max(abs(float(images.max())), abs(float(images.min()))))


def blocks(
    images: NDArray[np.generic], rows: NDArray[np.int64], precision: type[np.floating]
) -> Iterator[NDArray[np.floating]]:
    """The images of ``rows`` in order, converted, a few at a time; each block overwrites the one before."""
    height = max(1, BYTES_PER_BLOCK // (images.shape[1] * np.dtype(precision).itemsize))
    space = np.empty((min(height, rows.size), images.shape[1]), dtype=precision)
    for start in range(0, rows.size, height):
        part = rows[start : start + height]
        pixels = space[: part.size]
        np.copyto(pixels, images[part], casting="unsafe")  # the caller chose the precision
        yield pixels


def projected(
    images: NDArray[np.generic],
    rows: NDArray[np.int64],
    labels: Labels,
    weights_of_class: Callable[[int], Weights],
    num_classes: int,
    precision: type[np.floating] = np.float64,
) -> NDArray[np.floating]:
    """``images[i] @ weights_of_class(labels[i])`` for i in ``rows``, computed in ``precision``.

    ``weights_of_class`` is called once for every class, ascending, and returns (D, K) in that precision.
    """
    scores = np.empty((rows.size, num_classes), dtype=precision)
    for class_index, positions in enumerate(samples_by_class(labels[rows], num_classes)):
        weights = weights_of_class(class_index)
        done = 0
        for pixels in blocks(images, rows[positions], precision):
            scores[positions[done : done + len(pixels)]] = pixels @ weights
            done += len(pixels)
    return scores
