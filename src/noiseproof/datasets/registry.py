# SPDX-License-Identifier: Apache-2.0
"""The list of data sets: frozen records, looked up by name, with the nearest name on a slip.

A source says how its set gets into the cache (``prepare``) and out of it (``read``); registering the record
is all it takes to appear in ``noiseproof data``. Sets of the user's own have names of the form
``prefix:PATH`` (``folder:PATH``, ``csv:PATH``) and are read where they lie, by a reader registered for the
prefix.
"""

import difflib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from noiseproof.datasets import cache
from noiseproof.datasets.errors import DataError, NoSuchSplitError, NotInCacheError, UnknownDataError
from noiseproof.datasets.labeled_data import LabeledData


@dataclass(frozen=True)
class SplitFacts:
    """What is known of one split in advance, for ``noiseproof data check``.

    Attributes:
        split: which one.
        count: how many samples it has.
        image_shape: (H, W, C), or None where images differ.
        labels_fingerprint: of the labels in their official order, or "" where they may differ.
    """

    split: str
    count: int
    image_shape: tuple[int, int, int] | None = None
    labels_fingerprint: str = ""


@dataclass(frozen=True)
class Source:
    """One data set: what it is, where it comes from, how it is read.

    Attributes:
        name: as the user types it.
        description: what it is, in one line.
        splits: the splits it has, a subset of train, test, validation. A copy that lacks some of them lists
            those it has as ``splits`` among the facts of its manifest.
        form: how the data lies in the cache, in plain words.
        where: where it comes from and which ``--from`` it takes, in plain words.
        prepare: ``(from_path or None, cache folder of this set)``; fills the cache atomically, see
            :func:`noiseproof.datasets.cache.replacing`.
        read: ``(cache folder of this set, split)``; called only when the folder has a manifest.
        embedded: the set needs no cache, and ``read`` is called without one.
        licence: the terms it is published under, where stated.
        facts: what is known of its splits in advance; a split without facts is checked for consistency only.
    """

    name: str
    description: str
    splits: tuple[str, ...]
    form: str
    where: str
    prepare: Callable[[Path | None, Path], None]
    read: Callable[[Path, str], LabeledData]
    embedded: bool = False
    licence: str = ""
    facts: tuple[SplitFacts, ...] = ()


@dataclass(frozen=True)
class PrefixSource:
    """A family of sets, ``prefix:PATH``: the user's own, read where they lie, or other views of known ones.

    Attributes:
        prefix: the part before the colon.
        description: what the path must hold, in one line.
        read: ``(path, split)``.
        read_at: ``(path, split, side)``, where pictures with masks can be brought to one size.
        takes: what stands after the colon, in a word.
    """

    prefix: str
    description: str
    read: Callable[[Path, str], LabeledData]
    read_at: Callable[[Path, str, int], LabeledData] | None = None
    takes: str = "PATH"

    @property
    def form(self) -> str:
        """How it is written, such as ``folder:PATH``."""
        return f"{self.prefix}:{self.takes}"

    @property
    def where(self) -> str:
        """Where it comes from, in words."""
        return "read in place" if self.takes == "PATH" else f"made from {self.takes}"


_sources: dict[str, Source] = {}
_prefixes: dict[str, PrefixSource] = {}


def register(source: Source) -> Source:
    """Add a source to the list; a name already taken is an error."""
    if source.name in _sources:
        raise ValueError(f"a data set named {source.name!r} is already registered")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", source.name):
        raise ValueError(f"a data set's name must be usable as a folder's name, got {source.name!r}")
    _sources[source.name] = source
    return source


def register_prefix(source: PrefixSource) -> PrefixSource:
    """Add a reader for names of the form ``prefix:PATH``; a prefix already taken is an error."""
    if source.prefix in _prefixes:
        raise ValueError(f"a reader for {source.prefix!r}: names is already registered")
    _prefixes[source.prefix] = source
    return source


def sources() -> tuple[Source, ...]:
    """Every registered source, in the order of registration."""
    return tuple(_sources.values())


def prefix_sources() -> tuple[PrefixSource, ...]:
    """Every reader of the user's own data, in the order of registration."""
    return tuple(_prefixes.values())


def find(name: str) -> Source:
    """Return the source of that name; an unknown one is an error that offers the nearest."""
    if name in _sources:
        return _sources[name]
    prefix = name.partition(":")[0]
    if prefix in _prefixes:
        source = _prefixes[prefix]
        raise UnknownDataError(f"{source.form}: {source.description}; {source.where}")
    known = [*_sources, *(source.form for source in _prefixes.values())]
    nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
    place = os.path.expanduser(name)
    if os.path.isdir(place):
        hint = f"for your own images there, use {f'folder:{name}'!r}, or {hint}"
    elif os.path.isfile(place) and place.endswith(".csv"):
        hint = f"for your own table there, use {f'csv:{name}'!r}, or {hint}"
    raise UnknownDataError(f"no data set is called {name!r}; {hint}")


def load(
    name: str, split: str = "train", *, root: Path | str | None = None, side: int | None = None
) -> LabeledData:
    """Read one split of a data set from the cache, or ``folder:PATH`` and ``csv:PATH`` in place.

    Args:
        name: a registered name, or ``prefix:PATH``.
        split: ``"train"``, ``"test"`` or ``"validation"``.
        root: the cache folder; by default ``NOISEPROOF_DATA``, else the platform's cache folder.
        side: width and height to which images with masks of a ``folder:PATH`` are resized; other data stays as
            it is.

    Raises:
        UnknownDataError: no set has that name.
        NotInCacheError: the set has to be downloaded first; the message says how.

    Example:
        >>> from noiseproof import datasets
        >>> datasets.load("digits", "test")
        LabeledData('digits', 'test', 359 of 8x8x1, 10 classes)
    """
    prefix, colon, path = name.partition(":")
    if colon and prefix in _prefixes:
        own = _prefixes[prefix]
        if not path:
            raise UnknownDataError(f"{name!r} names nothing after the colon; expected {own.form}")
        if side is not None and own.read_at is not None:
            return own.read_at(Path(path).expanduser(), split, side)
        return own.read(Path(path).expanduser(), split)
    source = find(name)
    if split not in source.splits:
        raise NoSuchSplitError(f"{name} has the splits {', '.join(source.splits)}, not {split!r}")
    folder = cache.folder_of(name, root) if source.embedded else filled_folder(source, root)
    return source.read(folder, split)


def filled_folder(source: Source, root: Path | str | None = None) -> Path:
    """Return the folder of a set in the cache; if it is not there, say how to get it."""
    folder = cache.folder_of(source.name, root)
    if not cache.is_filled(folder):
        raise NotInCacheError(
            f"{source.name} is not in the cache ({folder}); "
            f"get it with: noiseproof data get {source.name}\n{source.where}"
        )
    return folder


def get(
    name: str,
    *,
    source_folder: Path | str | None = None,
    root: Path | str | None = None,
    again: bool = False,
) -> Path:
    """Download a data set, or import it from local files, and return its folder in the cache.

    Args:
        name: a registered name.
        source_folder: a folder or file that holds the set; by default it comes from its official address.
        root: the cache folder; by default ``NOISEPROOF_DATA``, else the platform's cache folder.
        again: get it even if it is in the cache already; ``source_folder`` implies it.
    """
    prefix, colon, _ = name.partition(":")
    if colon and prefix in _prefixes:
        raise DataError(f"{name} is read in place and needs no `get`; use the name {name!r} directly")
    source = find(name)
    origin = None if source_folder is None else Path(source_folder).expanduser()
    if origin is not None and not origin.exists():
        raise DataError(f"--from {origin}: no such file or folder. {source.where}")
    folder = cache.folder_of(name, root)
    if again or origin is not None or not cache.is_filled(folder):
        source.prepare(origin, folder)
    return folder
