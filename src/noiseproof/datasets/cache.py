# SPDX-License-Identifier: Apache-2.0
"""The cache: one folder a data set, arrays as ``.npy`` files that are memory-mapped, and a manifest.

A folder is either whole or absent: everything is written under a temporary name in the same place, flushed to
the disk, and renamed. The manifest is what makes a folder count as filled.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import fingerprint
from noiseproof.datasets.errors import BadFileError, NotInCacheError

MANIFEST = "manifest.json"
FORMAT_VERSION = 1


def default_root() -> Path:
    """Return the cache folder: ``NOISEPROOF_DATA``, else ``noiseproof/data`` in the platform's cache.

    Example:
        >>> import os
        >>> os.environ["NOISEPROOF_DATA"] = "/data/sets"
        >>> default_root().as_posix()
        '/data/sets'
        >>> del os.environ["NOISEPROOF_DATA"]
    """
    chosen = os.environ.get("NOISEPROOF_DATA")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        platform_cache = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        platform_cache = Path.home() / "Library" / "Caches"
    else:
        platform_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return platform_cache / "noiseproof" / "data"


def folder_of(name: str, root: Path | str | None = None) -> Path:
    """Return the folder of one data set below the cache folder, there or not."""
    return (default_root() if root is None else Path(root).expanduser()) / name


def downloads_of(folder: Path) -> Path:
    """Return where the downloads for one data set grow: beside its folder, so that they can continue."""
    return folder.parent / ".downloads" / folder.name


def is_filled(folder: Path) -> bool:
    """Say whether a data set's folder is in the cache, whole."""
    return (folder / MANIFEST).is_file()


@contextlib.contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give a temporary folder beside ``folder`` that takes its place when the block ends well.

    When the block raises, the temporary folder is removed and what was in ``folder`` stays as it was.

    Example:
        >>> with tempfile.TemporaryDirectory() as root:
        ...     with replacing(Path(root) / "mine") as new:
        ...         write(new, {"labels": np.arange(3)}, source="made up")
        ...     read_array(Path(root) / "mine", "labels")
        memmap([0, 1, 2])
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Not mkdtemp: that makes a folder only its owner can read, and a cache may be shared.
    temporary = folder.parent / f".{folder.name}.{uuid.uuid4().hex}.partial"
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        _flush(temporary)
        _swap(temporary, folder)
        _flush(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Give an empty folder on the cache's disk for unpacking, removed when the block ends."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", suffix=".scratch", dir=folder.parent) as path:
        yield Path(path)


_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
"""Names that lead to a file where the shell sends the output to one, which is not ours to replace."""


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[BinaryIO]:
    """Give a binary file that takes the place of ``path`` when the block ends well, and vanishes if not.

    A link stays one, and what it leads to is replaced; a device or a pipe is written to as it is.

    Raises:
        OSError: it cannot be written, or is a folder; the error names ``path``.
    """
    target = Path(os.path.realpath(path))
    # A name may have 255 bytes, and a letter four of them.
    temporary = target.parent / f".{target.name[:40]}.{uuid.uuid4().hex}.partial"
    try:
        if (stream := _STREAMS.get(str(path))) is not None:
            with open(os.dup(stream), "wb") as file:
                yield file
            return
        if target.exists() and not target.is_file():
            with target.open("wb") as file:  # a folder is refused here
                yield file
            return
        with temporary.open("xb") as file:
            if target.exists():
                shutil.copymode(target, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _flush(target.parent)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        with contextlib.suppress(OSError):  # what cannot be written cannot be cleared up either
            temporary.unlink(missing_ok=True)


def _swap(new: Path, folder: Path) -> None:
    if not folder.exists():
        new.rename(folder)
        return
    # A folder cannot be renamed over a filled one: the old one steps aside first, and back if that fails.
    aside = new.with_suffix(".old")
    folder.rename(aside)
    try:
        new.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _flush(path: Path) -> None:
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(
    folder: Path, arrays: Mapping[str, NDArray[Any]], *, source: str, facts: Mapping[str, Any] | None = None
) -> None:
    """Write arrays and their manifest into ``folder`` (one given by :func:`replacing`).

    Args:
        folder: an existing folder.
        arrays: by name; each becomes ``NAME.npy``.
        source: where they came from, in plain words.
        facts: anything else worth keeping that JSON can hold.
    """
    described = {}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
        described[name] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "sha256": fingerprint.of_array(array),
        }
    manifest = {
        "format_version": FORMAT_VERSION,
        "source": source,
        "arrays": described,
        "facts": dict(facts or {}),
    }
    (folder / MANIFEST).write_text(
        json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return the manifest of a filled folder, checked for form."""
    path = folder / MANIFEST
    if not path.is_file():
        raise NotInCacheError(f"{folder} is not a filled cache folder: it has no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadFileError(
            path, "a JSON manifest", f"something else ({error})", _fetch_again(folder)
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format_version") != FORMAT_VERSION:
        found = manifest.get("format_version") if isinstance(manifest, dict) else type(manifest).__name__
        raise BadFileError(path, f"format_version {FORMAT_VERSION}", str(found)[:200], _fetch_again(folder))
    arrays, facts = manifest.get("arrays"), manifest.get("facts")
    described = isinstance(arrays, dict) and all(map(_is_described, arrays.values()))
    if not described or not isinstance(facts, dict) or "source" not in manifest:
        raise BadFileError(
            path, "source, arrays and facts", "none of them, or another form", _fetch_again(folder)
        )
    return manifest


def _is_described(array: object) -> bool:
    kinds = {"dtype": str, "shape": list, "sha256": str}
    return isinstance(array, dict) and all(isinstance(array.get(name), kind) for name, kind in kinds.items())


def read_array(folder: Path, name: str) -> NDArray[Any]:
    """Return one array of a filled folder, memory-mapped and read-only: its type, shape and checksum are right.

    The checksum is taken once a process and file: half a second for CIFAR-10, whose bytes are then in memory.
    """
    manifest = manifest_of(folder)
    array = _mapped(folder, name, manifest)
    file = (folder / f"{name}.npy").stat()
    this = str(folder / name), file.st_ino, file.st_size, file.st_mtime_ns
    if this not in _found_right:
        _checksum(folder, name, array, manifest)
        _found_right.add(this)
    return array


_found_right: set[tuple[str, int, int, int]] = set()


def _mapped(folder: Path, name: str, manifest: dict[str, Any]) -> NDArray[Any]:
    path = folder / f"{name}.npy"
    if name not in manifest["arrays"]:
        raise BadFileError(
            folder / MANIFEST, f"an array {name!r}", f"{sorted(manifest['arrays'])}", _fetch_again(folder)
        )
    described = manifest["arrays"][name]
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise BadFileError(path, f"the array of {MANIFEST}", "no such file", _fetch_again(folder)) from error
    except Exception as error:  # on damaged bytes NumPy raises nearly every kind
        raise BadFileError(
            path, "a whole .npy file", f"a damaged one ({error})", _fetch_again(folder)
        ) from error
    if not isinstance(array, np.ndarray):
        raise BadFileError(path, "a whole .npy file", "an archive of several", _fetch_again(folder))
    if array.dtype.str != described["dtype"] or list(array.shape) != described["shape"]:
        raise BadFileError(
            path,
            f"{described['dtype']} of shape {tuple(described['shape'])}",
            f"{array.dtype.str} of shape {array.shape}",
            _fetch_again(folder),
        )
    return array


def _checksum(folder: Path, name: str, array: NDArray[Any], manifest: dict[str, Any]) -> str:
    expected, found = manifest["arrays"][name]["sha256"], fingerprint.of_array(array)
    if found != expected:
        raise BadFileError(
            folder / f"{name}.npy", f"sha256 {expected}", f"sha256 {found}", _fetch_again(folder)
        )
    return found


def verify(folder: Path) -> dict[str, str]:
    """Compare every array of a filled folder with its manifest's checksum; return the checksums by name."""
    manifest = manifest_of(folder)
    return {
        name: _checksum(folder, name, _mapped(folder, name, manifest), manifest)
        for name in manifest["arrays"]
    }


def _fetch_again(folder: Path) -> str:
    return f"the cache is damaged; get the data set again with `noiseproof data get {folder.name} --again`"
