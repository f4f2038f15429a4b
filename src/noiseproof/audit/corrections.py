# SPDX-License-Identifier: Apache-2.0
"""Corrections by a person: ``suspects.csv`` comes back with decisions, and labels are changed by them alone.

The column ``decision`` holds, for each row that was looked at: ``keep`` (the given label is right), ``change``
(take the suggested one), ``drop`` (leave the sample out), or the name of another class, as ``label:NAME`` where a
class bears one of these names. Rows without a decision keep their label. Spreadsheets save CSV with commas,
semicolons or tabs, and make a word's first letter a capital: all of it is read.
"""

import codecs
import csv
import difflib
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import LabeledData
from noiseproof.datasets.errors import BadFileError
from noiseproof.spreadsheet import original_text

NEEDED = ("index", "given", "suggested", "decision")
WORDS = ("keep", "change", "drop")
LABEL = "label:"
SEPARATORS = ",;\t"
MOST_DIGITS = 18


@dataclass(frozen=True, eq=False)
class Corrected:
    """Labels after a review.

    Attributes:
        labels: of all samples (N,).
        kept: indices of the samples that were not dropped, ascending.
        changed: how many have another label than before.
        confirmed: how many were looked at and kept.
        dropped: how many were left out.
        undecided: rows of the file without a decision.
    """

    labels: NDArray[np.int64]
    kept: NDArray[np.int64]
    changed: int
    confirmed: int
    dropped: int
    undecided: int


def apply_review(data: LabeledData, reviewed: Path) -> Corrected:
    """Read a reviewed file and return the labels that it asks for.

    Raises:
        BadFileError: a row does not fit the data (its ``given`` is not the sample's label, or its ``path`` names
            another file), a decision is not known, or a sample stands in the file twice with different decisions.
    """
    labels = data.labels.copy()
    dropped: set[int] = set()
    decisions: dict[int, str] = {}
    confirmed = undecided = 0
    for line, row in _rows(reviewed):
        index = _index(reviewed, line, row["index"], len(data))
        if original_text(row["given"]) != data.class_names[data.labels[index]]:
            raise BadFileError(
                reviewed,
                f"given {data.class_names[data.labels[index]]!r} for sample {index} on line {line}",
                repr(original_text(row["given"])),
                "was this file made from other data, or from labels that were changed since?",
            )
        if data.paths is not None:
            _check_file(reviewed, line, original_text(row.get("path", "")), index, data.paths[index])
        decision = _decision(row["decision"], data.class_names)
        if not decision:
            undecided += 1
            continue
        if decisions.setdefault(index, decision) != decision:
            raise BadFileError(
                reviewed,
                f"one decision for sample {index}",
                f"{decisions[index]!r}, and {decision!r} on line {line}",
            )
        if decision == "drop":
            dropped.add(index)
        elif decision == "keep":
            confirmed += 1
        else:
            named = original_text(row["suggested"]) if decision == "change" else decision.removeprefix(LABEL)
            labels[index] = _class(reviewed, line, named, data.class_names)
    kept = np.setdiff1d(np.arange(len(data)), np.array(sorted(dropped), dtype=np.int64))
    changed = int((labels[kept] != data.labels[kept]).sum())
    return Corrected(labels, kept, changed, confirmed, len(dropped), undecided)


def earlier_decisions(data: LabeledData, reviewed: Path) -> dict[int, str]:
    """Decisions, as they stand in a file, on samples that still have the label they were made for.

    Raises:
        BadFileError: it is no file of suspects.
    """
    found = {}
    for line, row in _rows(reviewed):
        index = _index(reviewed, line, row["index"], max(len(data), 1 << 62))
        same = index < len(data) and original_text(row["given"]) == data.class_names[data.labels[index]]
        if data.paths is not None:
            same = same and original_text(row.get("path", "")) == str(data.paths[index])
        if same and row["decision"].strip():
            found[index] = row["decision"].strip()
    return found


def _check_file(reviewed: Path, line: int, said: str, index: int, file: Path) -> None:
    """Refuse a row about another file than the sample's. Folders are not compared, for they may have been moved."""
    # A browser or a spreadsheet may change letters that cannot be shown.
    if said and file.name.isprintable() and re.split(r"[/\\]", said)[-1] != re.split(r"[/\\]", str(file))[-1]:
        raise BadFileError(
            reviewed,
            f"the image {file.name} for sample {index} on line {line}",
            said,
            "apply it to the data that was audited, with the same files in it",
        )


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    if not path.is_file():
        raise BadFileError(path, "a reviewed suspects.csv", "nothing")
    with path.open(encoding=_encoding(path), newline="", errors="surrogateescape") as file:
        found: list[tuple[list[str], list[tuple[int, dict[str, str]]]]] = []
        for separator in SEPARATORS:
            file.seek(0)
            reader = csv.DictReader(file, delimiter=separator, restkey="too many", restval="")
            try:
                columns = reader.fieldnames or []
                missing = [name for name in NEEDED if name not in columns]
                found.append((missing, [] if missing else [(reader.line_num, row) for row in reader]))
            except (csv.Error, UnicodeError) as error:
                raise BadFileError(path, "CSV text", f"after line {reader.line_num}: {error}") from error
            if not missing:
                break
    missing, rows = min(found, key=lambda each: len(each[0]))
    if missing:
        raise BadFileError(path, f"the columns {', '.join(NEEDED)}", f"no {' and no '.join(missing)}")
    return rows


def _encoding(path: Path) -> str:
    """UTF-8, or the UTF-16 in which a spreadsheet saves "Unicode text"; the first two bytes tell."""
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def _decision(cell: str, class_names: tuple[str, ...]) -> str:
    """A cell's decision; its words in small letters, unless a class is called just that."""
    decision = original_text(cell.strip())
    if decision in class_names:
        return decision
    if decision.lower() in WORDS:
        return decision.lower()
    if decision[: len(LABEL)].lower() == LABEL:
        return LABEL + decision[len(LABEL) :]
    return decision


def _index(path: Path, line: int, text: str, count: int) -> int:
    text = text.strip()
    # Python itself refuses to read thousands of digits as a number.
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) >= count:
        raise BadFileError(path, f"an index from 0 to {count - 1} on line {line}", repr(text[:40]))
    return int(text)


def _class(path: Path, line: int, name: str, class_names: tuple[str, ...]) -> int:
    if name in class_names:
        return class_names.index(name)
    near = difflib.get_close_matches(name, (*WORDS, *class_names), n=1)
    raise BadFileError(
        path,
        f"{', '.join(WORDS)} or a class on line {line}",
        repr(name),
        f"did you mean {near[0]!r}?" if near else f"classes: {', '.join(class_names[:20])}",
    )
