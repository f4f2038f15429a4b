# SPDX-License-Identifier: Apache-2.0
"""ISIC-2017, part 1: dermoscopic pictures and the lesion's mask in each.

Layout, as published (https://challenge.isic-archive.com/data/#2017)::

    ISIC-2017_Training_Data/ISIC_0000000.jpg                            2,000 pictures
    ISIC-2017_Training_Data/ISIC_0000000_superpixels.png                not used
    ISIC-2017_Training_Part1_GroundTruth/ISIC_0000000_segmentation.png  0 or 255, of the picture's size
    ISIC-2017_Validation_Data/, ISIC-2017_Validation_Part1_GroundTruth/ 150, optional
    ISIC-2017_Test_v2_Data/, ISIC-2017_Test_v2_Part1_GroundTruth/       600

The folders may also lie one level deeper. Pictures and masks are resized once, proportions not kept:
pictures bilinearly with antialiasing, masks by the nearest pixel; the cache holds arrays. A mask that was
resized before and has soft edges is cut at half; any other level is refused. ``isic2017`` has the paper's
256 × 256; ``isic2017-128px`` is the same at 128 × 128 for small machines.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from noiseproof.datasets import cache, file_lists
from noiseproof.datasets.decode import Squash, decode_mask, image_size
from noiseproof.datasets.errors import BadFileError, DataError, NoSuchSplitError
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, register

NAME = "isic2017"
CLASS_NAMES = ("background", "lesion")
FOLDERS = {"train": "ISIC-2017_Training", "test": "ISIC-2017_Test_v2", "validation": "ISIC-2017_Validation"}

_NEARLY_BLACK, _HALF, _NEARLY_WHITE = 5, 128, 250
_MOST_SOFT_EDGE = 0.25  # 0.16 is the most in 2,350 masks that someone had resized to 128 px with antialiasing

_LAYOUT = "ISIC-2017_Training_Data/, ISIC-2017_Training_Part1_GroundTruth/ and the same of Test_v2"


def prepare(origin: Path | None, folder: Path, *, size: int = 256, name: str = NAME) -> None:
    """Resize every picture and mask once and keep them as arrays."""
    root = file_lists.require_folder(name, origin, _LAYOUT)
    arrays: dict[str, NDArray[np.uint8]] = {}
    names: dict[str, list[str]] = {}
    for split, prefix in FOLDERS.items():
        pictures = _find(root, f"{prefix}_Data")
        if pictures is None:
            if split == "validation":
                continue
            raise DataError(
                f"{root}: expected a folder {prefix}_Data/, found none; FOLDER must hold {_LAYOUT}"
            )
        pairs = _pair_up(pictures, pictures.with_name(f"{prefix}_Part1_GroundTruth"))
        with ThreadPoolExecutor(
            max_workers=os.cpu_count()
        ) as threads:  # Pillow decodes without Python's lock
            resized = list(threads.map(partial(_read_pair, size=size), *zip(*pairs, strict=True)))
        arrays[f"{split}_images"] = np.stack([image for image, _ in resized])
        arrays[f"{split}_masks"] = np.stack([mask for _, mask in resized])
        names[split] = [picture.stem for picture, _ in pairs]
    facts = {"size": size, "splits": list(names), "names": names}
    with cache.replacing(folder) as new:
        cache.write(new, arrays, source="ISIC-2017 part 1, resized", facts=facts)


def _find(root: Path, name: str) -> Path | None:
    places = [root / name, *sorted(root.glob(f"*/{name}"))]
    return next((place for place in places if place.is_dir()), None)


def _pair_up(pictures: Path, masks: Path) -> list[tuple[Path, Path]]:
    """Match pictures and masks by name; the first of either without the other is an error."""
    if not masks.is_dir():
        raise DataError(
            f"{pictures.parent}: expected a folder {masks.name}/ beside {pictures.name}/, found none"
        )
    images = {path.stem: path for path in sorted(pictures.glob("*.jpg"))}
    segmentations = {
        path.stem.removesuffix("_segmentation"): path for path in sorted(masks.glob("*_segmentation.png"))
    }
    if not images:
        raise DataError(f"{pictures}: expected images ISIC_XXXXXXX.jpg, found none")
    for stem, path in images.items():
        if stem not in segmentations:
            raise BadFileError(path, f"its mask {masks.name}/{stem}_segmentation.png", "no such file")
    for stem, path in segmentations.items():
        if stem not in images:
            raise BadFileError(path, f"its image {pictures.name}/{stem}.jpg", "no such file")
    return [(path, segmentations[stem]) for stem, path in images.items()]


def _read_pair(picture: Path, mask: Path, *, size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    levels = decode_mask(mask)
    expected = image_size(picture)
    if (levels.shape[1], levels.shape[0]) != expected:
        found = f"{levels.shape[1]}x{levels.shape[0]}"
        raise BadFileError(mask, f"the size of its image, {expected[0]}x{expected[1]}", found)
    lesion = Image.fromarray(_two_valued(mask, levels))
    resized = np.asarray(lesion.resize((size, size), Image.Resampling.NEAREST))
    return Squash(size, size).read(picture, np.random.default_rng(0)), resized


def _two_valued(mask: Path, levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return 0 and 1: as stored, or cut at half where a mask has soft edges from an earlier resizing."""
    if levels.max() <= 1:
        return levels
    between = float(((levels > _NEARLY_BLACK) & (levels < _NEARLY_WHITE)).mean())
    if between > _MOST_SOFT_EDGE or levels.max() < _NEARLY_WHITE:
        shown = f"levels up to {levels.max()}, {between:.0%} of them neither"
        raise BadFileError(
            mask, "0 and 255 (soft edges allowed)", shown, "give a mask of background and lesion"
        )
    return (levels >= _HALF).astype(np.uint8)


def read(folder: Path, split: str, *, name: str = NAME) -> LabeledData:
    """Read one split from the cache; labels are zeros, the classes are in the masks."""
    splits = cache.manifest_of(folder)["facts"]["splits"]
    if split not in splits:
        raise NoSuchSplitError(f"{name} was imported without a {split} split; it has {', '.join(splits)}")
    images = cache.read_array(folder, f"{split}_images")
    return LabeledData(
        name=name,
        split=split,
        labels=np.zeros(len(images), dtype=np.int64),
        class_names=CLASS_NAMES,
        images=images,
        masks=cache.read_array(folder, f"{split}_masks"),
    )


def _register(name: str, size: int, remark: str) -> None:
    fill: Callable[[Path | None, Path], None] = partial(prepare, size=size, name=name)
    register(
        Source(
            name=name,
            description=f"skin lesions and their masks at {size}x{size} {remark}",
            splits=("train", "test", "validation"),
            form="uint8 arrays of images and masks",
            where=f"--from FOLDER with {_LAYOUT} (https://challenge.isic-archive.com/data/#2017)",
            prepare=fill,
            read=partial(read, name=name),
        )
    )


_register(NAME, 256, "(the paper's size)")
_register(f"{NAME}-128px", 128, "(for small machines)")
