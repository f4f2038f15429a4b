# SPDX-License-Identifier: Apache-2.0
"""What a fuzz target is, and whether what it raised is an error of our own."""

import functools
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """One reader.

    Attributes:
        name: of the target and its corpus.
        read: feeds bytes to the reader, with a folder to write them in.
        modules: the reader's own modules, each with the functions that read where others stand in it too; their
            lines are counted.
        errors: names of the classes that it may raise.
    """

    name: str
    read: Callable[[bytes, Path], object]
    modules: tuple[str, ...]
    errors: tuple[str, ...] = ("BadFileError",)


class NotOurOwnError(Exception):
    """What a reader raised is not an error of noiseproof's own."""


def run(target: Target, content: bytes, folder: Path) -> None:
    """Feed bytes to a reader.

    Raises:
        NotOurOwnError: it raised what it should not; the message says what and where.
    """
    try:
        target.read(content, folder)
    except Exception as error:
        if type(error).__name__ not in target.errors or not _raised_by_us(error):
            raise NotOurOwnError(f"{type(error).__name__} at {place_of(error)}: {error}"[:400]) from error


def place_of(error: BaseException) -> str:
    """Where an error was raised, and the last place in noiseproof on the way there."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "noiseproof" in Path(frame.filename).parts]
    places = [f"{Path(frame.filename).name}:{frame.name}" for frame in [frames[-1], *ours[-1:]]]
    return " from ".join(dict.fromkeys(places))


def _raised_by_us(error: BaseException) -> bool:
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = "noiseproof" in Path(last.filename).parts
    return is_ours and source(last.filename)[(last.lineno or 1) - 1].strip().startswith("raise")


@functools.cache
def source(file: str) -> list[str]:
    """The lines of a file as they were when it was first looked at: it may be edited while fuzzing goes on."""
    return Path(file).read_text(encoding="utf-8").splitlines()


def written(folder: Path, name: str, content: bytes) -> Path:
    """The path of a file with these bytes."""
    path = folder / name
    path.write_bytes(content)
    return path
