# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments: each error says which argument, what was expected and what came."""

import difflib
from collections.abc import Iterable, Sequence

ImageSize = int | tuple[int, int]
"""One number for square images, or (height, width)."""

LARGEST_SEED = 2**64 - 1
"""What torch's generators take."""


def integer(name: str, value: object, smallest: int = 1, largest: int | None = None) -> int:
    """Return ``value`` if it is an integer of the given range.

    >>> integer("num_classes", 0)
    Traceback (most recent call last):
    ValueError: num_classes: expected an integer >= 1, got 0
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an integer, got {value!r} of type {type(value).__name__}")
    if value < smallest or (largest is not None and value > largest):
        bounds = f">= {smallest}" if largest is None else f"from {smallest} to {largest}"
        raise ValueError(f"{name}: expected an integer {bounds}, got {value!r}")
    return value


def integers(name: str, values: object) -> tuple[int, ...]:
    """Return ``values`` as a tuple, if it is a sequence of integers of at least one.

    >>> integers("hidden", [256, 128])
    (256, 128)
    """
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise TypeError(
            f"{name}: expected a list of integers, got {values!r} of type {type(values).__name__}"
        )
    return tuple(integer(f"{name}[{index}]", value) for index, value in enumerate(values))


def share(name: str, value: object) -> float:
    """Return ``value`` if it is a number from 0 up to, but not including, 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}: expected a number, got {value!r} of type {type(value).__name__}")
    if not 0 <= value < 1:
        raise ValueError(f"{name}: expected a number from 0 up to, not including, 1, got {value!r}")
    return float(value)


def height_and_width(name: str, value: object) -> tuple[int, int]:
    """Return an image size as (height, width); one number is a square.

    >>> height_and_width("image_size", 32)
    (32, 32)
    >>> height_and_width("image_size", (48, 64))
    (48, 64)
    """
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        sides = integers(name, value)
        if len(sides) != 2:
            raise ValueError(f"{name}: expected one integer or (height, width), got {value!r}")
        return sides[0], sides[1]
    side = integer(name, value)
    return side, side


def at_least(model: str, size: tuple[int, int], smallest: int) -> None:
    """Refuse images that the model's poolings would shrink to nothing.

    >>> at_least("cnn8", (4, 32), smallest=8)
    Traceback (most recent call last):
    ValueError: image_size: cnn8 needs images of at least 8x8, got 4x32
    """
    if min(size) < smallest:
        height, width = size
        raise ValueError(
            f"image_size: {model} needs images of at least {smallest}x{smallest}, got {height}x{width}"
        )


def unknown(argument: str, value: object, known: Iterable[str]) -> str:
    """Say that ``value`` is not among the ``known`` names and which one comes nearest.

    >>> unknown("model", "resnet-18", ["cnn8", "resnet18"])
    "model: unknown name 'resnet-18'; did you mean 'resnet18'? Known: cnn8, resnet18"
    """
    names = sorted(known)
    nearest = difflib.get_close_matches(str(value).lower(), names, n=1, cutoff=0.5)
    suggestion = f"; did you mean {nearest[0]!r}?" if nearest else "."
    return f"{argument}: unknown name {value!r}{suggestion} Known: {', '.join(names)}"
