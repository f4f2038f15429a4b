"""A record of noisy labels in one ``.npz`` file: no pickle, bound to its data, written whole or not at all.

The file holds ``labels`` (and ``outside`` or ``answers`` where the noise has them) and one text in JSON,
``description``: format version, kind, rate, seed, generator, details, number of classes, the fingerprint of
the clean labels and that of the given ones. The clean labels themselves stay with the data set.
"""

import contextlib
import json
import os
import secrets
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise.checks import checked_labels
from noiseproof.noise.record import NoisyLabels, fingerprint

FORMAT = "noiseproof noisy labels"
VERSION = 1
EXTRA_ARRAYS = ("outside", "answers")

UNREADABLE = (ValueError, OSError, EOFError, KeyError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What NumPy's and the zip reader raise on a file that is damaged, cut short or something else."""

Record = TypeVar("Record", bound=NoisyLabels)


def save(record: NoisyLabels, path: str | PathLike[str]) -> None:
    """Write a record to ``path``, which must end in ``.npz``.

    The bytes go to a temporary file beside it, are forced to the disk, and take the name in one step: a
    reader sees the old file or the new one, never a part. The same record gives the same bytes.
    """
    target = Path(path)
    if target.suffix != ".npz":
        raise ValueError(f"path must end in .npz, got {str(path)!r}")
    description = {
        "format": FORMAT,
        "version": VERSION,
        "kind": record.kind,
        "rate": record.rate,
        "seed": record.seed,
        "generator": record.generator,
        "details": dict(record.details),
        "num_classes": record.num_classes,
        "clean_fingerprint": record.fingerprint,
        "labels_fingerprint": fingerprint(record.labels),
    }
    arrays: dict[str, NDArray[Any]] = {
        "description": np.array(json.dumps(description, sort_keys=True)),
        "labels": record.labels,
    }
    for name in EXTRA_ARRAYS:
        if (extra := getattr(record, name)) is not None:
            arrays[name] = extra
    _write_atomically(target, arrays)


def load(record_type: type[Record], path: str | PathLike[str], *, clean: ArrayLike) -> Record:
    """Read what :func:`save` wrote, for the data whose true labels are ``clean``."""
    true_labels = checked_labels(clean, name="clean")
    arrays = _read_arrays(Path(path))
    description = _read_description(path, arrays)
    expected, found = description["clean_fingerprint"], fingerprint(true_labels)
    if expected != found:
        raise ValueError(
            f"{path} belongs to other clean labels, or to the same in another order: it was made for "
            f"fingerprint {expected[:12]}…, the labels given have {found[:12]}…"
        )
    labels = _integers(path, arrays, "labels", len(true_labels))
    if fingerprint(labels) != description["labels_fingerprint"]:
        raise ValueError(f"{path} is damaged: its labels do not have the fingerprint it states")
    num_classes = description["num_classes"]
    if labels.max() >= num_classes or true_labels.max() >= num_classes:
        raise ValueError(f"{path} is damaged: it states {num_classes} classes, and labels go beyond them")
    extras = {name: _integers(path, arrays, name, len(labels)) for name in EXTRA_ARRAYS if name in arrays}
    return record_type(
        labels=labels,
        clean=true_labels,
        num_classes=num_classes,
        kind=description["kind"],
        rate=description["rate"],
        seed=description["seed"],
        generator=description["generator"],
        details=description["details"],
        **extras,
    )


def _write_atomically(target: Path, arrays: dict[str, NDArray[Any]]) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _force_folder_to_disk(target.parent)


def _force_folder_to_disk(folder: Path) -> None:
    # Where a folder cannot be opened (Windows) the new name is as safe as the system makes it.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    known = {"description", "labels", *EXTRA_ARRAYS}
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds one bare array")
            if unknown := set(archive.files) - known:
                raise ValueError(f"it holds unknown entries: {', '.join(sorted(unknown))}")
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise ValueError(f"{path} is not a readable record of noisy labels: {error}") from error


def _read_description(path: str | PathLike[str], arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    if missing := {"description", "labels"} - arrays.keys():
        raise ValueError(f"{path} is not a record of noisy labels: no {', '.join(sorted(missing))} in it")
    try:
        description = json.loads(str(arrays["description"]))
        stated = description["format"], description["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is damaged: its description cannot be read ({error})") from error
    if stated != (FORMAT, VERSION):
        raise ValueError(
            f"{path} must be {FORMAT!r} version {VERSION}, got {stated[0]!r} version {stated[1]}; "
            "a newer noiseproof may read it"
        )
    for name, types in _DESCRIPTION_TYPES.items():
        if name not in description or not isinstance(description[name], types):
            raise ValueError(f"{path} is damaged: its description lacks a valid {name}")
    return dict(description)


def _integers(
    path: str | PathLike[str], arrays: dict[str, NDArray[Any]], name: str, rows: int
) -> NDArray[np.int64]:
    array = arrays[name]
    dimensions = 2 if name == "answers" else 1
    if array.dtype.kind != "i" or array.ndim != dimensions or len(array) != rows:
        raise ValueError(
            f"{path} is damaged: {name} must be {rows} rows of integers, "
            f"got dtype {array.dtype} and shape {array.shape}"
        )
    return array.astype(np.int64, copy=False)


_DESCRIPTION_TYPES: dict[str, Any] = {
    "kind": str,
    "rate": (float, int, type(None)),
    "seed": (int, type(None)),
    "generator": (str, type(None)),
    "details": dict,
    "num_classes": int,
    "clean_fingerprint": str,
    "labels_fingerprint": str,
}
