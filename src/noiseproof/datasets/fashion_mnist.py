# SPDX-License-Identifier: Apache-2.0
"""Fashion-MNIST: 70,000 grey images of clothes, 28×28, 10 classes (H. Xiao, K. Rasul, R. Vollgraf, 2017).

The four IDX files are taken, in this order, from ``--from FOLDER``, from Debian's package
``dataset-fashion-mnist`` where it is installed, or from the official address. However they come, compressed
or not, their content must have the official checksums. (Debian compresses the files anew, so the ``.gz``
files differ from the official ones; what is inside them does not, and that is what is checked.)
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import cache, download, idx
from noiseproof.datasets.errors import BadFileError, UnavailableError
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, SplitFacts, register

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"


@dataclass(frozen=True)
class IdxFile:
    """One of the four files: its name without ``.gz``, its content's shape and md5, and its download."""

    name: str
    array: str
    shape: tuple[int, ...]
    content_md5: str
    compressed_size: int
    compressed_md5: str

    @property
    def remote(self) -> download.Remote:
        """The file at the official address."""
        return download.Remote(f"{ADDRESS}/{self.name}.gz", self.compressed_size, "md5", self.compressed_md5)


OFFICIAL = (
    IdxFile(
        name="train-images-idx3-ubyte",
        array="train_images",
        shape=(60_000, 28, 28),
        content_md5="f4a8712d7a061bf5bd6d2ca38dc4d50a",
        compressed_size=26_421_880,
        compressed_md5="8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    ),
    IdxFile(
        name="train-labels-idx1-ubyte",
        array="train_labels",
        shape=(60_000,),
        content_md5="9018921c3c673c538a1fc5bad174d6f9",
        compressed_size=29_515,
        compressed_md5="25c81989df183df01b3e8a0aad5dffbe",
    ),
    IdxFile(
        name="t10k-images-idx3-ubyte",
        array="test_images",
        shape=(10_000, 28, 28),
        content_md5="8181f5470baa50b63fa0f6fddb340f0a",
        compressed_size=4_422_102,
        compressed_md5="bef4ecab320f06d8554ea6380940ec79",
    ),
    IdxFile(
        name="t10k-labels-idx1-ubyte",
        array="test_labels",
        shape=(10_000,),
        content_md5="15d484375f8d13e6eb1aabb0c3f46965",
        compressed_size=5_148,
        compressed_md5="bb300cfdad3c16e7a12a480ee83cd310",
    ),
)

WHERE = (
    f"From {ADDRESS}, or Debian's package dataset-fashion-mnist where installed, or --from a folder with the "
    "four files (train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, "
    "t10k-labels-idx1-ubyte.gz; compressed or not)."
)


def prepare(origin: Path | None, folder: Path, *, files: Sequence[IdxFile] = OFFICIAL) -> None:
    """Fill the cache from a folder, from Debian's package, or from the official address."""
    if origin is None and DEBIAN_FOLDER.is_dir():
        origin = DEBIAN_FOLDER
    with cache.replacing(folder) as new:
        paths = _download(files, folder) if origin is None else _find(files, origin)
        arrays = {file.array: _read_checked(path, file) for file, path in zip(files, paths, strict=True)}
        for name in ("train_images", "test_images"):
            arrays[name] = arrays[name][..., np.newaxis]
        cache.write(new, arrays, source=ADDRESS if origin is None else str(origin))
    if origin is None:
        download.discard(cache.downloads_of(folder))


def _find(files: Sequence[IdxFile], folder: Path) -> list[Path]:
    paths = []
    for file in files:
        candidates = (folder / f"{file.name}.gz", folder / file.name)
        present = [path for path in candidates if path.is_file()]
        if not present:
            raise BadFileError(folder, f"the file {file.name}.gz (or {file.name})", "neither", WHERE)
        paths.append(present[0])
    return paths


def _download(files: Sequence[IdxFile], folder: Path) -> list[Path]:
    try:
        return [download.fetch(file.remote, cache.downloads_of(folder)) for file in files]
    except UnavailableError as error:
        raise UnavailableError(f"{error}\nOther ways: {WHERE}") from error


def _read_checked(path: Path, file: IdxFile) -> NDArray[np.uint8]:
    array = idx.read(path, file.shape)
    header = bytes([0, 0, 8, len(file.shape)]) + np.array(file.shape, dtype=">u4").tobytes()
    found = hashlib.md5(header + array.tobytes(), usedforsecurity=False).hexdigest()
    if found != file.content_md5:
        raise BadFileError(
            path, f"content with md5 {file.content_md5}", f"md5 {found}", "this is not the official file"
        )
    return array


def read(folder: Path, split: str) -> LabeledData:
    """Return one split from the cache."""
    return LabeledData(
        name="fashion-mnist",
        split=split,
        labels=cache.read_array(folder, f"{split}_labels").astype(np.int64),
        class_names=CLASS_NAMES,
        images=cache.read_array(folder, f"{split}_images"),
    )


SOURCE = register(
    Source(
        name="fashion-mnist",
        description="70,000 grey images of clothes of 28×28 pixels, 10 classes",
        splits=("train", "test"),
        form="arrays, memory-mapped",
        where=WHERE,
        prepare=prepare,
        read=read,
        licence="MIT",
        facts=(SplitFacts("train", 60_000, (28, 28, 1)), SplitFacts("test", 10_000, (28, 28, 1))),
    )
)
