# SPDX-License-Identifier: Apache-2.0
"""The human labels: the real files where they are at hand, and files that are wrong in some way."""

import os
import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from noiseproof import datasets
from noiseproof.datasets import (
    BadFileError,
    DataError,
    NotInCacheError,
    UnavailableError,
    cache,
    cifar10,
    cifar_n,
    download,
    fingerprint,
    human_label_files,
)

COUNT = 20


@pytest.fixture
def file() -> cifar_n.LabelFile:
    """What would be known of a file with 20 labels."""
    return replace(
        cifar_n.CIFAR10N,
        count=COUNT,
        clean_labels=fingerprint.of_array(np.arange(COUNT) % 10),
        wrong_labels=dict.fromkeys(cifar_n.CIFAR10N.wrong_labels, 5),
    )


@pytest.fixture
def content() -> dict[str, Any]:
    """A file's content, in the official form: int64 arrays by key."""
    clean = np.arange(COUNT) % 10
    noisy = np.where(np.arange(COUNT) < 5, (clean + 1) % 10, clean)
    return {"clean_label": clean, **dict.fromkeys(cifar_n.CIFAR10N.wrong_labels, noisy)}


class OldNumpyPickler(pickle._Pickler):  # type: ignore[name-defined, misc]
    """Names NumPy's core as NumPy 1 did, as the official files do."""

    def save_global(self, value: Any, name: str | None = None) -> None:
        if getattr(value, "__module__", "") != "numpy._core.multiarray":
            super().save_global(value, name)
            return
        self.write(b"cnumpy.core.multiarray\n" + value.__name__.encode() + b"\n")
        self.memoize(value)


def write(folder: Path, content: object) -> Path:
    path = folder / "CIFAR-10_human.pt"
    torch.save(content, path, pickle_module=SimpleNamespace(__name__="old", Pickler=OldNumpyPickler))
    return path


def test_a_small_file(tmp_path: Path, file: cifar_n.LabelFile, content: dict[str, Any]) -> None:
    write(tmp_path, content)
    cifar_n.prepare(file, tmp_path, tmp_path / "cache")
    labels = cache.read_array(tmp_path / "cache", "worse_label")
    assert labels.tolist() == content["worse_label"].tolist()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("clean_label", np.arange(COUNT)[::-1] % 10, "own labels in their official order in 'clean_label'"),
        ("worse_label", np.arange(COUNT) % 10, "5 wrong labels in 'worse_label', found 0"),
        ("aggre_label", np.arange(COUNT), r"labels in 0\.\.9 in 'aggre_label', found 0\.\.19"),
        ("aggre_label", -np.arange(COUNT), r"found -19\.\.0"),
        ("random_label1", np.arange(COUNT - 1) % 10, "20 labels in 'random_label1', found 19"),
        ("random_label2", np.zeros((2, 2), dtype=np.int64), "a row of whole numbers, found int64"),
        ("random_label3", [0.5] * COUNT, "a row of whole numbers, found float64"),
        ("random_label3", [[1], [1, 2]], "a row of whole numbers"),
        ("random_label3", "text", "an array or a list, found str"),
        ("random_label3", None, "an array or a list, found NoneType"),
    ],
)
def test_a_wrong_file_is_named_and_the_cache_stays(
    tmp_path: Path, file: cifar_n.LabelFile, content: dict[str, Any], key: str, value: object, message: str
) -> None:
    path = write(tmp_path, content)
    cifar_n.prepare(file, path, tmp_path / "cache")
    before = cache.verify(tmp_path / "cache")
    write(tmp_path, {**content, key: value})
    with pytest.raises(BadFileError, match=f"CIFAR-10_human.pt: expected .*{message}"):
        cifar_n.prepare(file, path, tmp_path / "cache")
    assert cache.verify(tmp_path / "cache") == before


def test_a_missing_label_set(tmp_path: Path, file: cifar_n.LabelFile, content: dict[str, Any]) -> None:
    del content["worse_label"]
    with pytest.raises(BadFileError, match="found no worse_label"):
        cifar_n.prepare(file, write(tmp_path, content), tmp_path / "cache")


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("it-ran",)


def test_a_malicious_file_runs_nothing(
    tmp_path: Path, content: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadFileError, match=r"a file of label arrays, found one that names \S*mkdir"):
        human_label_files.read(write(tmp_path, {**content, "worse_label": Evil()}))
    assert not (tmp_path / "it-ran").exists()


def test_the_list_of_allowed_names_is_not_left_open(tmp_path: Path, content: dict[str, Any]) -> None:
    before = set(torch.serialization.get_safe_globals())  # a list in no certain order
    human_label_files.read(write(tmp_path, content))
    assert set(torch.serialization.get_safe_globals()) == before


def test_an_array_of_objects_is_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    path = write(tmp_path, {**content, "worse_label": np.array([{}] * COUNT, dtype=object)})
    with pytest.raises(BadFileError, match="CIFAR-10_human.pt"):
        human_label_files.read(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated(tmp_path: Path, content: dict[str, Any], share: float) -> None:
    path = write(tmp_path, content)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(BadFileError, match="CIFAR-10_human.pt: expected"):
        human_label_files.read(path)


@pytest.mark.parametrize("content", [[1, 2], np.arange(3), torch.zeros(3)])
def test_something_other_than_a_dictionary(tmp_path: Path, content: object) -> None:
    with pytest.raises(BadFileError, match="a dictionary of label arrays, found"):
        human_label_files.read(write(tmp_path, content))


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(human_label_files, "MOST_BYTES", 10)
    with pytest.raises(BadFileError, match="at most 10 bytes"):
        human_label_files.read(write(tmp_path, {}))


def test_a_folder_without_the_file(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"the file CIFAR-10_human.pt in it, found no such file"):
        cifar_n.prepare(cifar_n.CIFAR10N, tmp_path, tmp_path / "cache")


def test_offline_says_which_from_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(remote: download.Remote, _folder: Path) -> Path:
        raise UnavailableError(f"{remote.url} could not be downloaded: offline")

    monkeypatch.setattr(download, "fetch", offline)
    with pytest.raises(UnavailableError, match=r"offline\nOther ways: .*--from the file CIFAR-100_human.pt"):
        cifar_n.prepare(cifar_n.CIFAR100N, None, tmp_path / "cache")


def test_unknown_names_and_keys(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cifar10n and cifar100n, not 'digits'"):
        datasets.human_labels("digits")
    with pytest.raises(DataError, match="cifar10n has the label sets aggre_label, .* not 'worst'"):
        datasets.human_labels("cifar10n", "worst")
    with pytest.raises(NotInCacheError, match="noiseproof data get cifar10n"):
        datasets.human_labels("cifar10n", root=tmp_path)


@pytest.fixture(scope="module")
def real_root(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("real")
    datasets.get("cifar10n", source_folder=shared_data / "CIFAR-10_human.pt", root=root)
    return root


@pytest.mark.parametrize(
    ("key", "rate"),
    [
        (None, 0.40208),
        ("worse_label", 0.40208),
        ("aggre_label", 0.0901),
        ("random_label1", 0.17234),
        ("random_label2", 0.18122),
        ("random_label3", 0.1764),
    ],
)
def test_the_real_label_sets_of_cifar10n(real_root: Path, key: str | None, rate: float) -> None:
    human = datasets.human_labels("cifar10n", key, root=real_root)
    assert human.noise_rate == pytest.approx(rate, abs=1e-9)
    assert fingerprint.of_array(human.clean) == cifar10.TRAIN_LABELS_FINGERPRINT


def test_without_the_images_it_says_which_set_to_get(real_root: Path) -> None:
    with pytest.raises(NotInCacheError, match="noiseproof data get cifar10\n"):
        datasets.load("cifar10n", root=real_root)


def fill_images(root: Path, labels: np.ndarray) -> None:
    """Stand-ins for CIFAR-10's images, all black, with labels of one's own."""
    arrays = {f"{split}_images": np.zeros((len(labels), 32, 32, 3), np.uint8) for split in ("train", "test")}
    arrays |= {f"{split}_labels": labels.astype(np.uint8) for split in ("train", "test")}
    with cache.replacing(root / "cifar10") as new:
        cache.write(new, arrays, source="the test")


def test_the_human_labels_go_to_the_images_in_their_order(
    tmp_path: Path, file: cifar_n.LabelFile, content: dict[str, Any]
) -> None:
    cifar_n.prepare(file, write(tmp_path, content), tmp_path / "cifar10n")
    fill_images(tmp_path, content["clean_label"])
    data = cifar_n.read(file, tmp_path / "cifar10n", "train")
    assert data.name == "cifar10n"
    assert np.array_equal(data.labels, content["worse_label"])
    assert np.array_equal(cifar_n.read(file, tmp_path / "cifar10n", "test").labels, content["clean_label"])
    fill_images(tmp_path, content["clean_label"][::-1])
    with pytest.raises(BadFileError, match="labels in the order of cifar10n, found another order"):
        cifar_n.read(file, tmp_path / "cifar10n", "train")
