# SPDX-License-Identifier: Apache-2.0
"""Clothing-1M: a million shop pictures labelled by their texts, and some thousands labelled by people.

Layout, as the set's own README and https://github.com/Cysu/noisy_label describe it::

    category_names_eng.txt         one class a line, 14 of them; line number = label
    noisy_label_kv.txt             "images/9/99/XXXX.jpg 3"
    clean_label_kv.txt             likewise, by people
    noisy_train_key_list.txt       "images/9/99/XXXX.jpg"
    clean_val_key_list.txt         likewise (14,313 keys)
    clean_test_key_list.txt        likewise (10,526 keys)
    images/0/00/ ... images/9/99/

The text files may also lie in ``annotations/``, where some public code puts them. As in the paper, training
is on the noisy labels, validation and test on the clean ones, and the clean training keys are not used.
"""

from pathlib import Path

from noiseproof.datasets import file_lists
from noiseproof.datasets.errors import BadFileError
from noiseproof.datasets.file_lists import FileList
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, register

NAME = "clothing1m"
NUM_CLASSES = 14

_LAYOUT = (
    "images/, noisy_label_kv.txt, clean_label_kv.txt, the *_key_list.txt files and category_names_eng.txt"
)


def prepare(origin: Path | None, folder: Path) -> None:
    """File the lists of Clothing-1M."""
    root = file_lists.require_folder(NAME, origin, _LAYOUT)
    lists = root if (root / "noisy_label_kv.txt").is_file() else root / "annotations"
    names = file_lists.read_lines(lists / "category_names_eng.txt")
    if len(names) != NUM_CLASSES:
        raise BadFileError(lists / "category_names_eng.txt", f"{NUM_CLASSES} lines", str(len(names)))
    noisy, clean = _read_labels(lists / "noisy_label_kv.txt"), _read_labels(lists / "clean_label_kv.txt")
    splits = {
        "train": _read_keys(root, lists / "noisy_train_key_list.txt", noisy, "noisy_label_kv.txt"),
        "test": _read_keys(root, lists / "clean_test_key_list.txt", clean, "clean_label_kv.txt"),
        "validation": _read_keys(root, lists / "clean_val_key_list.txt", clean, "clean_label_kv.txt"),
    }
    file_lists.write(folder, root, splits, [name.strip() for name in names], source="Clothing-1M")


def _read_labels(path: Path) -> dict[str, int]:
    return {file: label for _, file, label in file_lists.read_labelled_lines(path, NUM_CLASSES)}


def _read_keys(root: Path, path: Path, labels: dict[str, int], labels_from: str) -> FileList:
    files = []
    for number, line in enumerate(file_lists.read_lines(path), start=1):
        key = file_lists.safe_relative(path, number, line.strip())
        if key not in labels:
            raise BadFileError(path, f"a key of {labels_from} on line {number}", repr(key))
        files.append(key)
    file_lists.require_files(root, files, path.name)
    return FileList(tuple(files), tuple(labels[file] for file in files))


def _read(folder: Path, split: str) -> LabeledData:
    return file_lists.read(folder, NAME, split)


register(
    Source(
        name=NAME,
        description="a million images of clothes in 14 classes with noisy labels; test and validation clean",
        splits=("train", "test", "validation"),
        form="lists of files, decoded on demand",
        where=f"--from FOLDER with {_LAYOUT}; ask its authors: https://github.com/Cysu/noisy_label",
        prepare=prepare,
        read=_read,
        licence="non-commercial research and education; not to be passed on",
    )
)
