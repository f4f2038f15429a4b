# SPDX-License-Identifier: Apache-2.0
"""CIFAR-100 in each of its forms: small sets in the official layouts, and the real one from strips."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from noiseproof import datasets
from noiseproof.datasets import BadFileError, UnavailableError, cifar100, download, fingerprint
from noiseproof.datasets.cifar100_classes import CLASS_NAMES, COARSE_NAMES, FINE_TO_COARSE, SUPER_CLASSES
from noiseproof.datasets.cifar_files import Rows

COUNT = 9
UNCERTAIN = (2, 5)


def planes(images: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2).reshape(len(images), 3072))


class Small:
    """A train and a test file of 9 images that can be written in every form."""

    def __init__(self, make_rows: Callable[..., Rows], pickled: Callable[[Any], bytes]) -> None:
        self.rows = {
            name: make_rows(COUNT, seed, coarse_of=FINE_TO_COARSE)
            for seed, name in enumerate(("train", "test"))
        }
        self.pickled = pickled
        self.batches = [self.batch(name) for name in self.rows]

    def batch(self, name: str) -> cifar100.Batch:
        rows = self.rows[name]
        is_certain = ~np.isin(np.arange(COUNT), UNCERTAIN)
        return cifar100.Batch(
            name=name,
            count=COUNT,
            labels=fingerprint.of_array(rows.labels[:, 1].astype(np.int64)),
            certain_images=fingerprint.of_array(rows.images[is_certain]),
            uncertain_images=cifar100.set_fingerprint(rows.images[~is_certain]),
            uncertain=UNCERTAIN,
            pickle_md5=hashlib.md5(self.files("python")[name]).hexdigest(),
            binary_md5=hashlib.md5(self.files("binary")[f"{name}.bin"]).hexdigest(),
        )

    def files(self, form: str) -> dict[str, bytes]:
        files = {}
        labels: dict[str, Any] = {"class_names": np.array(CLASS_NAMES)}
        for name, rows in self.rows.items():
            if form == "binary":
                files[f"{name}.bin"] = np.concatenate([rows.labels, planes(rows.images)], axis=1).tobytes()
            elif form == "python":
                files[name] = self.pickled(
                    {
                        "filenames": [f"bos_taurus_s_{index:06d}.png" for index in range(COUNT)],
                        "batch_label": "training batch 1 of 1",
                        "fine_labels": rows.labels[:, 1].tolist(),
                        "coarse_labels": rows.labels[:, 0].tolist(),
                        "data": planes(rows.images),
                    }
                )
            else:
                strip = io.BytesIO()
                Image.fromarray(rows.images.reshape(COUNT * 32, 32, 3)).save(strip, "WEBP", lossless=True)
                files[f"{name}_000.webp"] = strip.getvalue()
                labels[f"{name}_y"] = rows.labels[:, 1]
                labels[f"ambiguous_{name}"] = np.array(UNCERTAIN)
        if form == "strips":
            saved = io.BytesIO()
            np.savez(saved, **labels)
            files["labels.npz"] = saved.getvalue()
        return files

    def write(self, folder: Path, form: str) -> Path:
        folder.mkdir(parents=True)
        for name, content in self.files(form).items():
            (folder / name).write_bytes(content)
        return folder

    def check(self, folder: Path, *, is_exact: bool) -> None:
        for split, rows in self.rows.items():
            data = cifar100.read(folder, split)
            assert data.images is not None
            assert np.array_equal(data.images, rows.images)
            assert np.array_equal(data.labels, rows.labels[:, 1])
            assert data.coarse_labels is not None
            assert np.array_equal(data.coarse_labels, rows.labels[:, 0])
            assert (data.uncertain is None) == is_exact

    def swap_uncertain(self) -> None:
        first, second = UNCERTAIN
        images = self.rows["train"].images
        images[[first, second]] = images[[second, first]]


@pytest.fixture
def small(make_rows: Callable[..., Rows], python2_pickle: Callable[[Any], bytes]) -> Small:
    return Small(make_rows, python2_pickle)


FORMS = ["binary", "python", "strips"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_bytes(tmp_path: Path, small: Small, form: str) -> None:
    cifar100.prepare(small.write(tmp_path / "files", form), tmp_path / "cache", batches=small.batches)
    small.check(tmp_path / "cache", is_exact=True)


@pytest.mark.parametrize("form", FORMS)
def test_an_order_that_is_not_the_official_one_is_said_to_be_uncertain(
    tmp_path: Path, small: Small, form: str
) -> None:
    small.swap_uncertain()
    cifar100.prepare(small.write(tmp_path / "files", form), tmp_path / "cache", batches=small.batches)
    train, test = (cifar100.read(tmp_path / "cache", split) for split in ("train", "test"))
    assert train.uncertain is not None
    assert train.uncertain.tolist() == list(UNCERTAIN)
    assert test.uncertain is None


@pytest.mark.parametrize("form", ["binary", "python"])
def test_an_official_archive_is_known_by_its_md5(tmp_path: Path, small: Small, form: str) -> None:
    path = tmp_path / "cifar-100.tar.gz"
    inner = {"binary": "cifar-100-binary", "python": "cifar-100-python"}[form]
    with tarfile.open(path, "w:gz") as tar:
        for name, content in small.files(form).items():
            info = tarfile.TarInfo(f"{inner}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    strange = [replace(batch, pickle_md5="", binary_md5="") for batch in small.batches]
    cifar100.prepare(path, tmp_path / "cache", batches=strange)
    small.check(tmp_path / "cache", is_exact=False)
    official = replace(cifar100.ARCHIVE, checksum=fingerprint.of_file(path, "md5"))
    cifar100.prepare(path, tmp_path / "cache", batches=strange, archive=official)
    small.check(tmp_path / "cache", is_exact=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", [0, UNCERTAIN[0]])
def test_one_changed_pixel_is_found(tmp_path: Path, small: Small, form: str, place: int) -> None:
    small.rows["test"].images[place, 0, 0, 0] ^= 1
    folder = small.write(tmp_path / "files", form)
    with pytest.raises(BadFileError, match="expected the official images.* of test"):
        cifar100.prepare(folder, tmp_path / "cache", batches=small.batches)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("form", FORMS)
def test_labels_in_another_order_are_found(tmp_path: Path, small: Small, form: str) -> None:
    small.rows["train"].labels[:] = small.rows["train"].labels[::-1].copy()
    folder = small.write(tmp_path / "files", form)
    with pytest.raises(BadFileError, match="expected the official labels of train"):
        cifar100.prepare(folder, tmp_path / "cache", batches=small.batches)


@pytest.mark.parametrize("form", FORMS)
def test_a_label_out_of_range_is_found(tmp_path: Path, small: Small, form: str) -> None:
    small.rows["train"].labels[4, 1] = 100
    folder = small.write(tmp_path / "files", form)
    with pytest.raises(BadFileError, match=r"labels in 0\.\.99, found 100 at position 4"):
        cifar100.prepare(folder, tmp_path / "cache", batches=small.batches)


@pytest.mark.parametrize("form", ["binary", "python"])
def test_a_super_class_that_is_not_that_of_the_class_is_found(
    tmp_path: Path, small: Small, form: str
) -> None:
    small.rows["train"].labels[4, 0] ^= 1
    folder = small.write(tmp_path / "files", form)
    with pytest.raises(BadFileError, match="each fine label within its super-class"):
        cifar100.prepare(folder, tmp_path / "cache", batches=small.batches)


@pytest.mark.parametrize("name", ["labels.npz", "train_000.webp", "test_000.webp"])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.98])
def test_truncated_strips_and_labels_are_named(tmp_path: Path, small: Small, name: str, share: float) -> None:
    folder = small.write(tmp_path / "files", "strips")
    path = folder / name
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(BadFileError, match=f"{name}: expected"):
        cifar100.prepare(folder, tmp_path / "cache", batches=small.batches)


def test_strange_labels_of_strips(tmp_path: Path, small: Small) -> None:
    folder = small.write(tmp_path / "files", "strips")
    good = dict(np.load(folder / "labels.npz"))
    for change, message in (
        ({"class_names": np.array(CLASS_NAMES[::-1])}, "class names in their order"),
        ({"train_y": good["train_y"][:-1]}, r"9 labels of uint8, found uint8 of shape \(8,\)"),
        ({"train_y": good["train_y"].astype(np.float64)}, "found float64"),
        ({"train_y": np.array([{}] * COUNT, dtype=object)}, "an .npz file with train_y"),
    ):
        np.savez(folder / "labels.npz", **{**good, **change})
        with pytest.raises(BadFileError, match=message):
            cifar100.prepare(folder, tmp_path / "cache", batches=small.batches)
    np.savez_compressed(folder / "labels.npz", **good, padding=np.zeros(cifar100.MOST_LABEL_BYTES, np.uint8))
    with pytest.raises(BadFileError, match="bytes inside"):
        cifar100.prepare(folder, tmp_path / "cache", batches=small.batches)


def test_a_missing_file_says_what_is_expected(tmp_path: Path, small: Small) -> None:
    folder = small.write(tmp_path / "files", "binary")
    (folder / "test.bin").unlink()
    with pytest.raises(BadFileError, match=r"expected test.bin, test or strips, found none"):
        cifar100.prepare(folder, tmp_path / "cache", batches=small.batches)
    (folder / "train.bin").unlink()
    with pytest.raises(BadFileError, match=r"expected train.bin, train or labels.npz, found none"):
        cifar100.prepare(folder, tmp_path / "cache", batches=small.batches)


def test_offline_says_which_from_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(remote: download.Remote, _folder: Path) -> Path:
        raise UnavailableError(f"{remote.url} could not be downloaded: offline")

    monkeypatch.setattr(download, "fetch", offline)
    with pytest.raises(UnavailableError, match=r"offline\nOther ways: .*--from a folder"):
        cifar100.prepare(None, tmp_path / "cache")


def test_the_classes() -> None:
    assert len(CLASS_NAMES) == len(set(CLASS_NAMES)) == 100
    assert len(COARSE_NAMES) == 20
    assert all(len(names) == 5 for names in SUPER_CLASSES.values())
    assert COARSE_NAMES[FINE_TO_COARSE[CLASS_NAMES.index("willow_tree")]] == "trees"


@pytest.fixture(scope="module")
def real_root(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the real CIFAR-100 and the human labels, as in SPEC section 7."""
    if not (shared_data / "cifar100" / "labels.npz").is_file():
        pytest.skip("the shared data has no cifar100 strips")
    root = tmp_path_factory.mktemp("real")
    datasets.get("cifar100", source_folder=shared_data / "cifar100", root=root)
    datasets.get("cifar100n", source_folder=shared_data, root=root)
    return root


def test_the_real_set_from_strips(real_root: Path) -> None:
    train, test = (datasets.load("cifar100", split, root=real_root) for split in ("train", "test"))
    assert np.bincount(train.labels).tolist() == [500] * 100
    assert np.bincount(test.labels).tolist() == [100] * 100
    assert train.images is not None
    assert np.allclose(train.images.mean((0, 1, 2)) / 255, [0.5071, 0.4865, 0.4409], atol=5e-5)
    assert train.uncertain is not None
    assert {CLASS_NAMES[label] for label in train.labels[train.uncertain]} == {"beaver", "shrew", "skunk"}
    assert len(train.uncertain) == 100
    assert test.uncertain is not None
    assert len(test.uncertain) == 23
    assert train.fingerprint.startswith("4863884a8792c01f")


def test_the_real_human_labels_leave_the_uncertain_images_out(real_root: Path) -> None:
    data = datasets.load("cifar100n", root=real_root)
    clean = datasets.load("cifar100", root=real_root)
    human = datasets.human_labels("cifar100n", root=real_root)
    assert clean.uncertain is not None
    kept = np.setdiff1d(np.arange(50_000), clean.uncertain)
    assert len(data) == 49_900
    assert np.array_equal(data.labels, human.labels[kept])
    assert data.images is not None
    assert clean.images is not None
    assert np.array_equal(data.images[-1], clean.images[kept[-1]])
    assert human.noise_rate == pytest.approx(0.402, abs=1e-9)
    coarse = datasets.human_labels("cifar100n", "noisy_coarse_label", root=real_root)
    assert clean.coarse_labels is not None
    assert np.array_equal(coarse.clean, clean.coarse_labels)
    assert datasets.load("cifar100n", "test", root=real_root).labels.shape == (10_000,)
