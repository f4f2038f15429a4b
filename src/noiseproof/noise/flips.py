# SPDX-License-Identifier: Apache-2.0
"""Who is mistaken for whom: the flips of the field's asymmetric benchmarks, by name.

Each is a mapping from true class to the class it is taken for; classes that are not named keep their labels.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

CIFAR10: Mapping[int, int] = MappingProxyType({9: 1, 2: 0, 4: 7, 3: 5, 5: 3})
"""truck → automobile, bird → airplane, deer → horse, cat ↔ dog."""

MNIST_LIKE: Mapping[int, int] = MappingProxyType({7: 1, 2: 7, 5: 6, 6: 5, 3: 8})
"""7 → 1, 2 → 7, 5 ↔ 6, 3 → 8."""

CIFAR100_SUPERCLASSES: tuple[tuple[int, ...], ...] = (
    (4, 30, 55, 72, 95),
    (1, 32, 67, 73, 91),
    (54, 62, 70, 82, 92),
    (9, 10, 16, 28, 61),
    (0, 51, 53, 57, 83),
    (22, 39, 40, 86, 87),
    (5, 20, 25, 84, 94),
    (6, 7, 14, 18, 24),
    (3, 42, 43, 88, 97),
    (12, 17, 37, 68, 76),
    (23, 33, 49, 60, 71),
    (15, 19, 21, 31, 38),
    (34, 63, 64, 66, 75),
    (26, 45, 77, 79, 99),
    (2, 11, 35, 46, 98),
    (27, 29, 44, 78, 93),
    (36, 50, 65, 74, 80),
    (47, 52, 56, 59, 96),
    (8, 13, 48, 58, 90),
    (41, 69, 81, 85, 89),
)
"""The classes (0–99) of each of CIFAR-100's super-classes (0–19), both in alphabetical order."""


def rotation_within(groups: Iterable[Sequence[int]]) -> Mapping[int, int]:
    """Each class is taken for the next of its group, the last for the first.

    Examples:
        >>> dict(rotation_within([(0, 2, 4), (1, 3)]))
        {0: 2, 2: 4, 4: 0, 1: 3, 3: 1}
    """
    return MappingProxyType(
        {
            current: following
            for group in groups
            for current, following in zip(group, [*group[1:], group[0]], strict=True)
        }
    )


CIFAR100_BLOCKS = rotation_within(range(first, first + 5) for first in range(0, 100, 5))
"""The published tables' flips: rotation within blocks of five consecutive class numbers.

The papers say "within the super-class", but class numbers are alphabetical: 6 of the 100 flips stay in one.
"""

CIFAR100_SUPERCLASS = rotation_within(CIFAR100_SUPERCLASSES)
"""What the papers' words say: the next class within the super-class, circular."""

NAMED_FLIPS: Mapping[str, tuple[int, Mapping[int, int]]] = MappingProxyType(
    {
        "cifar10": (10, CIFAR10),
        "mnist-like": (10, MNIST_LIKE),
        "cifar100-blocks": (100, CIFAR100_BLOCKS),
        "cifar100-superclass": (100, CIFAR100_SUPERCLASS),
    }
)
"""Number of classes and flips, by name."""
