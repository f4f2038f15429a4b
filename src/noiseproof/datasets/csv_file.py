"""``csv:PATH``: the user's own pictures, listed with their labels in a CSV file.

The first line names the columns; ``path`` and ``label`` are needed, ``split`` (train, test, validation) is
used where there is one, others are passed over::

    path,label,split
    pictures/1.jpg,cat,train
    /data/more/2.png,dog,test

A relative path counts from the CSV file's folder. Labels are names, sorted alphabetically, or, if all of them
are whole numbers, class indices. Without a split column every row is training data.
"""

import csv
from pathlib import Path

import numpy as np

from noiseproof.datasets.decode import IMAGE_SUFFIXES
from noiseproof.datasets.errors import BadFileError, DataError
from noiseproof.datasets.labeled_data import SPLITS, LabeledData
from noiseproof.datasets.registry import PrefixSource, register_prefix


def read(path: Path, split: str) -> LabeledData:
    """Read one split of a CSV file; the classes are those of the whole file."""
    if split not in SPLITS:
        raise DataError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    if not path.is_file():
        raise DataError(
            f"csv:{path}: expected a CSV file, found {'a folder' if path.is_dir() else 'nothing'}"
        )
    rows = _read_rows(path)
    if not rows:
        raise BadFileError(path, "at least one row below the header", "none")
    class_names, index_of = _classes(path, [label for _, label, _ in rows])
    kept = [(file, index_of[label]) for file, label, its_split in rows if its_split == split]
    if not kept:
        found = ", ".join(sorted({its_split for _, _, its_split in rows}))
        raise DataError(f"csv:{path}: expected rows of the {split} split, found only {found}")
    return LabeledData(
        name=f"csv:{path.name}",
        split=split,
        labels=np.array([index for _, index in kept], dtype=np.int64),
        class_names=class_names,
        paths=tuple(file for file, _ in kept),
    )


def _read_rows(path: Path) -> list[tuple[Path, str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, restkey="too many")
        try:
            columns = reader.fieldnames or []
            if "path" not in columns or "label" not in columns:
                raise BadFileError(path, "columns path and label on line 1", repr(",".join(columns)))
            return [_check_row(path, reader.line_num, row) for row in reader]
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadFileError(path, "UTF-8 CSV text", f"after line {reader.line_num}: {error}") from error


def _check_row(path: Path, line: int, row: dict[str, str]) -> tuple[Path, str, str]:
    if "too many" in row or None in row.values():
        raise BadFileError(path, f"as many fields as the header on line {line}", "another number of them")
    file, label, split = row["path"].strip(), row["label"].strip(), row.get("split", "train").strip()
    if not file or not label:
        raise BadFileError(path, f"a path and a label on line {line}", f"path {file!r}, label {label!r}")
    if split not in SPLITS:
        raise BadFileError(path, f"split {', '.join(SPLITS)} on line {line}", repr(split))
    found = path.parent / file  # an absolute path stays as it is
    if found.suffix.lower() not in IMAGE_SUFFIXES:
        raise BadFileError(
            path, f"a picture on line {line}", repr(file), "known: " + " ".join(sorted(IMAGE_SUFFIXES))
        )
    if not found.is_file():
        raise BadFileError(path, f"the file of line {line}", f"no file {found}")
    return found, label, split


def _classes(path: Path, labels: list[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    names = sorted(set(labels))
    if all(name.isdecimal() for name in names):
        highest = max(int(name) for name in names)
        if highest >= 100_000:
            raise BadFileError(
                path, "class indices below 100000", str(highest), "use names for other numbers"
            )
        return tuple(str(index) for index in range(highest + 1)), {name: int(name) for name in names}
    return tuple(names), {name: index for index, name in enumerate(names)}


register_prefix(
    PrefixSource(
        prefix="csv", description="a CSV file with the columns path and label, optionally split", read=read
    )
)
