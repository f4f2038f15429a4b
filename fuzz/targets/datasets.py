# SPDX-License-Identifier: Apache-2.0
"""Readers of data sets: the package's own, the user's, and what is kept of them."""

from pathlib import Path

import numpy as np

import wrapping
from targets.target import Target, written


def _cifar_pickle(content: bytes, folder: Path) -> object:
    from noiseproof.datasets.cifar_files import read_python

    return read_python(written(folder, "data_batch_1", content), 1, ("labels",))


def _idx(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import idx

    if content[:2] == b"\x1f\x8b":
        return idx.read(written(folder, "raw.gz", content), (2, 3, 3))
    packed = written(folder, "packed.gz", wrapping.gzipped(content))
    try:
        idx.read(packed, (2, 3, 3))
    finally:
        idx.read(written(folder, "plain", content), (2, 3, 3))
    return None


def _archive(content: bytes, folder: Path) -> object:
    import shutil

    from noiseproof.datasets.archives import unpack

    into = folder / "unpacked"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    packed = content if content[:2] == b"\x1f\x8b" else wrapping.gzipped(content)
    archive = written(folder, "a.tar.gz", packed)
    try:
        return unpack(archive, {"a.bin", "b.bin"}, into, most_members=20, most_bytes=1 << 20)
    finally:
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        strange = found - {"a.tar.gz", "unpacked", "unpacked/a.bin", "unpacked/b.bin"}
        if strange or any(path.is_symlink() for path in into.iterdir()):
            raise AssertionError(f"the archive wrote {strange} or a link")


def _sheet(content: bytes, folder: Path) -> object:
    from noiseproof.datasets.cifar_files import read_strip

    return read_strip(written(folder, "strip.png", wrapping.with_right_checksums(content)), 1)


def _binary(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import animal10n, cifar10, cifar_files

    kind, rest = content[:1], content[1:]
    path = folder / "data_batch_1.bin"
    if kind == b"j":
        return cifar10.read_sheet_labels(written(folder, "labels.json", rest), 4)
    # Labels, pixels that nobody fuzzes, and what stands behind them.
    if kind == b"a":
        return animal10n._read_binary(written(folder, path.name, rest[:8].ljust(12_296, b"x") + rest[8:]))
    rows = cifar_files.read_binary(written(folder, path.name, rest[:1].ljust(3_073, b"x") + rest[1:]), 1, 1)
    return cifar_files.check_range(path, rows.labels[:, 0], 10)


def _picture(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import decode

    decode.MAX_PIXELS = 1 << 20  # time goes into readers, not into pixels
    path = written(folder, "picture.jpg", wrapping.with_right_checksums(content))
    random = np.random.default_rng(0)
    fit: decode.Fit = decode.CentreAfterResize(12, 8) if len(content) % 2 else decode.RandomWindow(8)
    try:
        decode.decode_mask(path)
    except decode.BadFileError:
        if decode.image_size(path)[0] < 1:
            raise AssertionError("a picture without pixels") from None
    pixels = fit.read(path, random)
    if pixels.shape != fit.shape or pixels.dtype != np.uint8:
        raise AssertionError(f"{pixels.dtype} of shape {pixels.shape}")
    return pixels


def _csv(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import csv_file

    for name in ("1.png", "2.jpg"):
        (folder / name).touch()
    return csv_file.read(written(folder, "list.csv", content), "train")


def _file_list(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import file_lists

    return list(file_lists.read_labelled_lines(written(folder, "list.txt", content), 14))


def _mask_folder(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import decode, folders

    decode.MAX_PIXELS = 1 << 16
    (folder / "images").mkdir(exist_ok=True)
    (folder / "masks").mkdir(exist_ok=True)
    mask, _, classes = content.partition(wrapping.SEPARATOR)
    written(folder, "classes.txt", classes)
    written(folder / "images", "1.png", wrapping.picture((4, 3)))
    written(folder / "masks", "1.png", wrapping.with_right_checksums(mask))
    found = folders.read(folder, "train")
    if found.masks is None or found.masks.shape != (1, 3, 4):
        raise AssertionError("masks of another shape")
    beyond = set(np.unique(found.masks)) - {*range(len(found.class_names)), folders.VOID}
    if beyond:
        raise AssertionError(f"levels {beyond} beyond {len(found.class_names)} classes")
    return found


def _own_data(content: bytes, folder: Path) -> object:
    from noiseproof.training.config import inputs_of

    path = written(folder, "list.csv", content)
    return inputs_of(f"csv:{path}", str(path), f"file:{path}")


def _split(content: bytes, folder: Path) -> object:
    from noiseproof.datasets.splits import load_split
    from noiseproof.training.examples import load_examples

    first = content[:1]
    if content.startswith(b"PK"):
        return load_split(written(folder, "split.npz", content))
    names = (
        ("kind", "index", "images", "true", "given", "predicted", "dice")
        if first == b"e"
        else ("format_version", "train", "validation", "fingerprint", "seed")
    )
    parts = map(wrapping.as_npy, content[1:].split(wrapping.SEPARATOR))
    entries = {f"{name}.npy": part for name, part in zip(names, parts, strict=False)}
    path = written(folder, "split.npz", wrapping.zipped(entries))
    return load_examples(path) if first == b"e" else load_split(path)


def _cache(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import cache, file_lists

    manifest, _, array = content.partition(wrapping.SEPARATOR)
    files = wrapping.npy(np.frombuffer(b"1.png\n2.jpg", dtype=np.uint8))
    stated = {
        b"$ROOT": str(folder),
        b"$LABELS": wrapping.array_sum(array),
        b"$FILES": wrapping.array_sum(files),
    }
    for word, value in stated.items():
        manifest = manifest.replace(word, value.encode())
    written(folder, "manifest.json", manifest)
    written(folder, "train_labels.npy", array)
    written(folder, "train_files.npy", files)
    cache.read_array(folder, "train_labels")
    return file_lists.read(folder, "mine", "train")


_DATA = ("BadFileError", "DataError", "NoSuchSplitError")
TARGETS = (
    Target(
        "cifar-pickle",
        _cifar_pickle,
        ("datasets/pickle_reader.py", "datasets/cifar_files.py: read_python byte_labels _from_planes"),
    ),
    Target("idx", _idx, ("datasets/idx.py",)),
    Target("archive", _archive, ("datasets/archives.py",)),
    Target("sheet", _sheet, ("datasets/cifar_files.py: read_strip _decode",)),
    Target(
        "binary",
        _binary,
        (
            "datasets/cifar_files.py: read_binary byte_labels check_range",
            "datasets/animal10n.py: _read_binary",
            "datasets/cifar10.py: read_sheet_labels",
        ),
    ),
    Target(
        "picture",
        _picture,
        ("datasets/decode.py: decode_rgb image_size decode_mask opened _refuse_by_header _to_rgb _swap",),
    ),
    Target("csv", _csv, ("datasets/csv_file.py: _read_rows _check_row _classes",), _DATA),
    Target(
        "file-list",
        _file_list,
        ("datasets/file_lists.py: read_lines read_labelled_lines safe_relative",),
        _DATA,
    ),
    Target(
        "mask-folder",
        _mask_folder,
        ("datasets/folders.py: _read_segmentation _listed_classes _classes_of_indices _levels_of",),
        _DATA,
    ),
    Target(
        "own-data",
        _own_data,
        ("datasets/identity.py: identity_of identity_of_file _sizes_of_listed _digest",),
        (),
    ),
    Target(
        "split",
        _split,
        ("datasets/npz_file.py", "datasets/splits.py: load_split", "training/examples.py: load_examples"),
    ),
    Target(
        "cache",
        _cache,
        ("datasets/cache.py: manifest_of _is_described read_array", "datasets/file_lists.py: read"),
        (*_DATA, "ValueError"),
    ),
)
