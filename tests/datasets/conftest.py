# SPDX-License-Identifier: Apache-2.0
"""What the tests of the data room share: where real files may lie, and writers of the official formats."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the shared data folder is not beside this checkout")
    return folder


class Python2Pickler:
    """Writes what Python 2's cPickle (protocol 2) wrote for the official CIFAR files.

    The small ``batches.meta`` and ``meta`` files come out with their official md5, which shows the layout
    right.
    """

    def __init__(self) -> None:
        self.program = bytearray(b"\x80\x02")
        self.memo_size = 0

    def dump(self, value: Any) -> bytes:
        self.save(value)
        return bytes(self.program + b".")

    def remember(self) -> None:
        self.memo_size += 1
        if self.memo_size < 256:
            self.program += b"q" + bytes([self.memo_size])
        else:
            self.program += b"r" + struct.pack("<I", self.memo_size)

    def save(self, value: Any) -> None:
        if isinstance(value, str):
            self.save_text(value.encode())
        elif isinstance(value, int):
            self.save_int(value)
        elif isinstance(value, list):
            self.program += b"]"
            self.remember()
            for start in range(0, len(value), 1000):
                self.program += b"("
                for item in value[start : start + 1000]:
                    self.save(item)
                self.program += b"e"
        elif isinstance(value, dict):
            self.program += b"}"
            self.remember()
            self.program += b"("
            for key, item in value.items():
                self.save(key)
                self.save(item)
            self.program += b"u"
        elif isinstance(value, np.ndarray):
            self.save_array(value)
        else:
            raise TypeError(type(value))

    def save_text(self, raw: bytes) -> None:
        short = len(raw) < 256
        self.program += (b"U" + bytes([len(raw)]) if short else b"T" + struct.pack("<i", len(raw))) + raw
        self.remember()

    def save_int(self, value: int) -> None:
        if 0 <= value < 256:
            self.program += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self.program += b"M" + struct.pack("<H", value)
        else:
            self.program += b"J" + struct.pack("<i", value)

    def save_array(self, array: np.ndarray) -> None:
        self.program += b"cnumpy.core.multiarray\n_reconstruct\n"
        self.remember()
        self.program += b"cnumpy\nndarray\n"
        self.remember()
        self.program += b"K\x00\x85U\x01b\x87R"
        self.remember()
        self.program += b"(K\x01"
        for size in array.shape:
            self.save_int(size)
        self.program += {1: b"\x85", 2: b"\x86", 3: b"\x87"}[array.ndim] + b"cnumpy\ndtype\n"
        self.remember()
        self.program += b"U\x02u1K\x00K\x01\x87R"
        self.remember()
        self.program += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        self.save_text(array.tobytes())
        self.program += b"tb"


@pytest.fixture(scope="session")
def python2_pickle() -> Callable[[Any], bytes]:
    return lambda value: Python2Pickler().dump(value)


@pytest.fixture
def make_rows() -> Callable[..., Any]:
    """Give random rows of CIFAR: labels (N, label bytes) and images (N, 32, 32, 3)."""
    from noiseproof.datasets.cifar_files import Rows

    def make(count: int, seed: int, *, coarse_of: tuple[int, ...] | None = None) -> Rows:
        random = np.random.RandomState(seed)
        fine = random.randint(0, 10 if coarse_of is None else 100, count).astype(np.uint8)
        labels = [fine] if coarse_of is None else [np.array(coarse_of, dtype=np.uint8)[fine], fine]
        images = random.randint(0, 256, (count, 32, 32, 3)).astype(np.uint8)
        return Rows(np.stack(labels, axis=1), images)

    return make
