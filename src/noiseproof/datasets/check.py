# SPDX-License-Identifier: Apache-2.0
"""Look a data set over: is it whole, is it what it says, and what should one know before training on it.

A *fault* is something that should not be; a *note* is something true of the data that is good to know
(CIFAR has doubles, for instance, and they are not a fault of the copy).
"""

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import cache, registry
from noiseproof.datasets.decode import Size, decode_rgb
from noiseproof.datasets.errors import BadFileError, DataError, NoSuchSplitError, shortened
from noiseproof.datasets.folders import VOID
from noiseproof.datasets.folders import read as read_folder
from noiseproof.datasets.labeled_data import SPLITS, LabeledData

MOST_FILES_READ = 100_000
MOST_NAMED = 20
LOOKED_AT: Size = (64, 64)  # a JPEG file is read through to its end all the same, at an eighth of the work
RARE = 0.1


@dataclass(frozen=True)
class Finding:
    """One thing looked at: whether it is fine, what was looked at, and what was seen."""

    level: Literal["fine", "note", "fault"]
    subject: str
    text: str


@dataclass(frozen=True)
class Report:
    """All findings on one data set, the picture files that cannot be read, and the files that are no pictures."""

    name: str
    findings: tuple[Finding, ...]
    unreadable: tuple[Path, ...] = ()
    strays: tuple[Path, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether there is no fault."""
        return all(finding.level != "fault" for finding in self.findings)


def check(
    name: str, *, root: Path | str | None = None, side: int | None = None, every_file: bool = False
) -> Report:
    """Check a data set: checksums, counts, shapes, label range, class balance, duplicates, fingerprints.

    Args:
        name: a registered name, or ``prefix:PATH``.
        root: the cache folder; by default ``NOISEPROOF_DATA``, else the platform's cache folder.
        side: size to which images with masks are resized, as for :func:`~noiseproof.datasets.load`.
        every_file: read all image files, even if they are more than :data:`MOST_FILES_READ`.

    Raises:
        UnknownDataError: no set has that name.
        NotInCacheError: there is nothing to check yet.

    Example:
        >>> report = check("digits")
        >>> report.is_sound
        True
        >>> [finding.text for finding in report.findings if finding.subject == "test class balance"]
        ['35 to 37 per class (10 classes)']
    """
    findings: list[Finding] = []
    facts = {}
    present: Collection[str] = ()
    expected: Collection[str] = SPLITS
    if ":" not in name:
        source = registry.find(name)
        facts = {known.split: known for known in source.facts}
        present = expected = source.splits
        if not source.embedded:
            folder = registry.filled_folder(source, root)
            present = cache.manifest_of(folder)["facts"].get("splits", source.splits)
            findings.append(_checksums(folder))
    splits: dict[str, LabeledData] = {}
    strays: list[Path] = []
    for split in expected:
        others: list[Path] = []
        try:
            splits[split] = load_without_strays(name, split, others, root=root, side=side)
        except (DataError, OSError, ValueError) as error:
            # A split that was never there is worth a note; one that is there and cannot be read is a fault.
            may_be_absent = (NoSuchSplitError,) if split == "train" else (DataError, NoSuchSplitError)
            is_absent = split not in present and type(error) in may_be_absent
            text = str(error)
            if not any(text == finding.text for finding in findings):  # a list is one file for all splits
                findings.append(Finding("note" if is_absent else "fault", f"{split} split", text))
        findings += _look_at_strays(split, others)
        strays += others
    if not splits:
        findings.append(Finding("fault", "splits", "none can be read"))
    broken: list[BadFileError] = []
    for split, data in splits.items():
        found = _broken(data) if every_file or len(data) <= MOST_FILES_READ else None
        findings += _look_at(data, facts.get(split), found)
        findings += _look_at_classes(name, data) if split == "train" and data.masks is None else ()
        broken += found or []
    unreadable = tuple(error.path for error in broken)
    # Broken files may well have the same bytes, or none: they are not one picture for that.
    findings += _doubles({split: without(data, unreadable) for split, data in splits.items()})
    findings += [Finding("fine", f"{split} fingerprint", data.fingerprint) for split, data in splits.items()]
    return Report(name, tuple(findings), unreadable, tuple(strays))


def load_without_strays(
    name: str, split: str, strays: list[Path], *, root: Path | str | None = None, side: int | None = None
) -> LabeledData:
    """Load as :func:`~noiseproof.datasets.load` does, but leave out what is no picture in a ``folder:PATH``.

    Args:
        name: a registered name, or ``prefix:PATH``.
        split: ``"train"``, ``"test"`` or ``"validation"``.
        strays: files in class folders that are no pictures are added to it.
        root: the cache folder.
        side: size to which images with masks are resized.
    """
    prefix, _, path = name.partition(":")
    if prefix == "folder" and path:
        return read_folder(Path(path).expanduser(), split, side=side, strays=strays)
    return registry.load(name, split, root=root, side=side)


def without(data: LabeledData, files: Collection[Path]) -> LabeledData:
    """Return the samples whose picture is none of these files."""
    if data.paths is None or not files:
        return data
    left_out = set(files)
    return data.subset([index for index, path in enumerate(data.paths) if path not in left_out])


def _look_at_strays(split: str, strays: list[Path]) -> Iterable[Finding]:
    if strays:
        one = len(strays) == 1
        head = "1 file is no image; move it" if one else f"{len(strays)} files are no images; move them"
        head += " elsewhere, or use the list that --readable writes:"
        yield Finding("fault", f"{split} stray files", _listed(head, list(map(str, strays))))


def _checksums(folder: Path) -> Finding:
    try:
        checked = cache.verify(folder)
    except BadFileError as error:
        return Finding("fault", "checksums", str(error))
    return Finding("fine", "checksums", f"{len(checked)} arrays are as they were written")


def _look_at(
    data: LabeledData, facts: registry.SplitFacts | None, broken: list[BadFileError] | None
) -> Iterable[Finding]:
    split = data.split
    yield _compare(f"{split} count", f"{len(data)}", f"{facts.count}" if facts else None)
    if data.images is not None:
        expected = str(facts.image_shape) if facts and facts.image_shape else None
        yield _compare(f"{split} image shape", str(data.images.shape[1:]), expected)
    if data.paths is not None:
        missing = [path for path in data.paths if not path.is_file()]
        verb = "is" if len(missing) == 1 else "are"
        found = (
            f"{len(missing)} of {len(data)} files {verb} missing, the first {missing[0]}" if missing else ""
        )
        yield Finding("fault" if missing else "fine", f"{split} files", found or f"all {len(data)} are there")
        yield _told(data, broken)
    if data.masks is not None:
        yield from _look_at_masks(data)
        return
    if facts and facts.labels_fingerprint:
        yield _compare(f"{split} labels", data.labels_fingerprint, facts.labels_fingerprint)
    yield from _look_at_balance(data)
    if data.uncertain is not None:
        yield Finding(
            "note", f"{split} order", f"the position of {len(data.uncertain)} images is not certain"
        )


def _told(data: LabeledData, broken: list[BadFileError] | None) -> Finding:
    subject = f"{data.split} images"
    if broken is None:
        return Finding("note", subject, f"not checked: {len(data)} files are too many to read")
    if not broken:
        return Finding("fine", subject, "all can be read")
    named = [f"{error.path}: {error.found}" for error in broken]
    return Finding("fault", subject, _listed(f"{len(broken)} cannot be read:", named))


def _listed(head: str, named: list[str]) -> str:
    more = [f"… and {len(named) - MOST_NAMED} more"] * (len(named) > MOST_NAMED)
    return "\n".join([head, *named[:MOST_NAMED], *more])


def _broken(data: LabeledData) -> list[BadFileError]:
    """Why picture files of a split cannot be read, for those that cannot. Every file is read to its end."""

    def fault(path: Path) -> BadFileError | None:
        try:
            decode_rgb(path, at_least=lambda _: LOOKED_AT)
        except BadFileError as error:
            return error
        return None

    if data.paths is None:
        return []
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
        return [error for error in threads.map(fault, data.paths) if error is not None]


def _compare(subject: str, found: str, expected: str | None) -> Finding:
    if expected is None or found == expected:
        return Finding("fine", subject, found)
    return Finding("fault", subject, f"expected {expected}, found {found}")


def _look_at_balance(data: LabeledData) -> Iterable[Finding]:
    counts = np.bincount(data.labels, minlength=data.num_classes)
    seen = np.flatnonzero(counts)
    found = f"{data.labels.min()}..{data.labels.max()}" if len(data) else "no labels"
    yield Finding("fine" if len(data) else "fault", f"{data.split} label range", found)
    least, most = int(counts.min()), int(counts.max())
    text = f"{least} per class" if least == most else f"{least} to {most} per class"
    yield Finding("fine", f"{data.split} class balance", f"{text} ({data.num_classes} classes)")
    rare = [(data.class_names[index], counts[index]) for index in seen if counts[index] < RARE * most]
    if rare:
        named = shortened((f"{name} ({count})" for name, count in rare), MOST_NAMED)
        yield Finding("note", f"{data.split} rare classes", f"below a tenth of the commonest: {named}")
    if len(seen) < data.num_classes:
        absent = [data.class_names[index] for index in np.flatnonzero(counts == 0)]
        named = ", ".join(absent[:5]) + (", ..." if len(absent) > 5 else "")
        yield Finding("note", f"{data.split} classes", f"{len(absent)} have no sample: {named}")


def _look_at_classes(name: str, data: LabeledData) -> Iterable[Finding]:
    if data.num_classes == 1:
        yield Finding("fault", f"{data.split} classes", _one_class(name, data))
        return
    for folder, below in _only_below(name, data):
        yield Finding(
            "note",
            f"{data.split} class folders",
            f"all images of class {folder.name} are in its sub-folders: {shortened(below, 5)}; if these are the "
            f"classes, use folder:{folder}",
        )


def check_several_classes(name: str, data: LabeledData) -> None:
    """Refuse data of a single class, which no model can be trained on and no audit can judge.

    Args:
        name: what the data was loaded by.
        data: one split of it.

    Raises:
        DataError: there is one class only.
    """
    if data.num_classes == 1:
        raise DataError(f"{name}: {_one_class(name, data)}")


def _one_class(name: str, data: LabeledData) -> str:
    advice = [f"did you mean folder:{folder}?" for folder, _ in _only_below(name, data)]
    return (
        f"expected two classes or more, got one, {data.class_names[0]!r}: there is nothing to tell apart; "
        + (advice or ["in a folder, each class has a sub-folder of its own"])[0]
    )


def _only_below(name: str, data: LabeledData) -> Iterable[tuple[Path, list[str]]]:
    """Class folders all of whose images lie in several folders below them: perhaps those are the classes."""
    prefix, _, text = name.partition(":")
    if prefix != "folder" or data.paths is None:
        return
    root = Path(text).expanduser()
    root = root / "train" if (root / "train").is_dir() else root
    below: dict[str, dict[str, None]] = {each: {} for each in data.class_names}
    for path in data.paths:
        if not path.is_relative_to(root):  # the name is short for a path that is not known here
            return
        class_name, *parts = path.relative_to(root).parts
        below[class_name][parts[0] if len(parts) > 1 else ""] = None
    for class_name, folders in below.items():
        if "" not in folders and len(folders) > 1:
            yield root / class_name, list(folders)


def _look_at_masks(data: LabeledData) -> Iterable[Finding]:
    assert data.masks is not None
    labelled = (mask[mask != VOID] for mask in data.masks)
    largest = max((int(each.max()) for each in labelled if each.size), default=0)
    void = any((mask == VOID).any() for mask in data.masks)
    found = f"0..{largest} ({data.num_classes} classes)" + (
        f", {VOID} for pixels without a label" if void else ""
    )
    yield Finding("fine" if largest < data.num_classes else "fault", f"{data.split} mask values", found)
    empty = sum(not mask.any() for mask in data.masks)
    if empty:
        yield Finding("note", f"{data.split} masks", f"{empty} have no foreground at all")


def _doubles(splits: Mapping[str, LabeledData]) -> Iterable[Finding]:
    files = sum(len(data) for data in splits.values() if data.paths is not None)
    if files > MOST_FILES_READ:
        yield Finding("note", "duplicates", f"not checked: {files} files are too many to read")
        return
    keys = content_keys(splits)
    counts = {split: Counter(found) for split, found in keys.items()}
    for split, counted in counts.items():
        extra = sum(count - 1 for count in counted.values())
        repeating = f"{extra} image repeats" if extra == 1 else f"{extra} images repeat"
        yield Finding(
            "note" if extra else "fine", f"{split} duplicates", f"{repeating} another of this split"
        )
        if extra and splits[split].masks is None:
            yield from _contradictions(splits[split], keys[split])
    others = [split for split in counts if split != "train"]
    for split in others if "train" in counts else []:
        shared = sum(count for key, count in counts[split].items() if key in counts["train"])
        which = f"1 {split} image is" if shared == 1 else f"{shared} {split} images are"
        text = f"{which} also in train"
        yield Finding("note" if shared else "fine", f"train and {split}", text)


def _contradictions(data: LabeledData, keys: list[object]) -> Iterable[Finding]:
    """Equal pictures with different labels: of these at least one is certainly wrong."""
    found = _of_several_labels(data, keys)
    if not found:
        return
    where = data.paths or range(len(data))
    named = [
        ", ".join(f"{where[index]} ({data.class_names[data.labels[index]]})" for index in group)
        for group in found
    ]
    which = "1 image has" if len(found) == 1 else f"{len(found)} images have"
    head = f"{which} several labels, of which at most one is right:"
    yield Finding("note", f"{data.split} labels of duplicates", _listed(head, named))


def _of_several_labels(data: LabeledData, keys: list[object]) -> list[list[int]]:
    groups: dict[object, list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    return [group for group in groups.values() if len({int(data.labels[each]) for each in group}) > 1]


def contradictions(data: LabeledData) -> list[list[int]]:
    """Indices of samples of equal content with different labels, of which one at most is right.

    A list for each content; empty where there are masks, or so many files that they are not read through.
    """
    if data.masks is not None or (data.paths is not None and len(data) > MOST_FILES_READ):
        return []
    return _of_several_labels(data, content_keys({data.split: data})[data.split])


def numbered_contents(data: LabeledData) -> NDArray[np.int64]:
    """A number a sample (N,), equal where the images are; of so many files that they are not read, each its own.

    Example:
        >>> data = LabeledData("pets", "train", np.array([0, 1, 0]), ("cat", "dog"),
        ...     images=np.array([7, 8, 7], np.uint8).reshape(3, 1, 1, 1))
        >>> numbered_contents(data)
        array([0, 1, 0])
    """
    if data.paths is not None and len(data) > MOST_FILES_READ:
        return np.arange(len(data))
    numbers: dict[object, int] = {}
    keys = content_keys({data.split: data})[data.split]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def content_keys(splits: Mapping[str, LabeledData]) -> dict[str, list[object]]:
    """Return one key an image, equal exactly when the content is.

    Files are compared by size first, and only those of equal size are read.
    """
    sizes = Counter(
        path.stat().st_size for data in splits.values() for path in data.paths or () if path.is_file()
    )
    keys: dict[str, list[object]] = {}
    for split, data in splits.items():
        if data.images is not None:
            keys[split] = [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in data.images]
        else:
            keys[split] = [_file_key(path, sizes) for path in data.paths or ()]
    return keys


def _file_key(path: Path, sizes: Mapping[int, int]) -> object:
    if not path.is_file() or sizes[path.stat().st_size] == 1:
        return path
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
