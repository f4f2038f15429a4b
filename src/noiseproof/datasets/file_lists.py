# SPDX-License-Identifier: Apache-2.0
"""Sets that stay where they are: the cache holds only which files there are and how they are labelled.

Lists of public sets are text files of one ``FILE LABEL`` a line. Reading one checks every line, and filing it
checks that every file is there, so that a run cannot stop on the tenth day over a picture that was never
unpacked.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import cache
from noiseproof.datasets.errors import BadFileError, DataError, NoSuchSplitError
from noiseproof.datasets.labeled_data import LabeledData

MOST_DIGITS = 20
"""Of a label in a list: no more are ever turned into a number."""


@dataclass(frozen=True)
class FileList:
    """The files of one split below a root folder, and the label of each."""

    files: tuple[str, ...]
    labels: tuple[int, ...]


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text file without empty ones at the end."""
    if not path.is_file():
        raise BadFileError(path, "a list of the published set", "no such file", "unpack the whole set")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFileError(path, "UTF-8 text", f"other bytes ({error})") from error
    return text.rstrip().splitlines()


def read_labelled_lines(path: Path, num_classes: int) -> Iterable[tuple[int, str, int]]:
    """Yield (line number, file, label) for each line ``FILE LABEL``; a line of another form is an error."""
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.split()
        if len(parts) != 2 or not parts[1].isdecimal() or len(parts[1]) > MOST_DIGITS:
            raise BadFileError(path, f"'FILE LABEL' on line {number}", repr(line[:200]))
        label = int(parts[1])
        if label >= num_classes:
            raise BadFileError(path, f"a label in 0..{num_classes - 1} on line {number}", str(label))
        yield number, safe_relative(path, number, parts[0]), label


def safe_relative(path: Path, number: int, file: str) -> str:
    """Return the file name of a line, refused when it would lead out of the set's folder."""
    parsed = PurePosixPath(file)
    if parsed.is_absolute() or ".." in parsed.parts or "\\" in file:
        raise BadFileError(path, f"a file below the set's folder on line {number}", repr(file))
    return file


def require_files(root: Path, files: Sequence[str], listed_in: str) -> None:
    """Check that every listed file is there, reading each folder once; the first missing one is named."""
    present: dict[str, set[str]] = {}
    for number, file in enumerate(files, start=1):
        parent, _, name = file.rpartition("/")
        if parent not in present:
            folder = root / parent
            present[parent] = set(os.listdir(folder)) if folder.is_dir() else set()
        if name not in present[parent]:
            raise BadFileError(
                root / file, f"a file (entry {number} of {listed_in})", "no such file", "unpack the whole set"
            )


def write(
    folder: Path, root: Path, splits: Mapping[str, FileList], class_names: Sequence[str], *, source: str
) -> None:
    """Put the lists of a set into its cache folder; ``root`` is where its files lie and stay."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for split, listed in splits.items():
        if not listed.files:
            raise DataError(f"{root}: expected files for the {split} split, found none")
        arrays[f"{split}_labels"] = np.array(listed.labels, dtype=np.int64)
        arrays[f"{split}_files"] = np.frombuffer("\n".join(listed.files).encode(), dtype=np.uint8)
    facts = {"root": str(root.resolve()), "class_names": list(class_names), "splits": list(splits)}
    with cache.replacing(folder) as new:
        cache.write(new, arrays, source=source, facts=facts)


def read(folder: Path, name: str, split: str) -> LabeledData:
    """Read one split of a set filed by :func:`write`."""
    facts = cache.manifest_of(folder)["facts"]
    for key, kind in (("root", str), ("splits", list), ("class_names", list)):
        values = facts.get(key)
        if not isinstance(values, kind) or not all(isinstance(value, str) for value in values):
            raise BadFileError(folder / cache.MANIFEST, f"facts with {key}", "none, or of another kind")
    if split not in facts["splits"]:
        raise NoSuchSplitError(
            f"{name} was imported without a {split} split; it has {', '.join(facts['splits'])}"
        )
    root = Path(facts["root"])
    if not root.is_dir():
        raise DataError(
            f"{name}: its files were in {root}, which no longer exists; "
            f"import it again with: noiseproof data get {name} --from FOLDER"
        )
    try:
        files = bytes(cache.read_array(folder, f"{split}_files")).decode().split("\n")
    except UnicodeDecodeError as error:
        raise BadFileError(
            folder / f"{split}_files.npy", "names in UTF-8", f"other bytes ({error})"
        ) from error
    return LabeledData(
        name=name,
        split=split,
        labels=np.array(cache.read_array(folder, f"{split}_labels")),
        class_names=tuple(facts["class_names"]),
        paths=tuple(root / file for file in files),
    )


def require_folder(name: str, folder: Path | None, layout: str) -> Path:
    """Return the folder the user gave; without one, the error says which layout it must have."""
    if folder is None:
        raise DataError(
            f"{name} cannot be downloaded automatically; get it from its authors and run: "
            f"noiseproof data get {name} --from FOLDER, where FOLDER holds {layout}"
        )
    if not folder.is_dir():
        raise DataError(f"{name}: --from must be a folder that holds {layout}, got the file {folder}")
    return folder
