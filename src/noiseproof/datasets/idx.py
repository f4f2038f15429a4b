# SPDX-License-Identifier: Apache-2.0
"""IDX files, the format of MNIST and its kin: a few big-endian numbers, then plain bytes.

The layout, as its authors give it (http://yann.lecun.com/exdb/mnist/, "the IDX file format"): two zero bytes,
a byte for the element type (8 is unsigned byte), a byte for the number of dimensions, one 32-bit size a
dimension, then the elements.
"""

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets.errors import BadFileError

_UNSIGNED_BYTE = 8
_FETCH_AGAIN = "download the file again"


def read(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, plain or gzip-compressed, that must have the given shape.

    A file that would unpack to more than the shape asks for is refused without unpacking the rest.

    Raises:
        BadFileError: it is damaged, truncated, or something else; the message says what was found.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "labels-idx1-ubyte"
        ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([7, 2, 1]))
        ...     read(path, (3,))
        array([7, 2, 1], dtype=uint8)
    """
    header_bytes = 4 + 4 * len(shape)
    body_bytes = math.prod(shape)
    content = _read_at_most(path, header_bytes + body_bytes + 1)
    if len(content) < header_bytes:
        raise BadFileError(path, f"an IDX header of {header_bytes} bytes", f"{len(content)}", _FETCH_AGAIN)
    magic = content[:4]
    if magic[:3] != bytes([0, 0, _UNSIGNED_BYTE]):
        raise BadFileError(path, "an IDX file of bytes (magic number 000008..)", magic.hex(), _FETCH_AGAIN)
    if magic[3] != len(shape):
        raise BadFileError(path, f"{len(shape)} dimensions", f"{magic[3]}", _FETCH_AGAIN)
    found = tuple(np.frombuffer(content, dtype=">u4", count=len(shape), offset=4).tolist())
    if found != shape:
        raise BadFileError(path, f"the shape {shape}", f"{found}", _FETCH_AGAIN)
    if len(content) != header_bytes + body_bytes:
        more = "more" if len(content) > header_bytes + body_bytes else f"{len(content) - header_bytes}"
        raise BadFileError(path, f"{body_bytes} bytes after the header", more, _FETCH_AGAIN)
    return np.frombuffer(content, dtype=np.uint8, offset=header_bytes).reshape(shape)


def _read_at_most(path: Path, most_bytes: int) -> bytes:
    try:
        if path.suffix != ".gz":
            with path.open("rb") as file:
                return file.read(most_bytes)
        with gzip.open(path) as file:
            content = file.read(most_bytes)
            if len(content) < most_bytes:
                file.read(1)  # at the end: lets gzip compare its own checksum
            return content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadFileError(path, "a whole gzip file", f"a damaged one ({error})", _FETCH_AGAIN) from error
