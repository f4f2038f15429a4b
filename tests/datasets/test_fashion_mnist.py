# SPDX-License-Identifier: Apache-2.0
"""Fashion-MNIST and its IDX files: the real ones where Debian's package is installed, small ones anyway."""

import gzip
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from noiseproof.datasets import BadFileError, UnavailableError, cache, download, fashion_mnist, idx


def idx_bytes(array: np.ndarray, magic: bytes | None = None) -> bytes:
    """The official layout: https://github.com/zalandoresearch/fashion-mnist, http://yann.lecun.com/exdb/mnist/."""
    start = bytes([0, 0, 8, array.ndim]) if magic is None else magic
    return start + np.array(array.shape, dtype=">u4").tobytes() + array.tobytes()


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, list[fashion_mnist.IdxFile]]:
    """The four files under their real names with 6 and 4 images, and what is known of them."""
    folder = tmp_path / "files"
    folder.mkdir()
    random = np.random.RandomState(0)
    files = []
    for official in fashion_mnist.OFFICIAL:
        count = 6 if official.array.startswith("train") else 4
        shape = (count, *official.shape[1:])
        content = idx_bytes(random.randint(0, 10, shape).astype(np.uint8))
        (folder / f"{official.name}.gz").write_bytes(gzip.compress(content))
        files.append(replace(official, shape=shape, content_md5=hashlib.md5(content).hexdigest()))
    return folder, files


def test_small_files_in_the_official_format(
    tmp_path: Path, small: tuple[Path, list[fashion_mnist.IdxFile]]
) -> None:
    folder, files = small
    fashion_mnist.prepare(folder, tmp_path / "cache", files=files)
    train = fashion_mnist.read(tmp_path / "cache", "train")
    assert train.images is not None
    assert train.images.shape == (6, 28, 28, 1)
    raw = gzip.decompress((folder / "train-images-idx3-ubyte.gz").read_bytes())
    assert train.images.tobytes() == raw[16:]
    raw = gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())
    assert fashion_mnist.read(tmp_path / "cache", "test").labels.tolist() == list(raw[8:])


def test_uncompressed_files_give_the_same(
    tmp_path: Path, small: tuple[Path, list[fashion_mnist.IdxFile]]
) -> None:
    folder, files = small
    fashion_mnist.prepare(folder, tmp_path / "a", files=files)
    for path in list(folder.iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    fashion_mnist.prepare(folder, tmp_path / "b", files=files)
    for split in ("train", "test"):
        first, second = (fashion_mnist.read(tmp_path / cache_folder, split) for cache_folder in "ab")
        assert first.fingerprint == second.fingerprint


def damage_labels(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("train-images-idx3-ubyte", lambda raw: b"\0\0\x08\x01" + raw[4:], "3 dimensions, found 1"),
        (
            "train-images-idx3-ubyte",
            lambda raw: b"\0\0\x0d\x03" + raw[4:],
            "magic number 000008.*, found 00000d03",
        ),
        ("train-images-idx3-ubyte", lambda raw: raw[:-1], "4704 bytes after the header, found 4703"),
        ("train-images-idx3-ubyte", lambda raw: raw + b"\0", "4704 bytes after the header, found more"),
        ("train-labels-idx1-ubyte", lambda raw: raw[:7], "an IDX header of 8 bytes, found 7"),
        ("train-labels-idx1-ubyte", lambda _: b"", "an IDX header"),
        (
            "t10k-labels-idx1-ubyte",
            lambda raw: raw[:7] + b"\x05" + raw[8:] + b"\0",
            r"shape \(4,\), found \(5,\)",
        ),
        ("t10k-labels-idx1-ubyte", damage_labels, r"content with md5 \w+, found md5"),
        ("t10k-images-idx3-ubyte", lambda raw: raw[:100] + b"?" + raw[101:], "not the official file"),
    ],
)
def test_a_wrong_file_is_named_and_the_cache_stays(
    tmp_path: Path, small: tuple[Path, list[fashion_mnist.IdxFile]], name: str, change, message: str
) -> None:
    folder, files = small
    fashion_mnist.prepare(folder, tmp_path / "cache", files=files)
    before = cache.verify(tmp_path / "cache")
    path = folder / f"{name}.gz"
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))
    with pytest.raises(BadFileError, match=f"{name}.*{message}"):
        fashion_mnist.prepare(folder, tmp_path / "cache", files=files)
    assert cache.verify(tmp_path / "cache") == before
    assert sorted(found.name for found in tmp_path.iterdir()) == ["cache", "files"]


def test_images_given_as_labels_are_refused(
    tmp_path: Path, small: tuple[Path, list[fashion_mnist.IdxFile]]
) -> None:
    folder, files = small
    (folder / "train-labels-idx1-ubyte.gz").write_bytes((folder / "train-images-idx3-ubyte.gz").read_bytes())
    with pytest.raises(BadFileError, match="1 dimensions, found 3"):
        fashion_mnist.prepare(folder, tmp_path / "cache", files=files)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.999])
def test_a_truncated_gz(
    tmp_path: Path, small: tuple[Path, list[fashion_mnist.IdxFile]], share: float
) -> None:
    folder, files = small
    path = folder / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(BadFileError, match="train-images-idx3-ubyte.gz: expected"):
        fashion_mnist.prepare(folder, tmp_path / "cache", files=files)
    assert not (tmp_path / "cache").exists()


def test_a_gz_whose_own_checksum_is_wrong(tmp_path: Path) -> None:
    damaged = bytearray(gzip.compress(idx_bytes(np.zeros(5, np.uint8))))
    damaged[-8] ^= 1
    (tmp_path / "a.gz").write_bytes(damaged)
    with pytest.raises(BadFileError, match="a whole gzip file"):
        idx.read(tmp_path / "a.gz", (5,))


def test_a_gz_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real_read = gzip.GzipFile.read

    def watched_read(self: gzip.GzipFile, size: int | None = -1) -> bytes:
        asked.append(-1 if size is None else size)
        return real_read(self, size)

    monkeypatch.setattr(gzip.GzipFile, "read", watched_read)
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx_bytes(np.zeros(5, np.uint8)) + bytes(50_000_000)))
    with pytest.raises(BadFileError, match="5 bytes after the header, found more"):
        idx.read(tmp_path / "a.gz", (5,))
    assert asked == [14]


def test_a_missing_file_says_which(tmp_path: Path, small: tuple[Path, list[fashion_mnist.IdxFile]]) -> None:
    folder, files = small
    (folder / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(BadFileError, match="expected the file t10k-images-idx3-ubyte.gz"):
        fashion_mnist.prepare(folder, tmp_path / "cache", files=files)


def test_offline_says_which_from_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", tmp_path / "nowhere")

    def offline(remote: download.Remote, _folder: Path) -> Path:
        raise UnavailableError(f"{remote.url} could not be downloaded: offline")

    monkeypatch.setattr(download, "fetch", offline)
    with pytest.raises(UnavailableError, match=r"offline\nOther ways: .*--from a folder"):
        fashion_mnist.prepare(None, tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []


def test_debians_folder_is_used_where_it_is(
    tmp_path: Path, small: tuple[Path, list[fashion_mnist.IdxFile]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, files = small
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", folder)
    fashion_mnist.prepare(None, tmp_path / "cache", files=files)
    assert cache.manifest_of(tmp_path / "cache")["source"] == str(folder)


def test_the_real_files(tmp_path: Path) -> None:
    if not fashion_mnist.DEBIAN_FOLDER.is_dir():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    fashion_mnist.prepare(None, tmp_path / "cache")
    train, test = (fashion_mnist.read(tmp_path / "cache", split) for split in ("train", "test"))
    assert np.bincount(train.labels).tolist() == [6000] * 10
    assert np.bincount(test.labels).tolist() == [1000] * 10
    assert train.labels[:5].tolist() == [9, 0, 0, 3, 0]
    # Debian's files with the official header put back (name, and time of compression) are the official files.
    for file, time in zip(
        fashion_mnist.OFFICIAL, (1504176606, 1504176606, 1504176627, 1504176627), strict=True
    ):
        packed = (fashion_mnist.DEBIAN_FOLDER / f"{file.name}.gz").read_bytes()
        header = b"\x1f\x8b\x08\x08" + struct.pack("<I", time) + packed[8:10] + file.name.encode() + b"\0"
        assert hashlib.md5(header + packed[10:]).hexdigest() == file.compressed_md5
    assert train.fingerprint.startswith("f850a8c55fcf8475")
    assert test.fingerprint.startswith("08e4526f1c8826de")
