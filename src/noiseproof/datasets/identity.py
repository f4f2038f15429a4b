# SPDX-License-Identifier: Apache-2.0
"""Which state of the user's own files a name stands for: a folder keeps its name when its labels are corrected."""

import csv
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from noiseproof.datasets.csv_file import separator_of
from noiseproof.datasets.decode import IMAGE_SUFFIXES
from noiseproof.datasets.folders import SPLIT_FOLDERS
from noiseproof.datasets.tuning import PREFIX as TUNING

OWN = ("folder:", "csv:")
"""How names of the user's own data begin; sets of the package are checked byte for byte when they are read."""

_BYTES_AT_A_TIME = 1 << 20


def identity_of(name: str, *, earlier: bool = False) -> str | None:
    """Digest of the files behind the name of a data set: their names, sizes and labels, not the pixels of pictures.

    Args:
        name: of the data set.
        earlier: as it was taken before links were followed, masks counted by their bytes, and lists with semicolons
            or tabs by the sizes of their pictures. Elsewhere both are the same.

    Returns:
        16 hexadecimal digits; ``None`` for data sets of the package, and where there is nothing.

    Example:
        >>> identity_of("cifar10") is None, identity_of("folder:no/such/folder") is None
        (True, True)
    """
    path = path_of(name)
    if path is None:
        return None
    try:
        if name.removeprefix(TUNING).startswith("csv:"):
            return _digest([identity_of_file(path), *_sizes_of_listed(path, earlier)])
        return _digest(_entries(path, earlier)) if path.is_dir() else None
    except (OSError, UnicodeError, csv.Error):  # whoever reads the data says what is wrong with it
        return None


def path_of(name: str) -> Path | None:
    """Where data of the user's own lie; ``None`` for data sets of the package.

    >>> path_of("tuning:folder:photos/checked").as_posix(), path_of("cifar10")
    ('photos/checked', None)
    """
    name = name.removeprefix(TUNING)
    return Path(name.partition(":")[2]).expanduser() if name.startswith(OWN) else None


def in_earlier_form(digests: str | None, name: str) -> str | None:
    """Digests of a config's inputs as they were taken of a data set before; see :func:`identity_of`."""
    now, before = identity_of(name), identity_of(name, earlier=True)
    if digests is None or now is None or before is None:
        return digests
    return before + digests.removeprefix(now)


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


def _entries(folder: Path, earlier: bool) -> Iterator[str]:
    """Files below a folder that readers take, in one order on every machine; others come and go."""
    masks = [] if earlier else _folders_of_masks(folder)
    listed = folder / "classes.txt"  # of class folders it is no label
    seen: dict[tuple[str, bool], str] = {}
    for above, folders, files in os.walk(folder, followlinks=not earlier):
        place = Path(above)
        holds_masks = any(place.is_relative_to(each) for each in masks)
        # A folder may be met again by a link, even from within; what it holds as labels is then looked at anew.
        first = seen.setdefault((os.path.realpath(above), holds_masks), above)
        if first != above:
            folders.clear()
            yield f"{_below(folder, place)}\0={_below(folder, Path(first))}"
            continue
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for each in sorted(files):
            path = place / each
            if not each.startswith(".") and (path.suffix.lower() in IMAGE_SUFFIXES or each == "classes.txt"):
                is_label = holds_masks or (bool(masks) and path == listed)
                content = f"\0{identity_of_file(path)}" if is_label else ""
                yield f"{_below(folder, path)}\0{path.stat().st_size}{content}"


def _folders_of_masks(folder: Path) -> list[Path]:
    """Folders whose files are labels: ``masks/`` beside ``images/``, of all data or of a split."""
    splits = [folder, *(folder / name for names in SPLIT_FOLDERS.values() for name in names)]
    return [each / "masks" for each in splits if (each / "images").is_dir() and (each / "masks").is_dir()]


def _below(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


def _sizes_of_listed(path: Path, earlier: bool) -> Iterator[str]:
    """Sizes of the pictures that a CSV file names; one that is missing is told by whoever reads it."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file, delimiter="," if earlier else separator_of(file)):
            cell = row.get("path") or ""
            picture = path.parent / (cell if earlier else cell.strip())
            yield str(picture.stat().st_size) if picture.is_file() else "-"


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()[:16]
