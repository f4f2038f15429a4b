# SPDX-License-Identifier: Apache-2.0
"""Small real pictures on disk, for everything that reads files."""

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def photos(tmp_path):
    """A function that writes class folders of PNGs which a network can tell apart, and returns their folder."""

    def write(name="photos", classes=("cat", "dog", "owl"), each=12, side=10, split="", mode="RGB"):
        random = np.random.RandomState(0)
        folder = tmp_path / name
        for number, class_name in enumerate(classes):
            place = folder / split / class_name
            place.mkdir(parents=True)
            for i in range(each):
                pixels = random.randint(0, 80, (side + i % 3, side, 3))
                pixels[..., number % 3] += 150
                Image.fromarray(pixels.astype(np.uint8)).convert(mode).save(place / f"{i:03}.png")
        return folder

    return write
