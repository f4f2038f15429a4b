# SPDX-License-Identifier: Apache-2.0
"""Containers around fuzzed bytes: right checksums and headers, so that a change reaches the reader behind them."""

import gzip
import hashlib
import io
import json
import struct
import zipfile
import zlib

import numpy as np

SEPARATOR = b"\n--\n"
PNG_BEGINNING = b"\x89PNG\r\n\x1a\n"
STORAGE_BYTES = 64


def gzipped(content: bytes) -> bytes:
    """The bytes as a gzip file, always the same."""
    return gzip.compress(content, compresslevel=1, mtime=0)


def with_right_checksums(picture: bytes) -> bytes:
    """A PNG file whose chunks state the checksums they have; anything else as it is."""
    if not picture.startswith(PNG_BEGINNING):
        return picture
    mended, place = bytearray(PNG_BEGINNING), len(PNG_BEGINNING)
    while len(picture) - place >= 12:
        (length,) = struct.unpack_from(">I", picture, place)
        end = place + 8 + length
        if end + 4 > len(picture):
            break
        mended += picture[place:end] + struct.pack(">I", zlib.crc32(picture[place + 4 : end]))
        place = end + 4
    return bytes(mended) + picture[place:]


def zipped(entries: dict[str, bytes]) -> bytes:
    """A zip file of uncompressed entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    """An array as an ``.npy`` file."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def as_npy(text_or_array: bytes) -> bytes:
    """Bytes of an ``.npy`` file as they are; any other UTF-8 text as an array that holds it."""
    if text_or_array.startswith(b"\x93NUMPY"):
        return text_or_array
    text = text_or_array.decode(errors="replace")
    # NumPy drops trailing NULs; such a text goes in as bytes that are no array at all.
    return text_or_array if "\0" in text else npy(np.array(text))


def torch_archive(program: bytes, storages: int = 2) -> bytes:
    """What ``torch.save`` writes, with ``program`` as its pickle and a few storages."""
    entries = {"archive/data.pkl": program, "archive/byteorder": b"little"}
    entries |= {f"archive/data/{key}": bytes(range(STORAGE_BYTES)) for key in range(storages)}
    entries["archive/version"] = b"3\n"
    return zipped(entries)


def pickle_of(content: object) -> bytes:
    """The pickle that ``torch.save`` writes for a content; the storages' bytes are left out."""
    import torch

    buffer = io.BytesIO()
    torch.save(content, buffer)
    with zipfile.ZipFile(buffer) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("data.pkl")]
        return archive.read(name)


def checkpoint(program: bytes) -> bytes:
    """A checkpoint file with the right checksum around a pickle."""
    from noiseproof.training.checkpoint import MAGIC

    payload = torch_archive(program)
    return MAGIC + hashlib.sha256(payload).digest() + payload


def safetensors(header_and_data: bytes) -> bytes:
    """A safetensors file: the length of its JSON header in front of header and data."""
    header, _, data = header_and_data.partition(SEPARATOR)
    return struct.pack("<Q", len(header)) + header + data


def labels_fingerprint(array: bytes) -> str:
    """The fingerprint of labels in an ``.npy`` file, where they can be read as such."""
    from noiseproof.noise.record import fingerprint

    try:
        return fingerprint(np.lib.format.read_array(io.BytesIO(array), allow_pickle=False))
    except Exception:  # the reader under test is to say what is wrong with them
        return "?"


def masks_fingerprint(masks: np.ndarray) -> str:
    """The fingerprint of masks that a noise file is bound to."""
    from noiseproof.noise.masks import mask_fingerprint

    return mask_fingerprint(masks)


def picture(size: tuple[int, int], level: int = 0, mode: str = "L") -> bytes:
    """A PNG file of one colour, with one other pixel."""
    from PIL import Image

    buffer = io.BytesIO()
    image = Image.new(mode, size)
    if level:
        image.putpixel((0, 0), level)
    image.save(buffer, "PNG")
    return buffer.getvalue()


def array_sum(array: bytes) -> str:
    """The checksum that the cache keeps of an array in an ``.npy`` file, where it can be read as such."""
    from noiseproof.datasets.fingerprint import of_array

    try:
        return of_array(np.lib.format.read_array(io.BytesIO(array), allow_pickle=False))
    except Exception:  # the reader under test is to say what is wrong with it
        return "?"


def as_json(value: object) -> bytes:
    """JSON text as bytes."""
    return json.dumps(value, ensure_ascii=False).encode()
