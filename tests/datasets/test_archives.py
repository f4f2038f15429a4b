# SPDX-License-Identifier: Apache-2.0
"""Damaged and hostile archives, one by one."""

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from noiseproof.datasets import BadFileError, archives


def member(name: str, content: bytes = b"content", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def write_tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "deep" / "into"
    folder.mkdir(parents=True)
    return folder


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_only_what_is_wanted_is_unpacked_flat_and_plain(tmp_path: Path, into: Path) -> None:
    tar = write_tar(
        tmp_path / "a.tar.gz",
        member("set", b"", type=tarfile.DIRTYPE),
        member("set/data.bin", b"12345", mode=0o7777, uid=5),
        member("set/readme.html", b"<p>"),
    )
    assert archives.unpack(tar, {"data.bin", "absent.bin"}, into) == {"data.bin": into / "data.bin"}
    assert (into / "data.bin").read_bytes() == b"12345"
    assert (into / "data.bin").stat().st_mode & 0o7111 == 0
    assert files_in(into) == ["data.bin"]


@pytest.mark.parametrize(
    ("hostile", "message"),
    [
        (member("/etc/data.bin"), "the name '/etc/data.bin'"),
        (member("../data.bin"), r"names without '\.\.', found the name '\.\./data.bin'"),
        (member("set/../../data.bin"), r"names without '\.\.'"),
        (member("C:\\data.bin"), "the name"),
        (member("C:data.bin"), "the name 'C:data.bin'"),
        (member("set\\..\\data.bin"), "the name"),
        (
            member("data.bin", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
            "a link 'data.bin' to '/etc/passwd'",
        ),
        (member("data.bin", b"", type=tarfile.LNKTYPE, linkname="../../x"), "a link 'data.bin'"),
        (member("data.bin", b"", type=tarfile.FIFOTYPE), "plain files and folders"),
        (member("data.bin", b"", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "plain files and folders"),
        (member("data.bin", b"", type=tarfile.BLKTYPE), "plain files and folders"),
    ],
    ids=lambda value: getattr(value[0], "name", "") + str(value[0].type) if isinstance(value, tuple) else "",
)
def test_a_hostile_member_refuses_the_archive(
    tmp_path: Path, into: Path, hostile: tuple[tarfile.TarInfo, bytes], message: str
) -> None:
    tar = write_tar(tmp_path / "a.tar.gz", hostile)
    before = files_in(tmp_path)
    with pytest.raises(BadFileError, match=message):
        archives.unpack(tar, {"data.bin"}, into)
    assert files_in(tmp_path) == before


def test_a_hostile_member_nobody_wants_refuses_the_archive_too(tmp_path: Path, into: Path) -> None:
    tar = write_tar(tmp_path / "a.tar.gz", member("data.bin"), member("../../.bashrc"))
    with pytest.raises(BadFileError, match="names without"):
        archives.unpack(tar, {"data.bin"}, into)
    assert not (tmp_path.parent / ".bashrc").exists()


def test_a_link_is_not_written_through(tmp_path: Path, into: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (into / "data.bin").symlink_to(victim)
    tar = write_tar(tmp_path / "a.tar.gz", member("data.bin", b"overwritten"))
    with pytest.raises(FileExistsError):
        archives.unpack(tar, {"data.bin"}, into)
    assert victim.read_text() == "precious"


def test_a_bomb_is_stopped_before_it_unpacks(tmp_path: Path, into: Path) -> None:
    tar = write_tar(tmp_path / "bomb.tar.gz", member("zeros", bytes(5_000_000)), member("data.bin"))
    assert tar.stat().st_size < 10_000
    with pytest.raises(BadFileError, match="at most 1000000 bytes, found 'zeros' of 5000000"):
        archives.unpack(tar, {"zeros"}, into, most_bytes=1_000_000)
    with pytest.raises(BadFileError, match="at most 5000000 bytes inside, found more"):
        archives.unpack(tar, {"data.bin"}, into, most_bytes=5_000_000)
    assert files_in(into) == []


def test_a_bomb_after_the_tar_is_stopped(tmp_path: Path, into: Path) -> None:
    tar = write_tar(tmp_path / "bomb.tar.gz", member("data.bin"))
    tar.write_bytes(tar.read_bytes() + gzip.compress(bytes(5_000_000)))
    with pytest.raises(BadFileError, match="at most 1000000 bytes inside, found more"):
        archives.unpack(tar, {"data.bin"}, into, most_bytes=1_000_000)


def test_a_header_that_promises_an_absurd_size(tmp_path: Path, into: Path) -> None:
    info = tarfile.TarInfo("data.bin")
    info.size = 1 << 50
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(BadFileError, match="of 1125899906842624"):
        archives.unpack(tmp_path / "a.tar.gz", {"data.bin"}, into)


def test_too_many_members(tmp_path: Path, into: Path) -> None:
    tar = write_tar(tmp_path / "a.tar.gz", *(member(f"{index}", b"") for index in range(20)))
    with pytest.raises(BadFileError, match="at most 10 members, found more"):
        archives.unpack(tar, set(), into, most_members=10)


def test_two_files_of_one_name(tmp_path: Path, into: Path) -> None:
    tar = write_tar(tmp_path / "a.tar.gz", member("a/data.bin"), member("b/data.bin"))
    with pytest.raises(BadFileError, match="one file called data.bin, found several"):
        archives.unpack(tar, {"data.bin"}, into)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.999])
def test_truncated(tmp_path: Path, into: Path, share: float) -> None:
    content = np.random.RandomState(0).bytes(50_000)
    tar = write_tar(tmp_path / "a.tar.gz", member("data.bin", content))
    whole = tar.read_bytes()
    tar.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(
        BadFileError, match=r"a.tar.gz: expected a whole .tar.gz archive, found a damaged or truncated"
    ):
        archives.unpack(tar, {"data.bin"}, into)


def test_one_flipped_bit(tmp_path: Path, into: Path) -> None:
    tar = write_tar(tmp_path / "a.tar.gz", member("data.bin", np.random.RandomState(0).bytes(50_000)))
    damaged = bytearray(tar.read_bytes())
    damaged[25_000] ^= 1
    tar.write_bytes(damaged)
    with pytest.raises(BadFileError, match="damaged or truncated"):
        archives.unpack(tar, {"data.bin"}, into)


@pytest.mark.parametrize(
    "content",
    [b"", b"not an archive", gzip.compress(b"not a tar either" * 100, mtime=0)],
    ids=["nothing", "text", "gzip"],
)
def test_something_else(tmp_path: Path, into: Path, content: bytes) -> None:
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(BadFileError, match=r"a whole .tar.gz archive"):
        archives.unpack(tmp_path / "a.tar.gz", {"data.bin"}, into)
