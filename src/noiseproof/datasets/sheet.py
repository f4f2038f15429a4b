# SPDX-License-Identifier: Apache-2.0
"""A sheet of images with their class names, to look at before training on them."""

import unicodedata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from noiseproof.datasets.decode import decode_rgb
from noiseproof.datasets.labeled_data import LabeledData

CELL = 96
CAPTION = 14
GAP = 4

TINTS = ((255, 0, 0), (40, 120, 220), (240, 180, 20), (60, 170, 90), (150, 80, 200), (20, 180, 180))
"""Colours of the classes of masks after the background, over and over where there are more."""

NO_LABEL = (128, 128, 128)
"""Colour of pixels without a label, which hold a number that is no class."""

_TINT, _COVER = 110, 230

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def caption_font(size: int = 10) -> Font:
    """A font for captions: matplotlib's, as Pillow's own draws a box for every letter that is not English."""
    import matplotlib as mpl

    try:
        return ImageFont.truetype(Path(mpl.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf"), size)
    except OSError:  # a matplotlib that was packaged without its fonts
        return ImageFont.load_default(size)


def shortened(text: str, font: Font, width: int) -> str:
    """The text on one line, cut with an ellipsis where it is wider than so many pixels.

    Example:
        >>> shortened("a short name", caption_font(), 96)
        'a short name'
        >>> shortened("a very long name of a class", caption_font(), 96).endswith("…")
        True
    """
    text = unicodedata.normalize("NFC", " ".join(text.split()))  # a file's name may have its dots apart
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"


def choose(labels: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Return up to ``count`` indices, drawn so that the classes take turns, sorted by class.

    Example:
        >>> labels = np.array([0] * 50 + [1] * 3 + [2] * 50)
        >>> np.bincount(labels[choose(labels, 9, seed=0)])
        array([3, 3, 3])
    """
    random = np.random.RandomState(seed)
    shuffled = random.permutation(len(labels))
    turn = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = shuffled[labels[shuffled] == label]
        turn[members] = np.arange(len(members))
    chosen = np.array(sorted(shuffled, key=lambda index: turn[index])[:count], dtype=np.int64)
    return chosen[np.lexsort((chosen, labels[chosen]))]


def draw(data: LabeledData, *, count: int = 60, columns: int = 10, seed: int = 0) -> Image.Image:
    """Draw a sheet of images, each with the name of its class; of a mask every class shows as a tint.

    Red is the first class after the background; grey covers pixels without a label.

    Example:
        >>> from noiseproof import datasets
        >>> draw(datasets.load("digits"), count=20).size
        (1004, 232)
    """
    chosen = choose(data.labels, count, seed)
    columns = max(1, min(columns, len(chosen)))
    rows = -(-len(chosen) // columns)
    size = (GAP + columns * (CELL + GAP), GAP + rows * (CELL + CAPTION + GAP))
    page = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(page)
    font = caption_font()
    for position, index in enumerate(chosen):
        left = GAP + position % columns * (CELL + GAP)
        top = GAP + position // columns * (CELL + CAPTION + GAP)
        picture = _fitted(_picture(data, int(index)))
        page.paste(picture, (left + (CELL - picture.width) // 2, top + (CELL - picture.height) // 2))
        caption = _caption(data, int(index))
        pen.text((left + CELL // 2, top + CELL), shortened(caption, font, CELL), "black", font, anchor="ma")
    return page


def _caption(data: LabeledData, index: int) -> str:
    if data.masks is not None:
        return f"#{index}"
    return str(data.class_names[data.labels[index]])


def _picture(data: LabeledData, index: int) -> Image.Image:
    if data.images is not None:
        array = np.asarray(data.images[index])
        picture = Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).convert("RGB")
    else:
        picture = decode_rgb((data.paths or ())[index])
    if data.masks is not None:
        mask = np.asarray(data.masks[index])
        for k in range(1, data.num_classes):
            _tint(picture, mask == k, TINTS[(k - 1) % len(TINTS)], _TINT)
        _tint(picture, mask >= data.num_classes, NO_LABEL, _COVER)
    return picture


def _tint(picture: Image.Image, where: NDArray[np.bool_], colour: tuple[int, int, int], opacity: int) -> None:
    if where.any():
        picture.paste(colour, (0, 0), Image.fromarray(where.astype(np.uint8) * np.uint8(opacity)))


def _fitted(picture: Image.Image) -> Image.Image:
    """Enlarge by whole steps so that single pixels stay visible, or shrink to fit."""
    longest = max(picture.size)
    if longest > CELL:
        scale = CELL / longest
        shrunk = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        return picture.resize(shrunk, Image.Resampling.LANCZOS)
    steps = CELL // longest
    return picture.resize((picture.width * steps, picture.height * steps), Image.Resampling.NEAREST)
