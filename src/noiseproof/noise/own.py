# SPDX-License-Identifier: Apache-2.0
"""Noise of the user's own, under a short name that training and grids know, such as ``blur-0.3``."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise.checks import checked_labels
from noiseproof.noise.names import NoiseName, add_kind
from noiseproof.noise.record import NoisyLabels


class Samples(Protocol):
    """What a draw may look at: true labels, and pictures (N, H, W, C) where they are in memory."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class indices (N,)."""
        ...

    @property
    def images(self) -> NDArray[np.uint8] | None:
        """Of shape (N, H, W, C)."""
        ...

    @property
    def num_classes(self) -> int:
        """K."""
        ...


Draw = Callable[[Any, float, np.random.RandomState], ArrayLike]
"""Takes samples, a rate and a generator of random numbers; returns the given labels (N,)."""

_DRAWS: dict[str, Draw] = {}


def register(kind: str, draw: Draw) -> None:
    """Make a noise known by name, so that ``noise="KIND-RATE"`` draws it in training and in grids.

    Args:
        kind: its name, small letters.
        draw: takes samples (with ``labels``, ``num_classes`` and ``images``), the rate and a
            :class:`numpy.random.RandomState`, seeded by the run's; returns the given labels.

    Example:
        >>> from noiseproof import noise
        >>> def next_class(samples, rate, random):
        ...     wrong = random.rand(len(samples.labels)) < rate
        ...     return np.where(wrong, (samples.labels + 1) % samples.num_classes, samples.labels)
        >>> noise.register("next", next_class)  # doctest: +SKIP
        >>> train(resolve("digits", noise="next-0.3"))  # doctest: +SKIP
    """
    add_kind(kind)
    _DRAWS[kind] = draw


def own_kinds() -> tuple[str, ...]:
    """The kinds that were registered."""
    return tuple(_DRAWS)


def own_draw(kind: str) -> Draw | None:
    """What was registered for a kind of noise, or ``None``."""
    return _DRAWS.get(kind)


def draw_own(name: NoiseName, samples: Samples, seed: int) -> NoisyLabels | None:
    """Draw registered noise, or return ``None`` where nobody registered such a kind."""
    if name.kind not in _DRAWS:
        return None
    assert name.rate is not None
    clean = checked_labels(samples.labels, samples.num_classes)
    found = _DRAWS[name.kind](samples, name.rate, np.random.RandomState(seed))
    given = checked_labels(found, samples.num_classes, name=f"labels of the noise {name.kind!r}")
    if given.shape != clean.shape:
        raise ValueError(f"noise {name.kind!r}: expected {clean.size} labels, got {given.size}")
    return NoisyLabels(given, clean, samples.num_classes, name.kind, rate=name.rate, seed=seed)
