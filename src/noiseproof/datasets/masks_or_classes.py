# SPDX-License-Identifier: Apache-2.0
"""Folders side by side: are they classes of pictures, or pictures and their masks under other names."""

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from noiseproof.datasets.decode import IMAGE_SUFFIXES, opened
from noiseproof.datasets.errors import BadFileError

MASK_ENDINGS = ("", "_mask", "_segmentation")
"""What may be added to the name of a picture to make that of its mask."""

_PICTURES_WITH_MASKS = frozenset({"images", "image", "imgs", "img"})
"""Names of classes only where nothing beside may be masks: a network would learn to tell pictures from masks."""

_NAMES_OF_MASKS = frozenset(
    {
        "annot",
        "annotation",
        "groundtruth",
        "gt",
        "label",
        "seg",
        "target",
        "truth",
    }  # and more than one of them
)
_WITHOUT_COLOUR = frozenset({"1", "L", "LA", "P", "I", "I;16"})
PICTURES_LOOKED_AT = 32
"""Whether each has a file of its name beside it."""


def composed(name: str) -> str:
    """A name as others write it, where one system keeps the dots of an umlaut as a letter of their own."""
    return unicodedata.normalize("NFC", name)


def may_be_masks(root: Path, names: Sequence[str]) -> bool:
    """Whether one of the folders may hold masks of another one's pictures, instead of a class."""
    for name in names:
        if name.lower() in _PICTURES_WITH_MASKS:
            others = [other for other in names if other != name]
            if not others or any(map(_is_called_masks, others)):
                return True
            # Of two folders alike, colours tell nothing: masks may have them.
            if any(_are_paired(root / name, root / other, grey=len(others) > 1) for other in others):
                return True
    return False


def _is_called_masks(name: str) -> bool:
    letters = "".join(filter(str.isalnum, name.lower()))
    return "mask" in letters or letters.startswith("segm") or letters.removesuffix("s") in _NAMES_OF_MASKS


def _are_paired(pictures: Path, others: Path, *, grey: bool) -> bool:
    """Whether a folder has a file for each of another one's pictures, named as masks are; grey if asked so."""
    by_name = {composed(file.stem): file for file in _files_of_pictures(others)}
    found = False
    for picture in islice(_files_of_pictures(pictures), PICTURES_LOOKED_AT):
        names = (composed(picture.stem) + ending for ending in MASK_ENDINGS)
        mask = next((by_name[name] for name in names if name in by_name), None)
        if mask is None or (grey and not _is_without_colour(mask)):
            return False
        found = True
    return found


def _files_of_pictures(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)


def _is_without_colour(file: Path) -> bool:
    with suppress(OSError, BadFileError), opened(file) as picture:  # reads the header only
        return picture.mode in _WITHOUT_COLOUR
    return False
