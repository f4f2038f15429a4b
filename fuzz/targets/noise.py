# SPDX-License-Identifier: Apache-2.0
"""Readers of noise in files: records, plain labels, masks, what people gave."""

import contextlib
from pathlib import Path

import numpy as np

import wrapping
from targets.target import Target, written
from targets.truth import CLEAN, CLEAN_MASKS, NAMES


def _noise(content: bytes, folder: Path) -> object:
    from noiseproof.noise import NoisyLabels

    return NoisyLabels.load(written(folder, "noise.npz", _noise_file(content)), clean=CLEAN)


def _noise_file(content: bytes) -> bytes:
    if content.startswith(b"PK"):
        return content
    description, *arrays = content.split(wrapping.SEPARATOR)
    names = ("labels.npy", "outside.npy", "answers.npy", "more.npy")
    if arrays:
        stated = wrapping.labels_fingerprint(arrays[0]).encode()
        description = description.replace(b"$LABELS", stated)
    entries = {"description.npy": wrapping.as_npy(description)}
    return wrapping.zipped(entries | dict(zip(names, arrays, strict=False)))


def _noise_array(content: bytes, folder: Path) -> object:
    from noiseproof.noise import read_labels

    if content.startswith(b"\x93"):
        return read_labels(written(folder, "labels.npy", content), CLEAN, 3, NAMES)
    found = read_labels(written(folder, "labels.npz", _noise_file(content)), CLEAN, 3, NAMES)
    return found.counts, found.transition, repr(found)


def _noise_text(content: bytes, folder: Path) -> object:
    from noiseproof.noise import read_labels

    ending, text = (".csv", content[1:]) if content[:1] == b"c" else (".txt", content)
    found = read_labels(written(folder, f"labels{ending}", text), CLEAN, 3, NAMES)
    if found.labels.shape != CLEAN.shape or not 0 <= found.labels.min() <= found.labels.max() < 3:
        raise AssertionError(f"labels {found.labels}")
    return found.counts


def _noise_masks(content: bytes, folder: Path) -> object:
    from noiseproof.noise import read_masks

    packed = content
    if not content.startswith(b"PK"):
        description, *arrays = content.split(wrapping.SEPARATOR)
        description = description.replace(b"$MASKS", wrapping.masks_fingerprint(CLEAN_MASKS).encode())
        names = ("bits.npy", "kinds.npy", "more.npy")
        entries = {"description.npy": wrapping.as_npy(description)}
        packed = wrapping.zipped(entries | dict(zip(names, arrays, strict=False)))
    found = read_masks(written(folder, "masks.npz", packed), CLEAN_MASKS)
    if found.masks.dtype != CLEAN_MASKS.dtype or not set(np.unique(found.masks)) <= {0, 1}:
        raise AssertionError(f"masks {found.masks.dtype} with {np.unique(found.masks)}")
    return found.differences, found.area_ratios, repr(found)


def _human(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import human_label_files
    from noiseproof.noise import human

    packed = content if content.startswith(b"PK") else wrapping.torch_archive(content)
    path = written(folder, "labels.pt", packed)
    with contextlib.suppress(human_label_files.BadFileError):
        human_label_files.read(path)
    return human.from_file(path, "worse_label", CLEAN)


TARGETS = (
    Target(
        "noise",
        _noise,
        ("noise/storage.py: read checked_array _arrays", "noise/record.py: load"),
        ("ValueError",),
    ),
    Target(
        "noise-array",
        _noise_array,
        ("noise/files.py: read_labels _ending _array _fitting _warn_of_another_order",),
        ("ValueError",),
    ),
    Target(
        "noise-text",
        _noise_text,
        (
            "noise/files.py: read_labels _ending _texts _column _as_labels _numbers _fitting "
            "_warn_of_another_order _cut",
        ),
        ("ValueError",),
    ),
    Target(
        "noise-masks",
        _noise_masks,
        (
            "noise/files.py: read_masks",
            "noise/masks.py: load",
            "noise/storage.py: read checked_array _arrays",
        ),
        ("ValueError",),
    ),
    Target(
        "human",
        _human,
        (
            "datasets/human_label_files.py",
            "noise/human.py: from_file from_arrays _read _labels",
            "torch_files.py",
        ),
        ("ValueError",),
    ),
)
