# SPDX-License-Identifier: Apache-2.0
"""Fingerprints: one short text that is equal exactly when the content is, on every machine.

An array's fingerprint covers its element type (little-endian spelling), its shape and its bytes in C order,
so labels in another order, or of another type, have another fingerprint.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BYTES_A_TIME = 1 << 22


def of_array(array: NDArray[Any]) -> str:
    """Return the sha256 of an array's type, shape and values, reading a memory map piece by piece.

    Example:
        >>> of_array(np.array([3, 1, 2]))[:16]
        '2e6c801576ab951a'
        >>> of_array(np.array([3, 2, 1])) == of_array(np.array([3, 1, 2]))
        False
        >>> of_array(np.array([3, 1, 2], dtype=">i8")) == of_array(np.array([3, 1, 2], dtype="<i8"))
        True
    """
    if array.dtype.hasobject:
        raise TypeError(f"only arrays of plain numbers have a fingerprint, got dtype {array.dtype}")
    digest = hashlib.sha256()
    little_endian = array.dtype.newbyteorder("<")
    digest.update(f"{little_endian.str}{array.shape}".encode())
    rows = array.reshape(1) if array.ndim == 0 else array
    rows_a_time = max(1, _BYTES_A_TIME // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), rows_a_time):
        piece = rows[start : start + rows_a_time].astype(little_endian, copy=False)
        digest.update(np.ascontiguousarray(piece).data)
    return digest.hexdigest()


def of_paths(paths: Sequence[Path]) -> str:
    """Return the sha256 of file names below their common folder: the same wherever that folder lies.

    Example:
        >>> here = of_paths([Path("/a/cat/1.png"), Path("/a/dog/1.png")])
        >>> there = of_paths([Path("/home/b/cat/1.png"), Path("/home/b/dog/1.png")])
        >>> here == there
        True
    """
    digest = hashlib.sha256()
    if paths:
        common = Path(os.path.commonpath([path.parent for path in paths]))
        for path in paths:
            digest.update(path.relative_to(common).as_posix().encode())
            digest.update(b"\0")
    return digest.hexdigest()


def of_file(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file's bytes as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def of_parts(*parts: str) -> str:
    """Return one fingerprint for several, their order included.

    Example:
        >>> of_parts("a", "b") == of_parts("b", "a")
        False
    """
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
