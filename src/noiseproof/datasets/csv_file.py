# SPDX-License-Identifier: Apache-2.0
"""``csv:PATH``: the user's own pictures, listed with their labels in a CSV file.

The first line names the columns; ``path`` and ``label`` are needed, ``split`` (train, test, validation) is
used where there is one, others are passed over::

    path,label,split
    pictures/1.jpg,cat,train
    /data/more/2.png,dog,test

Spreadsheets of some countries write semicolons or tabs where others write commas; all are read. A relative path
counts from the CSV file's folder. Labels are names, sorted alphabetically, or, if all of them
are whole numbers, class indices; an apostrophe before a number (``'2023``) makes it a name. Without a split column
every row is training data.
"""

import csv
import os
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import numpy as np

from noiseproof.datasets.decode import IMAGE_SUFFIXES
from noiseproof.datasets.errors import BadFileError, DataError, NoSuchSplitError
from noiseproof.datasets.labeled_data import SPLITS, LabeledData
from noiseproof.datasets.registry import PrefixSource, register_prefix
from noiseproof.spreadsheet import is_number_as_text, original_text

MOST_CLASSES = 100_000
MOST_DIGITS = 20
SEPARATORS = ",;\t"
SAVE = 'in a spreadsheet, save it as "CSV UTF-8"'


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
    kept = [(file, index_of[original_text(label)]) for file, label, its_split in rows if its_split == split]
    if not kept:
        found = ", ".join(sorted({its_split for _, _, its_split in rows}))
        raise NoSuchSplitError(f"csv:{path}: expected rows of the {split} split, found only {found}")
    return LabeledData(
        name=f"csv:{path.name}",
        split=split,
        labels=np.array([index for _, index in kept], dtype=np.int64),
        class_names=class_names,
        paths=tuple(file for file, _ in kept),
    )


def _read_rows(path: Path) -> list[tuple[Path, str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            reader = csv.DictReader(file, delimiter=separator_of(file))
            columns = reader.fieldnames or []
            if "path" not in columns or "label" not in columns:
                found = repr(",".join(columns[:20])[:200]) + f" ({len(columns)} in all)" * (len(columns) > 20)
                raise BadFileError(path, "columns path and label on line 1", found)
            for name in ("path", "label", "split"):
                if columns.count(name) > 1:
                    raise BadFileError(path, f"one column {name}", f"{columns.count(name)} of them")
            rows = [(reader.line_num, _check_row(path, reader.line_num, row)) for row in reader]
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadFileError(
                path, "UTF-8 CSV text", f"after line {reader.line_num}: {error}", SAVE
            ) from error
    _refuse_missing_files(path, [(line, file) for line, (file, _, _) in rows])
    return [row for _, row in rows]


def _refuse_missing_files(path: Path, files: list[tuple[int, Path]]) -> None:
    """All files that are not there are one error: where the folder is another one, these are all of them."""
    # Unlike Path.is_file, this also answers for a name that is too long to exist.
    missing = [(line, file) for line, file in files if not os.path.isfile(file)]
    if not missing:
        return
    line, file = missing[0]
    more = f"{len(missing) - 1} more of {len(files)} files are missing too; " * (len(missing) > 1)
    advice = f"{more}paths are relative to the folder of the CSV file"
    raise BadFileError(path, f"the file of line {line}", f"no file {str(file)[:500]}", advice)


def separator_of(file: TextIO) -> str:
    """The sign between the columns: the one by which the first line has both columns that are needed."""
    start, found = file.tell(), ","
    for separator in SEPARATORS:
        file.seek(start)
        columns: list[str] = []
        with suppress(
            csv.Error
        ):  # by another sign than its own a long line may be one field, too large to be read
            columns = next(csv.reader(file, delimiter=separator), [])
        if "path" in columns and "label" in columns:
            found = separator
            break
    file.seek(start)
    return found


def _check_row(path: Path, line: int, row: dict[str, str]) -> tuple[Path, str, str]:
    if None in row or None in row.values():
        raise BadFileError(path, f"as many fields as the header on line {line}", "a different number")
    file, label, split = row["path"].strip(), row["label"].strip(), row.get("split", "train").strip()
    if not file or not label:
        shown = f"path {file[:200]!r}, label {label[:200]!r}"
        raise BadFileError(path, f"a path and a label on line {line}", shown)
    if split not in SPLITS:
        raise BadFileError(path, f"split {', '.join(SPLITS)} on line {line}", repr(split[:200]))
    found = path.parent / file  # an absolute path stays as it is
    if found.suffix.lower() not in IMAGE_SUFFIXES:
        raise BadFileError(
            path, f"an image on line {line}", repr(file[:200]), "known: " + " ".join(sorted(IMAGE_SUFFIXES))
        )
    return found, label, split


def _classes(path: Path, labels: list[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    cells = set(labels)
    # An audit writes an apostrophe before what a spreadsheet would run, and before numbers that are names.
    names = sorted({original_text(cell) for cell in cells})
    if all(name.isdecimal() for name in names) and not any(map(is_number_as_text, cells)):
        highest = max(names, key=lambda name: (len(name) > MOST_DIGITS, int(name[:MOST_DIGITS])))
        if len(highest) > MOST_DIGITS or int(highest) >= MOST_CLASSES:
            expected, found = f"class indices below {MOST_CLASSES}", highest[:MOST_DIGITS]
            raise BadFileError(path, expected, found, "use names for other numbers")
        return tuple(str(index) for index in range(int(highest) + 1)), {name: int(name) for name in names}
    return tuple(names), {name: index for index, name in enumerate(names)}


register_prefix(
    PrefixSource(
        prefix="csv", description="a CSV file with the columns path and label, optionally split", read=read
    )
)
