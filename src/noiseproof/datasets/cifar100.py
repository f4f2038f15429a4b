# SPDX-License-Identifier: Apache-2.0
"""CIFAR-100: 60,000 colour images of 32×32, 100 classes in 20 super-classes (A. Krizhevsky, 2009).

The images come from the official archive, from official files at hand (binary or Python version), or from
lossless strips: ``train_000.webp`` and on, 500 images one below the other, with ``labels.npz``.

The strips lack one thing: within the classes beaver, shrew and skunk the official order of 100 training and
23 test images is not certain. Their labels are right and every image is there, but labels that another file
gives by position (CIFAR-100N) may belong to a neighbour. So a set read from strips lists those samples as
``uncertain``.

The official files are known by their md5 (of the archive, of the pickle, of the binary file) and taken as
they are. Anything else is compared with what is known of them: all labels in their order, every certain
image in its place, and the uncertain ones as a set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import archives, cache, download, fingerprint, npz_file
from noiseproof.datasets.cifar100_classes import CLASS_NAMES, FINE_TO_COARSE
from noiseproof.datasets.cifar_files import Rows, check_range, read_binary, read_python, read_strip
from noiseproof.datasets.errors import BadFileError, UnavailableError
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, SplitFacts, register

ARCHIVE = download.Remote(
    "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",  # in the order CIFAR-100N goes by
    size=169_001_437,
    algorithm="md5",
    checksum="eb9058c3a382ffc7106e4002c42a8d85",
)
BINARY_ARCHIVE_MD5 = "03b5dce01913d631647c71ecec9e9cb8"
LABEL_KEYS = ("coarse_labels", "fine_labels")
SUB_FOLDERS = ("", "cifar-100-binary", "cifar-100-python")
ARCHIVE_NAMES = ("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz")
STRIP_LABELS = "labels.npz"
STRIP_IMAGES = 500
MOST_LABEL_BYTES = 1 << 24


@dataclass(frozen=True)
class Batch:
    """One of the two official files and what is known of it.

    Attributes:
        name: of the file; also of the split.
        count: how many images.
        labels: fingerprint of the fine labels (int64) in their order.
        certain_images: fingerprint of the images whose place is certain, in their order.
        uncertain_images: one fingerprint of the others, whatever their order.
        uncertain: where those stand.
        pickle_md5, binary_md5: of the official files; either tells that the order is the official one.
    """

    name: str
    count: int
    labels: str
    certain_images: str
    uncertain_images: str
    uncertain: tuple[int, ...]
    pickle_md5: str
    binary_md5: str


# fmt: off
OFFICIAL = (
    Batch(
        name="train",
        count=50_000,
        labels="406aefee0ffaa48685f428c3712f97cc629b2781047ff14c3f22f0ca0e3aef9a",
        certain_images="ea3008bf52bacdc99ab3ed9d60f239c98f0fa9aca099b2001c03795cbcb00b1e",
        uncertain_images="0db169a655fb3afffbec464b98658269502a255edaec2b04de6f23f738ce27c0",
        uncertain=(
            96, 389, 1045, 3142, 3213, 3428, 3875, 4813, 5519, 5583, 7682, 7906, 9218, 9609, 9856, 10243,
            10416, 10863, 11091, 12645, 12935, 13330, 14058, 14436, 14691, 14702, 15154, 15204, 15871,
            16403, 16664, 17148, 17261, 18869, 19118, 19693, 19801, 20039, 20620, 20691, 20931, 21250,
            21759, 21850, 22450, 22647, 23222, 23505, 24239, 25876, 26737, 27144, 27445, 27514, 27784,
            27884, 28116, 28817, 29288, 29627, 29688, 30274, 30665, 30730, 31487, 32118, 34109, 34158,
            34316, 34979, 35359, 36098, 36470, 36676, 36976, 37294, 37406, 37419, 37616, 38177, 38587,
            39269, 39635, 39709, 40659, 40917, 43786, 44235, 44872, 45610, 45798, 46430, 46613, 46744,
            46803, 47596, 47757, 48279, 48979, 49850,
        ),
        pickle_md5="16019d7e3df5f24257cddd939b257f8d",
        binary_md5="6172c7755cfe09b2fe270c85cebc1b15",
    ),
    Batch(
        name="test",
        count=10_000,
        labels="9691d4be42114edce4d0fa6ad6e8af0a113010aa8655c89cd355914b627309bc",
        certain_images="32529a9c631e4b4be4157cde25442fc24fef76f4f912e7e8c8b851ebcd05651c",
        uncertain_images="b1f45a82108bb5564aa164886c929999fe98a967dcce09b51b55ef292c8f4cdd",
        uncertain=(
            97, 607, 821, 1092, 2180, 3075, 4126, 4177, 4412, 4554, 4626, 4860, 6067, 6109, 6201, 7468, 7618,
            7620, 7966, 9283, 9373, 9679, 9966,
        ),
        pickle_md5="f0ef6b0ae62326f3e7ffdfab6717acfc",
        binary_md5="4499cfba6c016c1be1438163640a0898",
    ),
)
# fmt: on

WHERE = (
    f"From {ARCHIVE.url}, or --from a folder with train.bin and test.bin (binary version), train and test "
    "(Python version) or train_000.webp ... with labels.npz (lossless strips), or --from one of the archives "
    f"{', '.join(ARCHIVE_NAMES)}."
)


def prepare(
    origin: Path | None,
    folder: Path,
    *,
    batches: Sequence[Batch] = OFFICIAL,
    archive: download.Remote = ARCHIVE,
) -> None:
    """Fill the cache from files at hand or from the official archive."""
    with cache.replacing(folder) as new, cache.scratch(folder) as scratch:
        found = origin if origin is not None else _download(archive, folder)
        files, is_official_archive = _unpacked(found, batches, scratch, archive)
        arrays: dict[str, NDArray[np.generic]] = {}
        for batch in batches:
            rows, path = _read_rows(files, batch, found)
            _check_labels(rows, path)
            is_official = is_official_archive or _is_official(rows, path, batch)
            if not is_official:
                _compare(rows, path, batch)
            arrays[f"{batch.name}_images"] = rows.images
            arrays[f"{batch.name}_coarse_labels"] = rows.labels[:, 0]
            arrays[f"{batch.name}_labels"] = rows.labels[:, 1]
            arrays[f"{batch.name}_uncertain"] = np.array(
                () if is_official else batch.uncertain, dtype=np.int64
            )
        cache.write(new, arrays, source=archive.url if origin is None else str(origin))
    if origin is None:
        download.discard(cache.downloads_of(folder))


def _download(archive: download.Remote, folder: Path) -> Path:
    try:
        return download.fetch(archive, cache.downloads_of(folder))
    except UnavailableError as error:
        raise UnavailableError(f"{error}\nOther ways: {WHERE}") from error


def _unpacked(
    found: Path, batches: Sequence[Batch], scratch: Path, archive: download.Remote
) -> tuple[Path, bool]:
    """Return the folder the files lie in, unpacking an archive first, and whether it was an official one."""
    if found.is_dir():
        for sub_folder in SUB_FOLDERS:
            files = found / sub_folder
            names = (f"{batches[0].name}.bin", batches[0].name, STRIP_LABELS)
            if any((files / name).is_file() for name in names):
                return files, False
        inside = [found / name for name in ARCHIVE_NAMES if (found / name).is_file()]
        if not inside:
            raise BadFileError(found, f"train.bin, train or {STRIP_LABELS}", "none of them", WHERE)
        found = inside[0]
    wanted = {f"{batch.name}{end}" for batch in batches for end in (".bin", "")}
    archives.unpack(found, wanted, scratch)
    return scratch, fingerprint.of_file(found, "md5") in (archive.checksum, BINARY_ARCHIVE_MD5)


def _read_rows(files: Path, batch: Batch, found: Path) -> tuple[Rows, Path]:
    """Return the rows of one split and the file (or folder, for strips) they came from."""
    binary, pickled = files / f"{batch.name}.bin", files / batch.name
    if binary.is_file():
        return read_binary(binary, batch.count, label_bytes=2), binary
    if pickled.is_file():
        return read_python(pickled, batch.count, LABEL_KEYS), pickled
    if (files / STRIP_LABELS).is_file():
        return _read_strips(files, batch), files
    raise BadFileError(found, f"{binary.name}, {pickled.name} or strips", "none of them", WHERE)


def _read_strips(files: Path, batch: Batch) -> Rows:
    path = files / STRIP_LABELS
    expected = f"an .npz file with {batch.name}_y and class_names"
    labels = npz_file.read(path, MOST_LABEL_BYTES, expected)
    if not {f"{batch.name}_y", "class_names"} <= labels.keys():
        raise BadFileError(path, expected, ", ".join(sorted(labels)) or "nothing")
    fine = labels[f"{batch.name}_y"]
    if tuple(np.ravel(labels["class_names"]).tolist()) != CLASS_NAMES:
        raise BadFileError(path, "CIFAR-100's 100 class names in their order", "others")
    if fine.shape != (batch.count,) or fine.dtype != np.uint8:
        raise BadFileError(path, f"{batch.count} labels of uint8", f"{fine.dtype} of shape {fine.shape}")
    check_range(path, fine, len(CLASS_NAMES))
    strips = [
        read_strip(
            files / f"{batch.name}_{start // STRIP_IMAGES:03d}.webp", min(STRIP_IMAGES, batch.count - start)
        )
        for start in range(0, batch.count, STRIP_IMAGES)
    ]
    coarse = np.array(FINE_TO_COARSE, dtype=np.uint8)[fine]
    return Rows(np.stack([coarse, fine], axis=1), np.concatenate(strips))


def _is_official(rows: Rows, path: Path, batch: Batch) -> bool:
    if path.is_file() and fingerprint.of_file(path, "md5") == batch.pickle_md5:
        return True
    return rows.checksum("md5") == batch.binary_md5


def _check_labels(rows: Rows, path: Path) -> None:
    coarse, fine = rows.labels[:, 0], rows.labels[:, 1]
    check_range(path, fine, len(CLASS_NAMES))
    if not np.array_equal(coarse, np.array(FINE_TO_COARSE, dtype=np.uint8)[fine]):
        raise BadFileError(path, "each fine label within its super-class", "labels that disagree")


def _compare(rows: Rows, path: Path, batch: Batch) -> None:
    is_certain = np.ones(batch.count, dtype=bool)
    is_certain[list(batch.uncertain)] = False
    compared = {
        "labels": (batch.labels, fingerprint.of_array(rows.labels[:, 1].astype(np.int64))),
        "images": (batch.certain_images, fingerprint.of_array(rows.images[is_certain])),
        "images of uncertain order": (batch.uncertain_images, set_fingerprint(rows.images[~is_certain])),
    }
    for what, (expected, found) in compared.items():
        if expected != found:
            raise BadFileError(
                path,
                f"the official {what} of {batch.name} (fingerprint {expected})",
                f"others ({found})",
                "this is not the official set, or not in its order",
            )


def set_fingerprint(images: NDArray[np.uint8]) -> str:
    """Return one fingerprint of some images whatever their order.

    Example:
        >>> images = np.arange(8, dtype=np.uint8).reshape(4, 2)
        >>> set_fingerprint(images) == set_fingerprint(images[::-1])
        True
    """
    return fingerprint.of_parts(*sorted(fingerprint.of_array(image) for image in images))


def read(folder: Path, split: str) -> LabeledData:
    """Return one split from the cache."""
    uncertain = np.array(cache.read_array(folder, f"{split}_uncertain"))
    return LabeledData(
        name="cifar100",
        split=split,
        labels=cache.read_array(folder, f"{split}_labels").astype(np.int64),
        class_names=CLASS_NAMES,
        images=cache.read_array(folder, f"{split}_images"),
        coarse_labels=cache.read_array(folder, f"{split}_coarse_labels").astype(np.int64),
        uncertain=uncertain if len(uncertain) else None,
    )


SOURCE = register(
    Source(
        name="cifar100",
        description="60,000 colour images of 32×32 pixels, 100 classes in 20 super-classes",
        splits=("train", "test"),
        form="arrays, memory-mapped",
        where=WHERE,
        prepare=prepare,
        read=read,
        facts=tuple(SplitFacts(batch.name, batch.count, (32, 32, 3), batch.labels) for batch in OFFICIAL),
    )
)
