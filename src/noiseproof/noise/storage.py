# SPDX-License-Identifier: Apache-2.0
"""Records in one ``.npz`` file: no pickle, a description in JSON, written whole or not at all."""

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERSION = 1
DESCRIPTION = "description"

MOST_DESCRIPTION_BYTES = 1 << 20
"""Far more than any description takes."""

FilePath = str | PathLike[str]


def write(
    path: FilePath, form: str, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write arrays and their description to ``path``, which must end in ``.npz``.

    The bytes go to a temporary file beside it, are forced to the disk, and take the name in one step: a
    reader sees the old file or the new one, never a part. The same record gives the same bytes.
    """
    if Path(path).suffix != ".npz":
        raise ValueError(f"path must end in .npz, got {str(path)!r}")
    target = Path(os.path.realpath(path))  # a link stays one
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it, such as {Path(path, 'noisy.npz')}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} in")
    if objects := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise TypeError(f"arrays must hold numbers, not objects, got objects in {', '.join(objects)}")
    text = json.dumps({"format": form, "version": VERSION, **description}, sort_keys=True)
    entries: dict[str, Any] = {DESCRIPTION: np.array(text), **arrays}
    # A name may have 255 bytes, and a letter four of them.
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:
            np.savez_compressed(file, **entries)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):  # what cannot be written cannot be cleared up either
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    _force_folder_to_disk(target.parent)


def read(
    path: FilePath,
    form: str,
    types: Mapping[str, Any],
    required: set[str],
    optional: set[str],
    most_bytes: int,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what :func:`write` wrote: the description and the arrays.

    Args:
        path: The file.
        form: The format it must state.
        types: The entries its description must have, with their types.
        required: The arrays it must hold.
        optional: The arrays it may hold.
        most_bytes: What its arrays can take; a file that would unpack to more is refused before it does.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It cannot be read or states another format; an entry or an array lacks or is unknown.
    """
    arrays = _arrays(path, form, required, optional, most_bytes + MOST_DESCRIPTION_BYTES)
    try:
        description = json.loads(str(arrays.pop(DESCRIPTION)))
        stated = description["format"], description["version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its description cannot be read ({error})") from error
    if stated != (form, VERSION):
        raise ValueError(
            f"{path} must hold {form!r}, version {VERSION}, got {stated[0]!r}, version {stated[1]}"
        )
    for name, expected in types.items():
        value = description.get(name, ...)
        if isinstance(value, bool) or not isinstance(value, expected):
            raise ValueError(f"{path} is damaged: its description lacks a valid {name}")
    return description, arrays


def checked_array(
    path: FilePath,
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    dtype: type[np.generic],
    shape: tuple[int, ...],
) -> NDArray[Any]:
    """An array of the file, of the dtype and shape it must have; -1 in ``shape`` is any length."""
    array = arrays[name]
    fits = len(array.shape) == len(shape) and all(
        wanted in (-1, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        raise ValueError(
            f"{path} is damaged: {name} must be {np.dtype(dtype)} of shape {shape}, "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array


def _arrays(
    path: FilePath, form: str, required: set[str], optional: set[str], most_bytes: int
) -> dict[str, NDArray[Any]]:
    needed = {DESCRIPTION, *required}
    try:
        with open(path, "rb") as file:  # NumPy would leave it open where it is no archive
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds one bare array")
            with archive:
                # No more than the sizes that it states is ever unpacked.
                size = sum(member.file_size for member in archive.zip.infolist()) if archive.zip else 0
                if size > most_bytes:
                    raise ValueError(
                        f"it would unpack to {size} bytes, and {most_bytes} are the most there can be"
                    )
                names = set(archive.files)
                if missing := needed - names:
                    held = ", ".join(sorted(names)[:8])[:200]
                    raise ValueError(
                        f"there is no {', '.join(sorted(missing))} in it (but {held or 'nothing'})"
                    )
                if unknown := names - needed - optional:
                    raise ValueError(f"it holds unknown entries: {', '.join(sorted(unknown))}")
                arrays = {name: archive[name] for name in archive.files}
                if strangers := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
                    raise ValueError(f"{', '.join(sorted(strangers))} in it is no array")
                return arrays
    except FileNotFoundError:
        raise
    except Exception as error:  # on damaged bytes NumPy and the zip reader raise nearly every kind
        raise ValueError(f"{path} is not a readable file of {form}: {error}") from error


def _force_folder_to_disk(folder: Path) -> None:
    # Where a folder cannot be opened (Windows) the new name is as safe as the system makes it.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
