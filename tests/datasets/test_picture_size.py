# SPDX-License-Identifier: Apache-2.0
"""The size and colours of picture files, by their headers."""

import numpy as np
import pytest
from PIL import Image

from noiseproof import datasets
from noiseproof.datasets.picture_size import size_of

GREY = np.arange(40 * 30, dtype=np.uint16).reshape(30, 40)


def palette(colours):
    picture = Image.fromarray((GREY % 3).astype(np.uint8), "P")
    picture.putpalette(colours)
    return picture


@pytest.mark.parametrize(
    ("name", "picture", "grey"),
    [
        ("a.png", Image.fromarray(GREY.astype(np.uint8)), True),
        ("a.png", Image.fromarray(GREY), True),
        ("a.tif", Image.fromarray(GREY.astype(">u2")), True),
        ("a.png", palette([0, 0, 0, 90, 90, 90, 255, 255, 255]), True),
        ("a.png", palette([0, 0, 0, 90, 90, 90, 255, 0, 0]), False),
        ("a.png", Image.fromarray(GREY.astype(np.uint8)).convert("RGB"), False),
    ],
    ids=["8 bits", "16 bits", "16 bits, the other way round", "grey palette", "palette", "kept as colours"],
)
def test_grey_is_what_is_kept_as_grey(tmp_path, name, picture, grey):
    for class_name in ("cat", "dog"):
        (tmp_path / class_name).mkdir()
        picture.save(tmp_path / class_name / name)
    assert size_of(datasets.load(f"folder:{tmp_path}")) == (30, grey)
