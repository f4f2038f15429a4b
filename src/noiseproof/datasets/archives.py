# SPDX-License-Identifier: Apache-2.0
"""Unpack tar archives from strangers: only the files asked for, and nothing that could do harm.

Absolute names, ``..``, links, devices, sparse files, absurd sizes and too many members refuse the whole
archive, wherever in it they stand. What is unpacked is written by this module from plain bytes: no owner, no
permission, no link and no time comes from the archive.
"""

import gzip
import shutil
import tarfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from noiseproof.datasets.errors import BadFileError

MOST_MEMBERS = 1_000
MOST_BYTES = 1 << 30  # the largest archive we read, CIFAR-10's, holds 186 MB

_FETCH_AGAIN = "download the archive again from its official address"


class _TooLargeError(Exception):
    pass


class _LimitedReader:
    """A stream that refuses to give more than so many bytes, whatever the archive's headers promise."""

    def __init__(self, stream: BinaryIO, most_bytes: int) -> None:
        self._stream = stream
        self._left = most_bytes

    def read(self, size: int = -1) -> bytes:
        """Read from the stream; going past the limit raises."""
        piece = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(piece)
        if self._left < 0:
            raise _TooLargeError
        return piece


def unpack(
    archive: Path,
    wanted: Collection[str],
    into: Path,
    *,
    most_members: int = MOST_MEMBERS,
    most_bytes: int = MOST_BYTES,
) -> dict[str, Path]:
    """Unpack the wanted files of a ``.tar.gz`` into a folder, flat, under their last name.

    Args:
        archive: a gzip-compressed tar file.
        wanted: last names of the files to unpack (``data_batch_1.bin``), whatever folder they stand in.
        into: an existing folder.
        most_members: an archive with more members is refused.
        most_bytes: an archive that unpacks to more is refused, before it does.

    Returns:
        The path of each wanted file by its name. A wanted file that is missing is simply not in it.

    Raises:
        BadFileError: the archive is damaged or hostile.
    """
    unpacked: dict[str, Path] = {}
    try:
        with gzip.open(archive) as plain:
            limited = cast(BinaryIO, _LimitedReader(cast(BinaryIO, plain), most_bytes))
            with tarfile.open(fileobj=limited, mode="r|") as tar:
                for position, member in enumerate(tar, start=1):
                    if position > most_members:
                        raise BadFileError(archive, f"at most {most_members} members", "more")
                    _refuse_hostile(archive, member, most_bytes)
                    name = PurePosixPath(member.name).name
                    if not member.isreg() or name not in wanted:
                        continue
                    if name in unpacked:
                        raise BadFileError(archive, f"one file called {name}", "several", _FETCH_AGAIN)
                    unpacked[name] = into / name
                    _write_member(tar, member, unpacked[name])
            # A tar ends before its gzip does: reading on checks the checksum at the very end.
            while limited.read(1 << 20):
                pass
    except _TooLargeError:
        raise BadFileError(archive, f"at most {most_bytes} bytes inside", "more") from None
    except Exception as error:  # on damaged bytes the tar reader raises nearly every kind
        is_of_the_disk = isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile)
        if is_of_the_disk or isinstance(error, BadFileError):
            raise
        found = f"a damaged or truncated one ({error})"
        raise BadFileError(archive, "a whole .tar.gz archive", found, _FETCH_AGAIN) from error
    return unpacked


def _refuse_hostile(archive: Path, member: tarfile.TarInfo, most_bytes: int) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or "\\" in member.name or (len(member.name) > 1 and member.name[1] == ":"):
        raise BadFileError(archive, "names below the archive's own folder", f"the name {member.name!r}")
    if ".." in name.parts:
        raise BadFileError(archive, "names without '..'", f"the name {member.name!r}")
    if member.issym() or member.islnk():
        raise BadFileError(
            archive, "only files and folders", f"a link {member.name!r} to {member.linkname!r}"
        )
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise BadFileError(
            archive, "only plain files and folders", f"{member.name!r} of type {member.type!r}"
        )
    if not 0 <= member.size <= most_bytes:
        raise BadFileError(
            archive, f"members of at most {most_bytes} bytes", f"{member.name!r} of {member.size}"
        )


def _write_member(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = tar.extractfile(member)
    assert content is not None  # only links and folders have none, and they are not written
    with content, path.open("xb") as file:
        shutil.copyfileobj(content, file)
    if path.stat().st_size != member.size:
        raise EOFError(f"{member.name} ends after {path.stat().st_size} of {member.size} bytes")
