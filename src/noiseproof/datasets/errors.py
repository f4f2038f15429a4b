# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with data: each error says what was expected, what came, and what to do."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path


class DataError(Exception):
    """Any trouble with data: the base of the errors below, for one ``except``."""


class UnknownDataError(DataError, LookupError):
    """A name that no registered source carries."""


class NoSuchSplitError(DataError):
    """The set is there and sound, but has no such split."""


class NotInCacheError(DataError, FileNotFoundError):
    """The set is known but has not been fetched or read in yet."""


class UnavailableError(DataError, ConnectionError):
    """The set could not be had from where it lives; the message names the other ways to it."""


class BadFileError(DataError, ValueError):
    """A file that is corrupt, truncated, mislabelled or hostile.

    Args:
        path: the file at fault.
        expected: what a good file has there.
        found: what this file has.
        advice: what to do next.

    Example:
        >>> print(BadFileError(Path("train.gz"), expected="60000 labels", found="59999 labels"))
        train.gz: expected 60000 labels, found 59999 labels
        >>> print(BadFileError(Path("a.tar"), "a file", "a link", advice="fetch it again"))
        a.tar: expected a file, found a link; fetch it again
    """

    def __init__(self, path: Path | str, expected: str, found: str, advice: str = "") -> None:
        self.path = Path(path)
        self.expected = expected
        self.found = found
        self.advice = advice
        text = f"{path}: expected {expected}, found {found}"
        super().__init__(f"{text}; {advice}" if advice else text)


def shortened(names: Iterable[str], most: int) -> str:
    """The first names of many, and that there are more.

    >>> shortened(["a", "b"], 2), shortened(["a", "b", "c"], 2)
    ('a, b', 'a, b, …')
    """
    shown = list(islice(names, most + 1))
    return ", ".join(shown[:most]) + ", …" * (len(shown) > most)
