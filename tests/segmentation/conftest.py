# SPDX-License-Identifier: Apache-2.0
"""Small pictures with masks on disk, for everything that trains on them."""

import numpy as np
import pytest
from PIL import Image


def discs(count, side=16, seed=0):
    """Pictures of a bright disc, and its mask."""
    random = np.random.RandomState(seed)
    rows, columns = np.indices((side, side))
    images, masks = [], []
    for _ in range(count):
        row, column = random.randint(5, side - 5, size=2)
        mask = (rows - row) ** 2 + (columns - column) ** 2 <= random.randint(6, 17)
        image = random.randint(0, 90, (side, side, 3))
        image[mask] += 120
        images.append(image.astype(np.uint8))
        masks.append(mask.astype(np.uint8))
    return np.stack(images), np.stack(masks)


@pytest.fixture
def lesions(tmp_path):
    """A function that writes train/ and test/ with images/ and masks/, and returns the data set's name."""

    def write(name="lesions", train=26, test=10, side=16, foreground=255):
        for split, count, seed in (("train", train, 0), ("test", test, 1)):
            images, masks = discs(count, side, seed)
            for kind, arrays in (("images", images), ("masks", masks * foreground)):
                place = tmp_path / name / split / kind
                place.mkdir(parents=True)
                for number, pixels in enumerate(arrays):
                    Image.fromarray(pixels).save(place / f"{number:03}.png")
        return f"folder:{tmp_path / name}"

    return write
