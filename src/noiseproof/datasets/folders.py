# SPDX-License-Identifier: Apache-2.0
"""``folder:PATH``: the user's own pictures, by class sub-folders, or pictures with masks.

Classification, with or without a folder for each split::

    PATH/cat/1.jpg, PATH/dog/2.png, ...
    PATH/train/cat/1.jpg, ..., PATH/val/..., PATH/test/...

Classes are the sub-folders in alphabetical order; those of ``train/`` count for every split. Files may lie in
folders below; they are taken in the order of their paths and decoded on demand.

Segmentation, again with or without split folders::

    PATH/images/1.jpg, PATH/masks/1.png, ...      (or 1_mask.png, 1_segmentation.png)
    PATH/images/a/1.jpg, PATH/masks/a/1.png, ...  in folders alike; names that are unique may lie anywhere
    PATH/classes.txt                              optional: one class a line

Masks hold a class index a pixel, or 0 and 255. Beside class indices, 255 marks pixels without a label. Pictures
become one array, so they must have one size or be brought to one while they are read.
"""

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from noiseproof.datasets.decode import IMAGE_SUFFIXES, decode_mask, decode_rgb
from noiseproof.datasets.errors import BadFileError, DataError, NoSuchSplitError, shortened
from noiseproof.datasets.labeled_data import SPLITS, LabeledData
from noiseproof.datasets.masks_or_classes import MASK_ENDINGS, composed, may_be_masks
from noiseproof.datasets.registry import PrefixSource, register_prefix

SPLIT_FOLDERS = {"train": ("train",), "test": ("test",), "validation": ("validation", "val", "valid")}

TWO_CLASSES = ("background", "foreground")
"""Names of the classes of masks that hold 0 and 255, where ``classes.txt`` has no others."""

VOID = 255
"""Level of pixels without a label, where masks hold class indices; it stays in the masks as it is."""

NOT_INDICES = (
    "save masks of two classes as PNG of 0 and 255, without the levels in between that JPEG and resizing make; if "
    "these are classes, name them in classes.txt"
)

TURNED = "rotate the mask like the image, which is rotated as its camera recorded (EXIF)"

MOST_UNNAMED_CLASSES = 64
TRAINING_MASKS_LOOKED_AT = 32
MOST_NAMED = 10

RUNS_FILE = "runs.sqlite"
"""In a folder of runs, which is no class: whoever trains in the folder of classes has one beside them."""

_NOT_PICTURES = frozenset({"thumbs.db", "desktop.ini"})


def read(path: Path, split: str, *, side: int | None = None, strays: list[Path] | None = None) -> LabeledData:
    """Read one split of a folder of pictures.

    Args:
        path: the folder.
        split: ``"train"``, ``"test"`` or ``"validation"``.
        side: width and height that pictures with masks are brought to, one after the other: pictures bilinearly,
            masks by the nearest pixel. By default they stay as they are and must have one size. Pictures in class
            folders are decoded later and take no notice.
        strays: where a list is given, files in class folders that are no pictures are left out and added to it.
    """
    if split not in SPLITS:
        raise DataError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    if not path.is_dir():
        raise DataError(f"folder:{path}: expected a folder, found {'a file' if path.exists() else 'nothing'}")
    root = _split_folder(path, split)
    if (root / "images").is_dir() and (root / "masks").is_dir():
        return _read_segmentation(path, root, split, side)
    return _read_classes(path, root, split, strays)


def _split_folder(path: Path, split: str) -> Path:
    """Return the folder of a split; a folder without split folders is all training data."""
    present = {
        which: folder
        for which, names in SPLIT_FOLDERS.items()
        for folder in (path / name for name in names)
        if folder.is_dir()
    }
    if "train" in present or len(present) > 1:
        if split not in present:
            names = " or ".join(f"{name}/" for name in SPLIT_FOLDERS[split])
            raise NoSuchSplitError(
                f"folder:{path}: expected a folder {names} for the {split} split, found none"
            )
        return present[split]
    if split != "train":
        raise NoSuchSplitError(
            f"folder:{path}: has no split folders, so all of it is training data; "
            f"put it into {path / 'train'}/ and the {split} data into {path / SPLIT_FOLDERS[split][0]}/"
        )
    return path


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _files(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Yield the files of a folder and below, but for those that systems leave everywhere."""
    above = (*above, folder.resolve())
    for entry in _visible(folder):
        if entry.is_dir():
            if entry.is_symlink() and entry.resolve() in above:
                raise BadFileError(
                    entry, "an image or a folder", "a link to a folder that contains it", "remove it"
                )
            yield from _files(entry, above)
        elif entry.name.lower() not in _NOT_PICTURES:
            yield entry


def _is_picture(file: Path) -> bool:
    return file.suffix.lower() in IMAGE_SUFFIXES


def _refuse_other_files(others: Sequence[Path], *, or_else: str = "") -> None:
    """Any file that is no picture is an error, lest it be left out unseen; all are told at once."""
    if not others:
        return
    known = " ".join(sorted(IMAGE_SUFFIXES))
    first, *more = others
    advice = "move it elsewhere"
    if more:
        advice += f", and {len(more)} more: {shortened(map(str, more), MOST_NAMED)}"
    raise BadFileError(first, f"an image ({known})", "another kind of file", advice + or_else)


def _pictures(folder: Path) -> list[Path]:
    files = list(_files(folder))
    _refuse_other_files([file for file in files if not _is_picture(file)])
    return files


def _class_folders(root: Path) -> list[str]:
    names = [entry.name for entry in _visible(root) if entry.is_dir() and not (entry / RUNS_FILE).is_file()]
    for name in names:
        if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise BadFileError(
                root / name, "a class whose name is text", "bytes that are not UTF-8", "rename it"
            )
    if not names:
        above = root.parent
        is_part = root.name in ("images", "masks") and all(
            (above / part).is_dir() for part in ("images", "masks")
        )
        raise DataError(
            f"folder:{root}: expected a sub-folder for each class, found none"
            + (f"; for images with their masks, use folder:{above}" if is_part else "")
        )
    return names


def _refuse_masks(root: Path, names: Sequence[str]) -> None:
    found = ", ".join(f"{name}/" for name in names[:3]) + (", …" if len(names) > 3 else "")
    raise DataError(
        f"folder:{root}: expected images/ and masks/, or a sub-folder for each class, found {found}; call the "
        "folders of images and masks exactly that, or give the folder above those of the classes; if these are "
        "classes, rename the one for images"
    )


def _read_classes(path: Path, root: Path, split: str, strays: list[Path] | None) -> LabeledData:
    train = path / "train"
    present = class_names = _class_folders(root)
    has_own_classes = root in (path, train) or not train.is_dir()
    if not has_own_classes:
        class_names = _class_folders(train)
    train_in_doubt = not has_own_classes and may_be_masks(train, class_names)
    settled = not has_own_classes and not train_in_doubt and set(present) <= set(class_names)
    if not settled and may_be_masks(root, present):
        _refuse_masks(root, present)
    if train_in_doubt:
        _refuse_masks(train, class_names)
    for name in present:
        if name not in class_names:
            known = ", ".join(class_names[:10])
            raise DataError(f"{root / name}: expected a class of train/ ({known}), found {name!r}")
    files_of = {name: list(_files(root / name)) for name in present}
    others = [file for found in files_of.values() for file in found if not _is_picture(file)]
    if strays is None:
        listing = shlex.join(["noiseproof", "data", "check", f"folder:{path}", "--readable", "list.csv"])
        them = "it" if len(others) == 1 else "them"
        _refuse_other_files(others, or_else=f"; or list the images without {them}: {listing}")
    else:
        strays += others
    empty = [name for name in present if not files_of[name]]  # one that holds strays alone is told with them
    if empty and split == "train" and len(empty) < len(present):
        several = f", nor in {shortened(empty[1:], MOST_NAMED)}" * (len(empty) > 1)
        advice = "put some there, or remove the folder" + "s" * (len(empty) > 1)
        raise DataError(f"{root / empty[0]}: expected images of the class, found none{several}; {advice}")
    pictures_of = {name: list(filter(_is_picture, found)) for name, found in files_of.items()}
    files = [file for found in pictures_of.values() for file in found]
    labels = [class_names.index(name) for name, found in pictures_of.items() for _ in found]
    if not files:
        raise DataError(f"folder:{root}: expected images in the class folders, found none")
    return LabeledData(
        name=f"folder:{path.name}",
        split=split,
        labels=np.array(labels, dtype=np.int64),
        class_names=tuple(class_names),
        paths=tuple(files),
    )


def _read_segmentation(path: Path, root: Path, split: str, side: int | None) -> LabeledData:
    pairs = _pairs(root)
    images: list[NDArray[np.uint8]] = []
    masks: list[NDArray[np.uint8]] = []
    levels: dict[Path, set[int]] = {}
    for picture, file in pairs:
        image, mask = decode_rgb(picture), decode_mask(file)
        if mask.shape != (image.height, image.width):
            found = f"{mask.shape[1]}x{mask.shape[0]}"
            advice = TURNED if mask.shape == (image.width, image.height) else ""
            raise BadFileError(file, f"the size of its image, {image.width}x{image.height}", found, advice)
        levels[file] = _levels_of(mask)  # of the whole mask: a small class may be lost on the way to the side
        if side is not None and image.size != (side, side):
            image = image.resize((side, side), Image.Resampling.BILINEAR)
            mask = np.asarray(Image.fromarray(mask).resize((side, side), Image.Resampling.NEAREST))
        images.append(np.asarray(image))
        masks.append(mask)
        _check_one_size(picture, images)
    stacked = np.stack(masks)
    names, present = _listed_classes(path), set().union(*levels.values())
    if len(names) < 3 and present <= {0, VOID} and not _holds_class_indices(path, split):
        names = names if len(names) == 2 else TWO_CLASSES
        stacked = (stacked > 0).astype(np.uint8)
    else:
        names = _classes_of_indices(names, present, levels)
    return LabeledData(
        name=f"folder:{path.name}",
        split=split,
        labels=np.zeros(len(pairs), dtype=np.int64),
        class_names=names,
        images=np.stack(images),
        masks=stacked,
    )


def _pairs(root: Path) -> list[tuple[Path, Path]]:
    """Every picture of a split with its mask; one that has none, shares one or is left over is an error."""
    pictures, masks = list(_pictures(root / "images")), list(_pictures(root / "masks"))
    if not pictures:
        raise DataError(f"{root / 'images'}: expected images, found none")
    by_place: dict[Path, list[Path]] = {}
    by_name: dict[str, list[Path]] = {}
    for file in masks:
        by_place.setdefault(_without_suffix(file, root / "masks"), []).append(file)
        by_name.setdefault(composed(file.stem), []).append(file)
    picture_of: dict[Path, Path] = {}
    for picture in pictures:
        mask = _mask_of(picture, _without_suffix(picture, root / "images"), by_place, by_name)
        if mask in picture_of:
            raise BadFileError(
                picture, "its own mask", f"{mask.name}, which is {picture_of[mask].name}'s", "rename one"
            )
        picture_of[mask] = picture
    left_over = set(masks) - set(picture_of)
    if left_over:
        raise BadFileError(min(left_over), "an image of that name in images/", "none")
    return [(picture, mask) for mask, picture in picture_of.items()]


def _without_suffix(file: Path, folder: Path) -> Path:
    return Path(composed(str(file.relative_to(folder).parent / file.stem)))


def _mask_of(
    picture: Path, place: Path, by_place: dict[Path, list[Path]], by_name: dict[str, list[Path]]
) -> Path:
    """The mask in the same place below ``masks/``, or else the one of that name anywhere below it."""
    found = next((by_place[end] for end in _named_as_masks(place) if end in by_place), None)
    found = found or next((by_name[end.name] for end in _named_as_masks(place) if end.name in by_name), None)
    if found is None:
        raise BadFileError(picture, f"its mask masks/{place.as_posix()}.png", "no such file")
    if len(found) > 1:
        both = " and ".join(file.as_posix() for file in found[:2])
        raise BadFileError(
            picture, "one mask with its name", both, "keep one, or arrange them like the images"
        )
    return found[0]


def _named_as_masks(place: Path) -> list[Path]:
    return [place.with_name(place.name + ending) for ending in MASK_ENDINGS]


def _check_one_size(picture: Path, images: list[NDArray[np.uint8]]) -> None:
    size, first = images[-1].shape[:2], images[0].shape[:2]
    if size != first:
        expected, found = f"{first[1]}x{first[0]} like the first image", f"{size[1]}x{size[0]}"
        advice = "resize images and masks to one size, or let --image-size 256 do it"
        raise BadFileError(picture, expected, found, advice)


def are_numbers(names: Sequence[str]) -> bool:
    """Whether classes of masks are called by their numbers, for want of names."""
    return all(name == str(index) for index, name in enumerate(names))


def are_made_up(names: Sequence[str]) -> bool:
    """Whether nobody named the classes of masks."""
    return tuple(names) == TWO_CLASSES or are_numbers(names)


def _levels_of(mask: NDArray[np.uint8]) -> set[int]:
    return set(np.flatnonzero(np.bincount(mask.ravel(), minlength=256)).tolist())


def _listed_classes(path: Path) -> tuple[str, ...]:
    """Class names of ``classes.txt``; none without that file."""
    listed = path / "classes.txt"
    if not listed.is_file():
        return ()
    try:
        lines = listed.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise BadFileError(listed, "class names in UTF-8", f"other bytes ({error})") from error
    return tuple(line.strip() for line in lines if line.strip())


def _holds_class_indices(path: Path, split: str) -> bool:
    """Whether the training masks hold class indices, so that 255 is void in another split that shows 0 and 255."""
    masks = path / "train" / "masks"
    if split == "train" or not masks.is_dir():
        return False
    looked_at = islice(_pictures(masks), TRAINING_MASKS_LOOKED_AT)
    return any(not _levels_of(decode_mask(file)) <= {0, VOID} for file in looked_at)


def _classes_of_indices(
    names: tuple[str, ...], present: set[int], levels: dict[Path, set[int]]
) -> tuple[str, ...]:
    """Names of the classes of masks that hold class indices, and 255 where there is no label."""
    highest = max(present if len(names) > VOID else present - {VOID}, default=0)
    count = len(names) or highest + 1
    if highest >= count or (not names and count > MOST_UNNAMED_CLASSES):
        worst = next(file for file, found in levels.items() if highest in found)
        expected = f"class indices 0..{count - 1}" if names else "class indices (or only 0 and 255)"
        advice = "name more classes in classes.txt" if names else NOT_INDICES
        if len(present) == 2 and 0 in present and len(names) < 3:
            advice = "save the mask as 0 and 255"
        raise BadFileError(worst, expected, f"the level {highest}", advice)
    return names or tuple(str(index) for index in range(max(2, count)))


register_prefix(
    PrefixSource(
        prefix="folder",
        description="class sub-folders (below train/, val/, test/ if there), or images/ and masks/",
        read=read,
        read_at=lambda path, split, side: read(path, split, side=side),
    )
)
