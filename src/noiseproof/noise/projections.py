# SPDX-License-Identifier: Apache-2.0
"""Random projections of images, class by class, in little memory."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise.checks import Labels
from noiseproof.noise.drawing import samples_by_class

BYTES_PER_BLOCK = 3 * 2**19
"""Size of the converted pixels held at one time: enough for the matrix product, little enough for a cache."""

LARGEST_UNTHREADED_PRODUCT = 2**18
"""Multiplications up to which OpenBLAS keeps a product in one thread.

For so few columns a second thread gains little where the machine is idle, and loses a hundredfold where it is
not: the threads wait for one another in every small product. So products are cut to this size where possible.
"""

FEWEST_ROWS = 8
"""Products of fewer rows than these cost more by themselves than threads do."""

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
        weight_rows: NDArray[np.floating] = weights.T.copy()
        done = 0
        for pixels in blocks(images, rows[positions], precision):
            scores[positions[done : done + len(pixels)]] = _product(pixels, weights, weight_rows)
            done += len(pixels)
    return scores


def _product(
    pixels: NDArray[np.floating], weights: Weights, weight_rows: NDArray[np.floating]
) -> NDArray[np.floating]:
    """``pixels @ weights``, many small products in a row where that is the faster way.

    ``weight_rows`` is the transpose, laid out so that both operands of a product run along the features.
    """
    height = LARGEST_UNTHREADED_PRODUCT // weights.size
    if height < FEWEST_ROWS or len(pixels) < height:
        return pixels @ weights
    scores = np.empty((len(pixels), weights.shape[1]), dtype=weights.dtype)
    whole = len(pixels) // height * height
    stack = pixels[:whole].reshape(-1, height, weights.shape[0])
    products: NDArray[np.floating] = np.matmul(weight_rows, stack.transpose(0, 2, 1))
    scores[:whole] = products.transpose(0, 2, 1).reshape(whole, -1)
    scores[whole:] = pixels[whole:] @ weights
    return scores
