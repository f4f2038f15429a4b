# SPDX-License-Identifier: Apache-2.0
"""Blobs: synthetic pictures whose true masks are known, to try segmentation without any data.

Each picture shows one blob on a skin-like ground: a closed curve whose radius wavers, filled a little darker than
the ground, behind smooth shading, grain and a few fine dark strands. The mask is the inside of the curve, exactly.
400 pictures to train on and 100 to test, all drawn from one frozen stream of numbers.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, SplitFacts, register

NAME = "blobs"
CLASS_NAMES = ("background", "blob")
SIDE = 64
COUNTS = {"train": 400, "test": 100}

_SEEDS = {"train": 20170, "test": 20171}
_GROUND = np.array([206.0, 160.0, 140.0])
_DARKER = np.array([0.30, 0.42, 0.44])  # blobs take away more green and blue than red
_WAVES = 5


def read(_folder: Path, split: str) -> LabeledData:
    """Return one split; nothing is read from the cache folder."""
    images, masks = _drawn(split)
    return LabeledData(
        name=NAME,
        split=split,
        labels=np.zeros(len(images), dtype=np.int64),
        class_names=CLASS_NAMES,
        images=images.copy(),
        masks=masks.copy(),
    )


@lru_cache(maxsize=2)
def _drawn(split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    random = np.random.RandomState(_SEEDS[split])
    drawn = [_picture(random) for _ in range(COUNTS[split])]
    return np.stack([image for image, _ in drawn]), np.stack([mask for _, mask in drawn])


def _picture(random: np.random.RandomState) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """One picture and its mask."""
    inside = _blob(random)
    strength = random.uniform(0.45, 1.0)
    depth = strength * (0.75 + 0.25 * _smooth(random, scale=5.0)) * _softened(inside)
    colour = _GROUND * random.uniform(0.85, 1.15, size=3)
    image = colour * (1.0 - depth[..., np.newaxis] * _DARKER)
    image *= 1.0 + 0.09 * _smooth(random, scale=14.0)[..., np.newaxis]
    image *= 1.0 - 0.35 * _strands(random)[..., np.newaxis]
    image += random.normal(scale=9.0, size=image.shape)
    return np.clip(np.rint(image), 0, 255).astype(np.uint8), inside.astype(np.uint8)


def _blob(random: np.random.RandomState) -> NDArray[np.bool_]:
    """Pixels within a closed curve: an ellipse whose radius wavers."""
    row, column = random.uniform(0.36, 0.64, size=2) * SIDE
    radius = random.uniform(0.13, 0.28) * SIDE
    flatness, turn = random.uniform(0.65, 1.0), random.uniform(0.0, np.pi)
    waves = random.normal(scale=0.22, size=(2, _WAVES)) / np.arange(2, 2 + _WAVES)
    rows, columns = np.indices((SIDE, SIDE), dtype=np.float64)
    down, right = rows - row, columns - column
    along = np.cos(turn) * right + np.sin(turn) * down
    across = (np.cos(turn) * down - np.sin(turn) * right) / flatness
    angle = np.arctan2(across, along)
    edge = np.ones_like(angle)
    for wave in range(_WAVES):
        edge += waves[0, wave] * np.cos((wave + 2) * angle) + waves[1, wave] * np.sin((wave + 2) * angle)
    inside: NDArray[np.bool_] = np.hypot(along, across) <= radius * np.maximum(edge, 0.4)
    return inside


def _softened(inside: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The blob with an edge that fades over about two pixels, as a lens would show it."""
    from scipy import ndimage

    soft: NDArray[np.float64] = ndimage.gaussian_filter(inside.astype(np.float64), 1.0)
    return soft


def _smooth(random: np.random.RandomState, scale: float) -> NDArray[np.float64]:
    """Smooth shading of mean 0 and spread 1."""
    from scipy import ndimage

    shade = ndimage.gaussian_filter(random.normal(size=(SIDE, SIDE)), scale, mode="wrap")
    even: NDArray[np.float64] = (shade - shade.mean()) / shade.std()
    return even


def _strands(random: np.random.RandomState) -> NDArray[np.float64]:
    """Fine dark lines across the picture, from none to four."""
    rows, columns = np.indices((SIDE, SIDE), dtype=np.float64)
    lines = np.zeros((SIDE, SIDE))
    for _ in range(random.randint(0, 5)):
        angle, bend = random.uniform(0.0, np.pi), random.uniform(-0.01, 0.01)
        row, column = random.uniform(0.0, SIDE, size=2)
        along = np.cos(angle) * (columns - column) + np.sin(angle) * (rows - row)
        across = np.cos(angle) * (rows - row) - np.sin(angle) * (columns - column)
        lines = np.maximum(lines, np.exp(-((across - bend * along**2) ** 2)))
    return lines


def prepare(_origin: Path | None, _folder: Path) -> None:
    """Do nothing: blobs are drawn when they are read."""


SOURCE = register(
    Source(
        name=NAME,
        description=f"500 synthetic images of a blob with its mask, {SIDE}×{SIDE}, for segmentation without data",
        splits=("train", "test"),
        form="in memory",
        where="Drawn by noiseproof itself; nothing to download.",
        prepare=prepare,
        read=read,
        embedded=True,
        licence="Apache-2.0",
        facts=tuple(SplitFacts(split, count, (SIDE, SIDE, 3)) for split, count in COUNTS.items()),
    )
)
