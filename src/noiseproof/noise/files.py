# SPDX-License-Identifier: Apache-2.0
"""Noise that lies in a file, checked against the data that it is for; nothing in a file is ever run.

====================  ==================================================================================
``.npz``              what :meth:`NoisyLabels.save` and :meth:`NoisyMasks.save` wrote, bound to its data
``.npy``              an array of whole numbers
``.txt``              one label a line
``.csv``              one column, or a heading with a column ``label`` and perhaps ``index``
====================  ==================================================================================

All but the first say nothing of the data that they belong to: their labels must be in its order, and the true
labels are the data's own.
"""

import csv
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseproof.noise.checks import Labels, checked_labels
from noiseproof.noise.masks import NoisyMasks
from noiseproof.noise.names import FILE_ENDINGS
from noiseproof.noise.record import NoisyLabels
from noiseproof.noise.storage import FilePath

MOST_BYTES_A_LINE = 1_000
"""Of a text; one that has more for each label is taken for something else."""

LARGEST_EXCESS = 0.05
"""Labels that agree with the true ones no more often than by chance, and so little more, are in another order."""

SPREAD = 2.0
"""Likewise, in standard deviations of chance."""

SHOWN = 60
"""Characters of a text in a message."""


def read_labels(
    path: FilePath, clean: ArrayLike, num_classes: int, class_names: Sequence[str] = ()
) -> NoisyLabels:
    """Read given labels from a file, for the data whose true labels are ``clean``.

    Args:
        path: A file that ends in ``.npz``, ``.npy``, ``.csv`` or ``.txt``.
        clean: The true labels, in the order of the file.
        num_classes: K; labels lie in [0, K).
        class_names: Names of the classes, which a ``.csv`` or ``.txt`` may hold in place of numbers.

    Returns:
        The record that was saved; of labels without one, a record of the kind ``file``.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is damaged, holds something else, or does not fit ``clean``; the message says which.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "given.txt")
        ...     _ = path.write_text("0\\n2\\n2\\n")
        ...     read_labels(path, clean=[0, 1, 2], num_classes=3).flipped
        array([False,  True, False])
    """
    true_labels = checked_labels(clean, num_classes, name="clean")
    ending = _ending(path)
    if ending == ".npz":
        noisy = NoisyLabels.load(path, clean=true_labels)
        if noisy.num_classes != num_classes:
            raise ValueError(
                f"{path} was made for {noisy.num_classes} classes, and the data has {num_classes}; make it again "
                f"with num_classes={num_classes}"
            )
        return noisy
    if ending == ".npy":
        found = _array(path, true_labels.size)
    else:
        texts = _texts(path, ending, true_labels.size, class_names)
        found = _as_labels(path, texts, class_names)
    given = _fitting(path, found, true_labels.size, num_classes)
    _warn_of_another_order(path, given, true_labels, num_classes)
    return NoisyLabels(given, true_labels, num_classes, "file", details={"file": Path(path).name})


def read_masks(path: FilePath, clean: ArrayLike) -> NoisyMasks:
    """Read given masks that :meth:`NoisyMasks.save` wrote, for the data whose true masks are ``clean``.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is damaged, holds something else, or belongs to other masks.
    """
    if (ending := _ending(path)) != ".npz":
        raise ValueError(
            f"{path}: masks are read from .npz files, as noiseproof noise saves them, got {ending}"
        )
    return NoisyMasks.load(path, clean=clean)


def _ending(path: FilePath) -> str:
    ending = Path(path).suffix.lower()
    if ending in (".pt", ".pth", ".pkl", ".pickle"):
        raise ValueError(
            f"{path}: a pickle can run code and is not read here; save the labels with numpy.save as .npy. Of the "
            "official CIFAR-N files, noiseproof noise cifar10 --kind human --file FILE --out worse.npz makes one"
        )
    if ending not in FILE_ENDINGS:
        raise ValueError(
            f"{path}: noise is read from files that end in {', '.join(FILE_ENDINGS)}, got {ending!r}"
        )
    if not os.path.isfile(path):
        found = "a folder" if os.path.isdir(path) else "nothing"
        raise FileNotFoundError(f"no file {path} to read noise from: there is {found}")
    return ending


def _array(path: FilePath, count: int) -> NDArray[np.generic]:
    """The array of an ``.npy`` file; mapped, so that a size it only claims takes no memory."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # on damaged bytes NumPy raises nearly every kind
        # Of any other file NumPy says that it may be a pickle, and how to run it.
        found = "it is another kind of file" if "pickle" in str(error) else error
        raise ValueError(f"{path} is not a readable .npy file, or a part of one: {found}") from error
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{path} holds several arrays, as .npz files do; expected one of {count} labels")
    if found.dtype.kind not in "iu":
        raise ValueError(
            f"{path} must hold whole numbers, got dtype {found.dtype}; save the labels with .astype(int)"
        )
    if found.shape != (count,):
        raise ValueError(f"{path} must hold {count} labels, one a training sample, got shape {found.shape}")
    return found


def _texts(path: FilePath, ending: str, count: int, class_names: Sequence[str]) -> list[str]:
    """Labels as they are written, in the order of the data."""
    most = MOST_BYTES_A_LINE * (count + 1)
    if (size := os.path.getsize(path)) > most:
        raise ValueError(
            f"{path} must hold {count} labels, got {size} bytes, more than any {count} labels take"
        )
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be a text in UTF-8: {error}") from error
    if ending == ".txt":
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read as CSV: {error}") from error
    return _column(path, [[cell.strip() for cell in row] for row in rows], count, class_names)


def _column(path: FilePath, rows: list[list[str]], count: int, class_names: Sequence[str]) -> list[str]:
    """The column with the labels; where there is one with indices, in their order."""
    heading = rows[0] if rows else []
    if len(heading) == 1:
        is_label = heading[0] in class_names or next(_numbers(heading)) is not None
        places, labels, below = None, 0, rows if is_label else rows[1:]
    elif heading.count("label") == 1 and heading.count("index") <= 1:
        places = heading.index("index") if "index" in heading else None
        labels, below = heading.index("label"), rows[1:]
    else:
        advice = "; a list of pictures is a data set: noiseproof train csv:FILE" if "path" in heading else ""
        raise ValueError(
            f"{path} must have one column, or a heading with one column label and perhaps one index, got "
            f"{_cut(','.join(heading))}{advice}"
        )
    for number, row in enumerate(below, start=1):
        if len(row) != len(heading):
            raise ValueError(
                f"{path} must have {len(heading)} columns throughout, got {len(row)} in row {number}"
            )
    if places is None:
        return [row[labels] for row in below]
    by_index = {row[places]: row[labels] for row in below}
    if len(below) != count or by_index.keys() != {str(index) for index in range(count)}:
        raise ValueError(
            f"{path} must have each index from 0 to {count - 1} once, got {len(below)} rows with "
            f"{len(by_index)} different ones"
        )
    return [by_index[str(index)] for index in range(count)]


def _as_labels(path: FilePath, texts: Sequence[str], class_names: Sequence[str]) -> Labels:
    """Whole numbers as they are, 3.0 for 3 too, and else names of classes."""
    numbers = list(_numbers(texts))
    index_of = {name: index for index, name in enumerate(class_names)}
    if None not in numbers:
        _refuse_two_readings(path, texts, numbers, [index_of.get(text) for text in texts])
        return np.array(numbers, dtype=np.int64)
    try:
        return np.array([index_of[text] for text in texts], dtype=np.int64)
    except KeyError:
        place = next(place for place, text in enumerate(texts) if text not in index_of)
        if not any(text in index_of for text in texts):
            place = numbers.index(None)
        raise ValueError(
            f"{path} must hold class indices, or names of classes throughout, got {_cut(texts[place])} as label "
            f"{place}"
        ) from None


def _refuse_two_readings(
    path: FilePath, texts: Sequence[str], numbers: Sequence[int | None], named: Sequence[int | None]
) -> None:
    """Classes may be called 1, 10 and 2: then a name is a number, but not that of the class."""
    if None in named or numbers == named:
        return
    place = next(
        place for place, (number, index) in enumerate(zip(numbers, named, strict=True)) if number != index
    )
    raise ValueError(
        f"{path} can be read in two ways: label {place}, {_cut(texts[place])}, is an index, and the name of class "
        f"{named[place]}; save class indices with numpy.save as .npy instead"
    )


def _numbers(texts: Sequence[str]) -> Iterator[int | None]:
    for text in texts:
        try:
            value = float(text) if len(text) <= SHOWN else float("nan")
        except ValueError:
            value = float("nan")
        yield int(value) if value.is_integer() and abs(value) < 2**53 else None


def _fitting(path: FilePath, found: ArrayLike, count: int, num_classes: int) -> Labels:
    array = np.asarray(found)
    if array.size != count:
        raise ValueError(f"{path} must hold {count} labels, one a training sample, got {array.size}")
    smallest, largest = int(array.min()), int(array.max())
    if smallest < 0 or largest >= num_classes:
        advice = "; subtract 1: they count from 0 here" if (smallest, largest) == (1, num_classes) else ""
        raise ValueError(
            f"{path} must hold labels from 0 to {num_classes - 1}, got {smallest} to {largest}{advice}"
        )
    return checked_labels(array, num_classes)


def _warn_of_another_order(path: FilePath, given: Labels, clean: Labels, num_classes: int) -> None:
    shares = [np.bincount(labels, minlength=num_classes) / labels.size for labels in (given, clean)]
    chance = float(shares[0] @ shares[1])
    spread = SPREAD * float(np.sqrt(chance * (1 - chance) / given.size))
    agreement = float(np.mean(given == clean))
    if agreement <= chance + min(spread, LARGEST_EXCESS) and chance < 1:
        warnings.warn(
            f"{path}: {agreement:.1%} of its labels are the true ones, no more than by chance ({chance:.1%}): are "
            "they of other data, or in another order?",
            stacklevel=3,
        )


def _cut(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
