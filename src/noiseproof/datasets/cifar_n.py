# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10N and CIFAR-100N: the labels people gave to CIFAR's training images.

J. Wei, Z. Zhu, H. Cheng, T. Liu, G. Niu, Y. Liu: "Learning with noisy labels revisited", ICLR 2022;
CC BY-NC 4.0, so the files are fetched by the user and never come with this package.

The labels are given by position, so order is everything: the clean labels that each file carries must be
CIFAR's own, in CIFAR's order. The images are CIFAR's, from ``cifar10`` and ``cifar100`` in the same cache.
Where ``cifar100`` was read from strips, the 100 images of uncertain place are left out of ``cifar100n``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import cache, cifar10, cifar100, download, fingerprint, human_label_files, registry
from noiseproof.datasets.errors import BadFileError, DataError, NotInCacheError, UnavailableError
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import Source, SplitFacts, register

ADDRESS = "https://raw.githubusercontent.com/UCSC-REAL/cifar-10-100n/main/data"


@dataclass(frozen=True)
class LabelFile:
    """One official label file and what is known of it.

    Attributes:
        name: of the data set it makes.
        images: the data set whose images it labels.
        remote: the file at its official address.
        clean_key: the entry with CIFAR's own labels.
        clean_labels: fingerprint of those, in their order.
        default_key: the label set that :func:`noiseproof.datasets.load` gives.
        wrong_labels: how many labels of each set differ from the clean ones in the official file, by key.
        clean_of: label sets that are compared with another entry than ``clean_key``.
        num_classes: of each entry that is read, by key.
        count: how many labels each entry has.
        may_lack_images: the images may have been read in a form that leaves some of their places uncertain.
    """

    name: str
    images: Source
    remote: download.Remote
    clean_key: str
    clean_labels: str
    default_key: str
    wrong_labels: Mapping[str, int]
    clean_of: Mapping[str, str]
    num_classes: Mapping[str, int]
    count: int = 50_000
    may_lack_images: bool = False

    @property
    def where(self) -> str:
        """Where the file comes from, in plain words."""
        return (
            f"From {self.remote.url}, or --from the file {self.remote.name} or the folder that contains it. "
            f"The images are those of {self.images.name}: noiseproof data get {self.images.name}."
        )


CIFAR10N = LabelFile(
    name="cifar10n",
    images=cifar10.SOURCE,
    remote=download.Remote(
        f"{ADDRESS}/CIFAR-10_human.pt",
        size=2_401_007,
        algorithm="sha256",
        checksum="873e69c39cb9b5e97fb6bae2d60bb59b38a5cbc31d2b868f7903dcb2b9dd2310",
    ),
    clean_key="clean_label",
    clean_labels=cifar10.TRAIN_LABELS_FINGERPRINT,
    default_key="worse_label",
    wrong_labels={
        "aggre_label": 4_505,
        "random_label1": 8_617,
        "random_label2": 9_061,
        "random_label3": 8_820,
        "worse_label": 20_104,
    },
    clean_of={},
    num_classes=dict.fromkeys(
        ("clean_label", "aggre_label", "random_label1", "random_label2", "random_label3", "worse_label"), 10
    ),
)
CIFAR100N = LabelFile(
    name="cifar100n",
    images=cifar100.SOURCE,
    remote=download.Remote(
        f"{ADDRESS}/CIFAR-100_human.pt",
        size=1_000_959,
        algorithm="sha256",
        checksum="bd2d80409754d420292d622e15e25248ba21e37d27429efac49c8da723f44394",
    ),
    clean_key="clean_label",
    clean_labels=cifar100.OFFICIAL[0].labels,
    default_key="noisy_label",
    wrong_labels={"noisy_label": 20_100, "noisy_coarse_label": 13_202},
    clean_of={"noisy_coarse_label": "clean_coarse_label"},
    num_classes={"clean_label": 100, "noisy_label": 100, "clean_coarse_label": 20, "noisy_coarse_label": 20},
    may_lack_images=True,
)


@dataclass(frozen=True, eq=False)
class HumanLabels:
    """One set of labels people gave, for the training images in their official order.

    Attributes:
        key: the set's name in the official file.
        labels: what people said, int64 of shape (N,).
        clean: CIFAR's own labels, int64 of shape (N,).
    """

    key: str
    labels: NDArray[np.int64]
    clean: NDArray[np.int64]

    @property
    def noise_rate(self) -> float:
        """The share of labels that are not CIFAR's own."""
        return float(np.mean(self.labels != self.clean))


def human_labels(name: str, key: str | None = None, *, root: Path | str | None = None) -> HumanLabels:
    """Return one of the label sets of ``cifar10n`` or ``cifar100n`` from the cache.

    Args:
        name: ``"cifar10n"`` or ``"cifar100n"``.
        key: the set's name in the official file, such as ``"aggre_label"``; by default the paper's,
            ``"worse_label"`` or ``"noisy_label"``.
        root: the cache folder; by default ``NOISEPROOF_DATA``, else the platform's cache folder.
    """
    files = {CIFAR10N.name: CIFAR10N, CIFAR100N.name: CIFAR100N}
    if name not in files:
        raise DataError(f"human labels exist for {' and '.join(files)}, not {name!r}")
    file = files[name]
    chosen = key or file.default_key
    if chosen not in file.wrong_labels:
        raise DataError(f"{name} has the label sets {', '.join(file.wrong_labels)}, not {chosen!r}")
    return _cached_labels(file, registry.filled_folder(registry.find(name), root), chosen)


def _cached_labels(file: LabelFile, folder: Path, key: str) -> HumanLabels:
    return HumanLabels(
        key=key,
        labels=cache.read_array(folder, key).astype(np.int64),
        clean=cache.read_array(folder, file.clean_of.get(key, file.clean_key)).astype(np.int64),
    )


def prepare(file: LabelFile, origin: Path | None, folder: Path) -> None:
    """Fill the cache with the label sets of one official file, each checked."""
    with cache.replacing(folder) as new:
        path = _locate(file, origin, folder)
        sets = human_label_files.read(path)
        _check(file, path, sets)
        arrays = {key: sets[key].astype(np.uint8) for key in file.num_classes}
        cache.write(new, arrays, source=file.remote.url if origin is None else str(origin))
    if origin is None:
        download.discard(cache.downloads_of(folder))


def _locate(file: LabelFile, origin: Path | None, folder: Path) -> Path:
    if origin is None:
        try:
            return download.fetch(file.remote, cache.downloads_of(folder))
        except UnavailableError as error:
            raise UnavailableError(f"{error}\nOther ways: {file.where}") from error
    path = origin / file.remote.name if origin.is_dir() else origin
    if not path.is_file():
        raise BadFileError(origin, f"the file {file.remote.name} in it", "no such file", file.where)
    return path


def _check(file: LabelFile, path: Path, sets: Mapping[str, NDArray[np.int64]]) -> None:
    needed = ", ".join(file.num_classes)
    missing = [key for key in file.num_classes if key not in sets]
    if missing:
        raise BadFileError(path, f"the label sets {needed}", f"no {', '.join(missing)}", file.where)
    for key, num_classes in file.num_classes.items():
        if sets[key].shape != (file.count,):
            raise BadFileError(path, f"{file.count} labels in {key!r}", f"{len(sets[key])}")
        if sets[key].min() < 0 or sets[key].max() >= num_classes:
            found = f"{sets[key].min()}..{sets[key].max()}"
            raise BadFileError(path, f"labels in 0..{num_classes - 1} in {key!r}", found)
    if fingerprint.of_array(sets[file.clean_key]) != file.clean_labels:
        raise BadFileError(
            path,
            f"{file.images.name}'s own labels in their official order in {file.clean_key!r}",
            "others, so the labels would go to the wrong images",
            "use the official file",
        )
    for key, wrong in file.wrong_labels.items():
        found_wrong = int(np.sum(sets[key] != sets[file.clean_of.get(key, file.clean_key)]))
        if found_wrong != wrong:
            raise BadFileError(
                path, f"{wrong} wrong labels in {key!r}", f"{found_wrong}", "use the official file"
            )


def read(file: LabelFile, folder: Path, split: str) -> LabeledData:
    """Return CIFAR's images with the labels people gave them (the test images have only CIFAR's own)."""
    images_folder = folder.parent / file.images.name
    if not cache.is_filled(images_folder):
        raise NotInCacheError(
            f"{file.name} gives labels to the images of {file.images.name}, which is not in the cache "
            f"({images_folder}); get it with: noiseproof data get {file.images.name}\n{file.images.where}"
        )
    data = replace(file.images.read(images_folder, split), name=file.name)
    if split != "train":
        return data
    human = _cached_labels(file, folder, file.default_key)
    if not np.array_equal(human.clean, data.labels):
        raise BadFileError(
            images_folder, f"labels in the order of {file.name}", "another order", "download both again"
        )
    noisy = replace(data, labels=human.labels)
    if noisy.uncertain is None:
        return noisy
    return noisy.subset(np.setdiff1d(np.arange(len(noisy)), noisy.uncertain))


def _register(file: LabelFile, description: str) -> Source:
    return register(
        Source(
            name=file.name,
            description=description,
            splits=file.images.splits,
            form="labels as arrays; images shared with " + file.images.name,
            where=file.where,
            prepare=lambda origin, folder: prepare(file, origin, folder),
            read=lambda folder, split: read(file, folder, split),
            licence="CC BY-NC 4.0",
            facts=tuple(
                SplitFacts(facts.split, facts.count, facts.image_shape)
                for facts in file.images.facts
                if facts.split == "test" or not file.may_lack_images
            ),
        )
    )


_register(CIFAR10N, "CIFAR-10 with the labels people gave its training images, 40.21% of them wrong")
_register(CIFAR100N, "CIFAR-100 with the labels people gave its training images, 40.20% of them wrong")
