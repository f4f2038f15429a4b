# SPDX-License-Identifier: Apache-2.0
"""How large the pictures of a data set are, and whether they are grey; of files, some are looked at."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL.Image import Image

from noiseproof.datasets.decode import opened
from noiseproof.datasets.errors import BadFileError
from noiseproof.datasets.labeled_data import LabeledData

FILES_LOOKED_AT = 64
"""Picture files whose size and colours are looked at."""


def size_of(data: LabeledData) -> tuple[int, bool]:
    """Shorter side of the pictures, of files the median of some, and whether they are grey.

    Example:
        >>> from noiseproof import datasets
        >>> size_of(datasets.load("digits"))
        (8, True)
    """
    if data.images is not None:
        height, width, channels = data.images.shape[1:]
        return min(height, width), channels == 1
    assert data.paths is not None
    chosen = np.random.RandomState(0).permutation(len(data.paths))[:FILES_LOOKED_AT]
    return _size_of_files([data.paths[index] for index in chosen])


def _size_of_files(paths: Sequence[Path]) -> tuple[int, bool]:
    sides, grey = [], []
    for path in paths:
        try:
            with opened(path) as picture:  # reads the header only
                sides.append(min(picture.size))
                grey.append(_is_grey(picture))
        except (OSError, BadFileError):  # a broken file is told of when it is read for training
            continue
    return (int(np.median(sides)), all(grey)) if sides else (0, False)


def _is_grey(picture: Image) -> bool:
    """Whether a picture is kept without colours; grey pixels in a file for colours count as colours.

    Example:
        >>> import PIL.Image
        >>> [_is_grey(PIL.Image.new(mode, (2, 2))) for mode in ("L", "I;16B", "RGB")]
        [True, True, False]
    """
    if picture.mode == "P":
        palette = np.reshape(picture.getpalette() or [], (-1, 3))
        return bool((palette == palette[:, :1]).all())
    return picture.mode in ("1", "L", "LA", "I", "F") or picture.mode.startswith("I;16")
