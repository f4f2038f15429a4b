# SPDX-License-Identifier: Apache-2.0
"""Which state of the user's own files a name stands for: a folder keeps its name when its labels are corrected."""

import csv
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from noiseproof.datasets.decode import IMAGE_SUFFIXES
from noiseproof.datasets.tuning import PREFIX as TUNING

OWN = ("folder:", "csv:")
"""How names of the user's own data begin; sets of the package are checked byte for byte when they are read."""

_BYTES_AT_A_TIME = 1 << 20


def identity_of(name: str) -> str | None:
    """Digest of the files behind the name of a data set: their names, sizes and labels, not their pixels.

    Returns:
        16 hexadecimal digits; ``None`` for data sets of the package, and where there is nothing.

    Example:
        >>> identity_of("cifar10") is None, identity_of("folder:no/such/folder") is None
        (True, True)
    """
    name = name.removeprefix(TUNING)
    if not name.startswith(OWN):
        return None
    kind, _, text = name.partition(":")
    path = Path(text).expanduser()
    try:
        if kind == "csv":
            return _digest([identity_of_file(path), *_sizes_of_listed(path)])
        return _digest(_entries(path)) if path.is_dir() else None
    except (OSError, UnicodeError, csv.Error):  # whoever reads the data says what is wrong with it
        return None


def identity_of_file(path: Path) -> str:
    """Digest of a file's bytes.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_BYTES_AT_A_TIME):
            digest.update(part)
    return digest.hexdigest()[:16]


def _entries(folder: Path) -> Iterator[str]:
    """Files below a folder that readers take, in one order on every machine; others come and go."""
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for each in sorted(files):
            path = Path(above, each)
            if not each.startswith(".") and (path.suffix.lower() in IMAGE_SUFFIXES or each == "classes.txt"):
                yield f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}"


def _sizes_of_listed(path: Path) -> Iterator[str]:
    """Sizes of the pictures that a CSV file names; one that is missing is told by whoever reads it."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            picture = path.parent / (row.get("path") or "")
            yield str(picture.stat().st_size) if picture.is_file() else "-"


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()[:16]
