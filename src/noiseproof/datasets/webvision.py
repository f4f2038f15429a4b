# SPDX-License-Identifier: Apache-2.0
"""WebVision 1.0, "mini": Google images of the first 50 classes, and ILSVRC-2012's validation images of those.

Layout, as published (https://data.vision.ee.ethz.ch/cvl/webvision/README.txt: the ``info`` folder and its
lists) and as public code reads it (LiJunnan1992/DivideMix, ``dataloader_webvision.py``)::

    info/synsets.txt                   one class a line: "n01440764 tench, Tinca tinca"; line number = label
    info/train_filelist_google.txt     "google/q0001/XXXX.jpg 0"
    info/val_filelist.txt              "val000001.jpg 0"
    google/q0001/XXXX.jpg              from google_resized_256.tar
    val_images_256/val000001.jpg       from val_images_256.tar

Labels run over all 1,000 classes; "mini" keeps those below 50: 65,944 and 2,500 by public code's count.

ILSVRC-2012's validation images are found beside them in one of the three forms in circulation::

    imagenet/val/n01440764/*.JPEG      a folder a class, by WordNet name
    imagenet/val/0/*.JPEG              a folder a class, by WebVision label (DivideMix)
    ILSVRC2012_img_val/*.JPEG          flat, as published, with ILSVRC2012_devkit_t12/data/ beside it
"""

from pathlib import Path

from noiseproof.datasets import file_lists
from noiseproof.datasets.errors import BadFileError, DataError
from noiseproof.datasets.file_lists import FileList
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, register

NAME, IMAGENET_NAME = "webvision-mini", "webvision-mini-ilsvrc12"
NUM_CLASSES, ALL_CLASSES = 50, 1000

_LAYOUT = "info/, google/ and val_images_256/ of WebVision 1.0"
_IMAGENET_LAYOUT = (
    "info/synsets.txt of WebVision 1.0 and ILSVRC-2012's validation images, as imagenet/val/WNID/ or as "
    "ILSVRC2012_img_val/ with ILSVRC2012_devkit_t12/"
)


def prepare(origin: Path | None, folder: Path) -> None:
    """File the lists of WebVision-mini."""
    root = file_lists.require_folder(NAME, origin, _LAYOUT)
    _, names = _read_synsets(root)
    splits = {
        "train": _read_list(root, "train_filelist_google.txt", below=""),
        "test": _read_list(root, "val_filelist.txt", below="val_images_256/"),
    }
    file_lists.write(folder, root, splits, names, source="WebVision 1.0, Google subset, labels 0..49")


def prepare_imagenet(origin: Path | None, folder: Path) -> None:
    """File the ILSVRC-2012 validation images of the same 50 classes."""
    root = file_lists.require_folder(IMAGENET_NAME, origin, _IMAGENET_LAYOUT)
    wordnet_names, names = _read_synsets(root)
    by_class, flat = root / "imagenet" / "val", root / "ILSVRC2012_img_val"
    if by_class.is_dir():
        listed = _list_class_folders(root, by_class, wordnet_names)
    elif flat.is_dir():
        listed = _list_flat(root, flat, wordnet_names)
    else:
        raise DataError(f"{root}: expected imagenet/val/ or ILSVRC2012_img_val/, found neither")
    file_lists.write(folder, root, {"test": listed}, names, source="ILSVRC-2012 validation, 50 classes")


def _read_synsets(root: Path) -> tuple[list[str], list[str]]:
    path = root / "info" / "synsets.txt"
    lines = file_lists.read_lines(path)
    if len(lines) < NUM_CLASSES:
        raise BadFileError(path, f"at least {NUM_CLASSES} lines", f"{len(lines)}")
    wordnet_names, names = [], []
    for number, line in enumerate(lines[:NUM_CLASSES], start=1):
        wordnet_name, _, words = line.partition(" ")
        if not (wordnet_name.startswith("n") and wordnet_name[1:].isdecimal() and words.strip()):
            raise BadFileError(path, f"'nXXXXXXXX words' on line {number}", repr(line))
        wordnet_names.append(wordnet_name)
        names.append(words.split(",")[0].strip())
    return wordnet_names, names


def _read_list(root: Path, list_name: str, below: str) -> FileList:
    listed = file_lists.read_labelled_lines(root / "info" / list_name, ALL_CLASSES)
    kept = [(below + file, label) for _, file, label in listed if label < NUM_CLASSES]
    files = tuple(file for file, _ in kept)
    file_lists.require_files(root, files, list_name)
    return FileList(files, tuple(label for _, label in kept))


def _list_class_folders(root: Path, folder: Path, wordnet_names: list[str]) -> FileList:
    files, labels = [], []
    for label, wordnet_name in enumerate(wordnet_names):
        class_folder = next(
            (folder / name for name in (wordnet_name, str(label)) if (folder / name).is_dir()), None
        )
        if class_folder is None:
            raise DataError(f"{folder}: expected a folder {wordnet_name}/ or {label}/, found neither")
        found = sorted(path for path in class_folder.iterdir() if path.suffix.lower() in {".jpeg", ".jpg"})
        if not found:
            raise DataError(f"{class_folder}: expected .JPEG files, found none")
        files += [path.relative_to(root).as_posix() for path in found]
        labels += [label] * len(found)
    return FileList(tuple(files), tuple(labels))


def _list_flat(root: Path, folder: Path, wordnet_names: list[str]) -> FileList:
    """Follow the development kit: line i of the ground truth is the ILSVRC2012_ID of validation image i."""
    from scipy.io import (
        loadmat,  # only here: it is slow to import, and `noiseproof data list` should not wait
    )

    kit = root / "ILSVRC2012_devkit_t12" / "data"
    truth_path, meta_path = kit / "ILSVRC2012_validation_ground_truth.txt", kit / "meta.mat"
    if not meta_path.is_file():
        raise BadFileError(meta_path, "the development kit's class table", "no such file")
    synsets = loadmat(meta_path, squeeze_me=True)["synsets"]
    wordnet_of = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in synsets}
    label_of = {name: label for label, name in enumerate(wordnet_names)}
    files, labels = [], []
    for number, line in enumerate(file_lists.read_lines(truth_path), start=1):
        if not line.strip().isdecimal() or int(line) not in wordnet_of:
            raise BadFileError(truth_path, f"an ILSVRC2012_ID on line {number}", repr(line))
        label = label_of.get(wordnet_of[int(line)])
        if label is not None:
            files.append(f"{folder.name}/ILSVRC2012_val_{number:08}.JPEG")
            labels.append(label)
    file_lists.require_files(root, files, truth_path.name)
    return FileList(tuple(files), tuple(labels))


def _read(folder: Path, split: str) -> LabeledData:
    return file_lists.read(folder, NAME, split)


def _read_imagenet(folder: Path, split: str) -> LabeledData:
    return file_lists.read(folder, IMAGENET_NAME, split)


register(
    Source(
        name=NAME,
        description="Google images of WebVision's first 50 classes, labelled by query; test: WebVision-val",
        splits=("train", "test"),
        form="lists of files, decoded on demand",
        where=f"--from FOLDER with {_LAYOUT} (https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html)",
        prepare=prepare,
        read=_read,
    )
)
register(
    Source(
        name=IMAGENET_NAME,
        description="ILSVRC-2012 validation images of the same 50 classes: the second test of webvision-mini",
        splits=("test",),
        form="lists of files, decoded on demand",
        where=f"--from FOLDER with {_IMAGENET_LAYOUT} (https://image-net.org)",
        prepare=prepare_imagenet,
        read=_read_imagenet,
    )
)
