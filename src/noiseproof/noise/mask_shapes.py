# SPDX-License-Identifier: Apache-2.0
"""One mask made wrong: eroded, dilated or displaced until its area or its difference is as asked.

Eroding a mask t times by one pixel (the cross of four neighbours) leaves the pixels whose city-block distance
to the background is above t, and dilating it adds those whose distance to the foreground is t at most. So one
distance transform holds every step of the one-pixel-at-a-time loop, and a histogram of it all their areas.
Beyond the frame there is neither foreground nor background: a mask at the edge is not eaten from there.

Masks here have some foreground and some background.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy  # its parts are imported when they are used
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

LARGEST_HALVINGS = 8
"""A turn halved so often is below an eighth of a degree; after that the mask is not turned at all."""


class Box(NamedTuple):
    """Rows and columns from the first to one past the last."""

    top: int
    bottom: int
    left: int
    right: int


def eroded(mask: Mask, strength: float) -> Mask:
    r"""Erode pixel by pixel until the area passes :math:`(1 - \beta) A`; keep the nearer of the last two.

    Steps that leave nothing do not count.

    Examples:
        >>> square = np.zeros((9, 9), dtype=bool)
        >>> square[1:8, 1:8] = True
        >>> int(eroded(square, 0.5).sum())  # 49 pixels: 25 after one step, 9 after two
        25
    """
    box = _bounding_box(mask, margin=1)
    window = mask[box.top : box.bottom, box.left : box.right]
    distance = scipy.ndimage.distance_transform_cdt(window, metric="taxicab")
    pixels_at = np.bincount(distance.ravel())
    area = int(pixels_at[1:].sum())
    areas = area - np.cumsum(pixels_at) + pixels_at[0]  # foreground left after 0, 1, 2, … steps
    steps = _nearest_step(areas[areas > 0], (1.0 - strength) * area)
    result = np.zeros_like(mask)
    result[box.top : box.bottom, box.left : box.right] = distance > steps
    return result


def dilated(mask: Mask, strength: float) -> Mask:
    r"""Dilate pixel by pixel until the area passes :math:`(1 + \beta) A`; keep the nearer of the last two.

    Steps that fill the frame do not count.

    Examples:
        >>> square = np.zeros((9, 9), dtype=bool)
        >>> square[3:6, 3:6] = True
        >>> int(dilated(square, 0.7).sum())  # 9 pixels: 21 after one step, nearer to 15.3 than 9
        21
    """
    area = int(np.count_nonzero(mask))
    target = (1.0 + strength) * area
    # Only pixels near the mask can be reached: look as far as a disk would grow, and further if need be.
    radius = math.sqrt(area / math.pi)
    margin = 2 + math.ceil(1.5 * radius * (math.sqrt(1.0 + strength) - 1.0))
    while True:
        box = _bounding_box(mask, margin)
        window = mask[box.top : box.bottom, box.left : box.right]
        distance = scipy.ndimage.distance_transform_cdt(~window, metric="taxicab")
        areas = np.cumsum(np.bincount(distance.ravel()))
        if window.shape == mask.shape:
            reached = areas[areas < mask.size]
            break
        reached = areas[: margin + 1]  # what lies further is not all in the window
        if reached[-1] >= target:
            break
        margin *= 2
    steps = _nearest_step(reached, target)
    result = np.zeros_like(mask)
    result[box.top : box.bottom, box.left : box.right] = distance <= steps
    return result


def displaced(mask: Mask, strength: float, rotation: float, direction: float) -> Mask:
    r"""Turn the mask about its centre, then shift it until :math:`|M \triangle M'| / |M|` comes nearest to β.

    The turned mask is resampled once, by nearest neighbour; shifts are whole pixels along the direction,
    found by bisection. Of all trials that are neither empty nor full the closest is returned, not the last. A
    turn that by itself passes β (of a long mask, say) is halved until it does not.

    Args:
        mask: The mask.
        strength: β, the wanted symmetric difference over the foreground.
        rotation: The angle in radians, counter-clockwise as one sees it.
        direction: The angle of the shift in radians: 0 is right, π/2 is up, π is left.

    Examples:
        >>> square = np.zeros((20, 20), dtype=bool)
        >>> square[5:15, 5:15] = True
        >>> left = displaced(square, strength=0.6, rotation=0.0, direction=math.pi)
        >>> np.flatnonzero(left.any(axis=0))[[0, -1]].tolist()  # three columns over: 2 · 30/100
        [2, 11]
    """
    area = int(np.count_nonzero(mask))
    turned = _turned(mask, rotation)
    for _ in range(LARGEST_HALVINGS):
        if turned.any() and int(np.count_nonzero(turned ^ mask)) <= strength * area:
            break
        rotation /= 2.0
        turned = _turned(mask, rotation)
    else:
        turned = mask
    box = _bounding_box(turned, margin=0)

    def difference(distance: int) -> float | None:
        """The symmetric difference over the foreground; None where nothing or everything is left."""
        moved_area, overlap = _areas_after_shift(mask, turned, box, *_shift(distance, direction))
        if moved_area in (0, mask.size):
            return None
        return (area + moved_area - 2 * overlap) / area

    distance = _closest_distance(difference, strength, farthest=sum(mask.shape))
    return mask.copy() if distance is None else _shifted(turned, box, *_shift(distance, direction))


def _nearest_step(areas: NDArray[np.int64], target: float) -> int:
    """The step at which areas (of 0, 1, 2, … steps) pass the target, or the one before if that is nearer."""
    passed = np.abs(areas - areas[0]) >= abs(target - areas[0])
    if not passed.any():
        return len(areas) - 1
    step = int(np.argmax(passed))
    if step > 0 and abs(areas[step - 1] - target) < abs(areas[step] - target):
        return step - 1
    return step


def _closest_distance(
    difference: Callable[[int], float | None], strength: float, farthest: int
) -> int | None:
    """Bisect for the distance whose difference is ``strength``; of all that were tried, the closest."""
    trials: dict[int, float] = {}

    def passes(distance: int) -> bool:
        found = difference(distance)
        if found is not None:
            trials[distance] = found
        return found is None or found >= strength

    short, long = 0, farthest
    if not passes(short):
        while long - short > 1:
            middle = (short + long) // 2
            if passes(middle):
                long = middle
            else:
                short = middle
    return min(trials, key=lambda distance: (abs(trials[distance] - strength), distance), default=None)


def _shift(distance: int, direction: float) -> tuple[int, int]:
    """Rows (down) and columns (right) of a shift; both may be negative."""
    return -round(distance * math.sin(direction)), round(distance * math.cos(direction))


def _turned(mask: Mask, rotation: float) -> Mask:
    """Each pixel takes the value of the nearest pixel to where it was before the turn about the centroid."""
    box = _bounding_box(mask, margin=0)
    centre_row, centre_column = _centroid(mask, box)
    height = max(centre_row - box.top, box.bottom - centre_row)
    width = max(centre_column - box.left, box.right - centre_column)
    reach = math.ceil(math.hypot(height, width)) + 1
    row, column = math.floor(centre_row), math.floor(centre_column)
    target = _clipped(Box(row - reach, row + reach + 2, column - reach, column + reach + 2), mask.shape)
    down = np.arange(target.top, target.bottom)[:, np.newaxis] - centre_row
    right = np.arange(target.left, target.right)[np.newaxis, :] - centre_column
    cosine, sine = math.cos(rotation), math.sin(rotation)
    # Counter-clockwise with rows pointing down, so the way back takes (right, down) clockwise.
    source_columns = _nearest((cosine * right + centre_column) - sine * down, mask.shape[1])
    source_rows = _nearest((cosine * down + centre_row) + sine * right, mask.shape[0])
    framed = np.pad(mask, 1)  # whatever comes from beyond the frame is background
    source_rows += 1.0
    source_rows *= framed.shape[1]
    source_rows += source_columns
    source_rows += 1.0
    turned = np.zeros_like(mask)
    window = framed.ravel().take(source_rows.astype(np.intp))
    turned[target.top : target.bottom, target.left : target.right] = window
    return turned


def _centroid(mask: Mask, box: Box) -> tuple[float, float]:
    window = mask[box.top : box.bottom, box.left : box.right]
    per_row, per_column = np.count_nonzero(window, axis=1), np.count_nonzero(window, axis=0)
    area = int(per_row.sum())
    row = int(per_row @ np.arange(box.top, box.bottom)) / area
    return row, int(per_column @ np.arange(box.left, box.right)) / area


def _nearest(positions: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The nearest whole numbers, halves upwards; -1 and ``size`` for everything beyond. Uses them up."""
    positions += 0.5
    np.floor(positions, out=positions)
    return np.clip(positions, -1.0, size, out=positions)


def _areas_after_shift(mask: Mask, moving: Mask, box: Box, down: int, right: int) -> tuple[int, int]:
    """The area of the shifted ``moving`` inside the frame, and that of its overlap with ``mask``."""
    target = _clipped(Box(box.top + down, box.bottom + down, box.left + right, box.right + right), mask.shape)
    source = moving[target.top - down : target.bottom - down, target.left - right : target.right - right]
    beneath = mask[target.top : target.bottom, target.left : target.right]
    return int(np.count_nonzero(source)), int(np.count_nonzero(source & beneath))


def _shifted(moving: Mask, box: Box, down: int, right: int) -> Mask:
    target = _clipped(
        Box(box.top + down, box.bottom + down, box.left + right, box.right + right), moving.shape
    )
    result = np.zeros_like(moving)
    result[target.top : target.bottom, target.left : target.right] = moving[
        target.top - down : target.bottom - down, target.left - right : target.right - right
    ]
    return result


def _bounding_box(mask: Mask, margin: int) -> Box:
    """The smallest box around the foreground, widened by ``margin`` within the frame."""
    rows = np.flatnonzero(mask.any(axis=1))
    columns = np.flatnonzero(mask.any(axis=0))
    box = Box(
        int(rows[0]) - margin,
        int(rows[-1]) + 1 + margin,
        int(columns[0]) - margin,
        int(columns[-1]) + 1 + margin,
    )
    return _clipped(box, mask.shape)


def _clipped(box: Box, frame: tuple[int, ...]) -> Box:
    """The part of a box inside the frame; nothing (not a negative range) where it lies beyond."""
    top, bottom = (min(max(edge, 0), frame[0]) for edge in (box.top, box.bottom))
    left, right = (min(max(edge, 0), frame[1]) for edge in (box.left, box.right))
    return Box(top, bottom, left, right)
