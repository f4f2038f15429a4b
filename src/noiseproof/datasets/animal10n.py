# SPDX-License-Identifier: Apache-2.0
"""Animal-10N: 55,000 pictures of ten easily confused animals, labelled by people with about 8% errors.

Two published forms (https://dm.kaist.ac.kr/datasets/animal-10n, https://github.com/kaist-dmlab/SELFIE):

* raw images (``raw_image.zip``): ``training/3_img_00123.jpg`` and ``testing/...``, the label before the first
  underscore, as all public readers take it; listed in the order of their names, decoded on demand;
* binary: ``data_batch_1.bin``, ... and ``test_batch.bin``, records of a 4-byte id, a 4-byte label (both with
  the highest byte first) and 3 × 64 × 64 bytes, channel by channel; kept in the cache as arrays.

Class names are those of the set's page; one public reader states that labels 4 and 5 are swapped there (4
jaguar, 5 cheetah). Names do not enter training.
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import cache, file_lists
from noiseproof.datasets.errors import BadFileError, DataError
from noiseproof.datasets.file_lists import FileList
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, register

NAME = "animal10n"
CLASS_NAMES = (
    "cat",
    "lynx",
    "wolf",
    "coyote",
    "cheetah",
    "jaguar",
    "chimpanzee",
    "orangutan",
    "hamster",
    "guinea pig",
)
SIDE = 64

_RECORD = np.dtype([("id", ">u4"), ("label", ">u4"), ("pixels", np.uint8, (3, SIDE, SIDE))])
_RAW_NAME = re.compile(r"(\d+)_.+\.jpe?g", re.IGNORECASE)
_LAYOUT = "training/ and testing/ (raw images) or data_batch_N.bin and test_batch.bin (binary)"


def prepare(origin: Path | None, folder: Path) -> None:
    """File the raw images' lists, or turn the binary files into arrays."""
    root = file_lists.require_folder(NAME, origin, _LAYOUT)
    raw = next((place for place in (root, root / "raw_image") if (place / "training").is_dir()), None)
    if raw is not None:
        splits = {"train": _list_raw(raw, "training"), "test": _list_raw(raw, "testing")}
        file_lists.write(folder, raw, splits, CLASS_NAMES, source="Animal-10N, raw images")
        return
    batches = sorted(root.glob("data_batch_*.bin"), key=_batch_number)
    if not batches:
        raise DataError(f"{root}: expected {_LAYOUT}, found neither")
    arrays: dict[str, NDArray[np.generic]] = {}
    for split, paths in (("train", batches), ("test", [root / "test_batch.bin"])):
        records = [_read_binary(path) for path in paths]
        arrays[f"{split}_labels"] = np.concatenate([part["label"] for part in records]).astype(np.int64)
        arrays[f"{split}_images"] = np.concatenate([part["pixels"].transpose(0, 2, 3, 1) for part in records])
    with cache.replacing(folder) as new:
        cache.write(new, arrays, source="Animal-10N, binary", facts={"splits": ["train", "test"]})


def _list_raw(root: Path, name: str) -> FileList:
    folder = root / name
    if not folder.is_dir():
        raise DataError(f"{root}: expected a folder {name}/ beside training/, found none")
    files, labels = [], []
    for file in sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")):
        matched = _RAW_NAME.fullmatch(file)
        if matched is None or int(matched[1]) >= len(CLASS_NAMES):
            raise BadFileError(folder / file, "a name LABEL_....jpg with a label in 0..9", repr(file))
        files.append(f"{name}/{file}")
        labels.append(int(matched[1]))
    return FileList(tuple(files), tuple(labels))


def _batch_number(path: Path) -> int:
    digits = path.stem.removeprefix("data_batch_")
    if not digits.isdecimal():
        raise BadFileError(path, "a name data_batch_NUMBER.bin", repr(path.name))
    return int(digits)


def _read_binary(path: Path) -> NDArray[np.void]:
    if not path.is_file():
        raise BadFileError(path, f"records of {_RECORD.itemsize} bytes", "no such file")
    size = path.stat().st_size
    if size == 0 or size % _RECORD.itemsize:
        raise BadFileError(path, f"whole records of {_RECORD.itemsize} bytes", f"{size} bytes")
    records: NDArray[np.void] = np.memmap(path, dtype=_RECORD, mode="r")
    wrong = np.flatnonzero(records["label"] >= len(CLASS_NAMES))
    if len(wrong):
        found = f"{records['label'][wrong[0]]} in record {wrong[0]}"
        raise BadFileError(path, f"labels in 0..{len(CLASS_NAMES) - 1}", found)
    return records


def _read(folder: Path, split: str) -> LabeledData:
    if "root" in cache.manifest_of(folder)["facts"]:
        return file_lists.read(folder, NAME, split)
    return LabeledData(
        name=NAME,
        split=split,
        labels=np.array(cache.read_array(folder, f"{split}_labels")),
        class_names=CLASS_NAMES,
        images=cache.read_array(folder, f"{split}_images"),
    )


register(
    Source(
        name=NAME,
        description="50,000 images of ten easily confused animals, about 8% wrong labels; 5,000 for test",
        splits=("train", "test"),
        form="lists of files decoded on demand, or arrays of 64x64 from the binary version",
        where=f"--from FOLDER with {_LAYOUT}; on request: https://dm.kaist.ac.kr/datasets/animal-10n",
        prepare=prepare,
        read=_read,
    )
)
