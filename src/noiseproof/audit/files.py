# SPDX-License-Identifier: Apache-2.0
"""What an audit leaves behind: ``suspects.csv``, ``cleaned.csv``, ``audit.json``; written whole or not at all."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from noiseproof.audit.corrections import earlier_decisions
from noiseproof.audit.scores import LabelAudit
from noiseproof.datasets import BadFileError, LabeledData
from noiseproof.spreadsheet import number_as_text, safe_cell

SUSPECTS = "suspects.csv"
CLEANED = "cleaned.csv"
CORRECTED = "corrected.csv"
SUMMARY = "audit.json"
PROBABILITIES = "probabilities.npy"
SUSPECT_COLUMNS = ("index", "path", "given", "suggested", "score", "decision")


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A text file that takes the place of ``path`` once all of it is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # A file name may hold bytes that are no text; they come out as they are.
        with temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_bytes(path: Path) -> Iterator[BinaryIO]:
    """Likewise a file of bytes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_suspects(found: LabelAudit, data: LabeledData, path: Path) -> tuple[int, int]:
    """Write every suspect label, the worst first, with a column for a decision.

    Decisions that were written into an earlier file at ``path`` stay, also on samples that are suspect no more; a
    file there that cannot be read is kept beside it as ``NAME.earlier``.

    Returns:
        how many are suspect, and how many have a decision.
    """
    names = data.class_names
    order = found.worst_first
    decisions = _decisions_at(path, data)
    with replacing(path) as file:
        writer = csv.writer(file)
        writer.writerow(SUSPECT_COLUMNS)
        suspects = order[found.suspect[order]].tolist()
        for index in [*suspects, *sorted(set(decisions).difference(suspects))]:
            writer.writerow(
                [
                    index,
                    safe_cell(str(data.paths[index])) if data.paths is not None else "",
                    _kept_as_text(names[found.given[index]]),
                    _kept_as_text(names[found.suggested[index]]),
                    f"{found.scores[index]:.4f}",
                    safe_cell(decisions.get(index, "")),
                ]
            )
    return len(suspects), len(decisions)


def _kept_as_text(name: str) -> str:
    """A class name for a cell; a spreadsheet would take the zeros before a number away."""
    return number_as_text(name) if name.isdecimal() and name != str(int(name)) else safe_cell(name)


def _decisions_at(path: Path, data: LabeledData) -> dict[int, str]:
    if not path.exists():
        return {}
    try:
        return earlier_decisions(data, path)
    except BadFileError:
        path.replace(path.with_name(f"{path.name}.earlier"))
        return {}


def write_labels(
    data: LabeledData,
    labels: NDArray[np.int64],
    path: Path,
    *,
    kept: Iterable[int] | None = None,
    others: Sequence[LabeledData] = (),
) -> None:
    """Write a label for every sample that is kept: with paths as ``csv:FILE`` reads them, else with indices.

    Args:
        data: the samples, with their given labels.
        labels: their new ones.
        path: of the file.
        kept: indices of samples that are written; all by default.
        others: further splits, whose labels stay: who trains on the file tests on what was there to test on.
    """
    with replacing(path) as file:
        writer = csv.writer(file)
        where = "path" if data.paths is not None else "index"
        writer.writerow([where, "label", "given", *(["split"] if others else [])])
        for index in range(len(data)) if kept is None else kept:
            writer.writerow(_label_row(data, index, int(labels[index]), path.parent, bool(others)))
        for other in others:
            for index, label in enumerate(other.labels.tolist()):
                writer.writerow(_label_row(other, index, label, path.parent, with_split=True))


def _label_row(data: LabeledData, index: int, label: int, folder: Path, with_split: bool) -> list[str]:
    where = str(index) if data.paths is None else _from(folder, data.paths[index])
    names = [_class_cell(data.class_names, each) for each in (label, data.labels[index])]
    return [where, *names, *([data.split] if with_split else [])]


def _class_cell(class_names: Sequence[str], index: int) -> str:
    """A class as ``csv:FILE`` reads it: digits would be an index there, which the names of folders may not be."""
    name = class_names[index]
    return number_as_text(name) if name.isdecimal() and name != str(index) else safe_cell(name)


def _from(folder: Path, path: Path) -> str:
    """A path as seen from a folder; ``./`` in front keeps a spreadsheet from reading a formula."""
    try:
        seen = os.path.relpath(path, folder)
    except ValueError:  # another drive
        seen = str(path.absolute())
    return f"./{seen}" if safe_cell(seen) != seen else seen


def write_summary(found: LabelAudit, data: LabeledData, path: Path, facts: dict[str, Any]) -> None:
    """Write what was estimated, as JSON."""
    summary = {
        "data": data.name,
        "samples": len(found),
        "suspects": int(found.suspect.sum()),
        "noise_rate": round(found.noise_rate, 6),
        "disagreement": round(found.disagreement, 6),
        "class_names": list(data.class_names),
        "class_noise_rates": found.noise.class_rates.round(6).tolist(),
        "transition": found.transition.round(6).tolist(),
        "transition_rows": "true class",
        "score": found.score_name,
        **facts,
    }
    with replacing(path) as file:
        json.dump(summary, file, indent=2, ensure_ascii=False)


def likely_flips(
    found: LabelAudit, class_names: Sequence[str], most: int = 10
) -> list[tuple[str, str, float, int]]:
    """Return the confusions that explain most suspects: true class, given class, share of the true class, count.

    The share is the estimated transition matrix's, the count that of suspects with this suggestion.
    """
    count = len(class_names)
    cells = np.bincount(found.suggested[found.suspect] * count + found.given[found.suspect], minlength=1)
    order = np.argsort(-cells, kind="stable")[:most]
    return [
        (
            class_names[cell // count],
            class_names[cell % count],
            float(found.transition[cell // count, cell % count]),
            int(cells[cell]),
        )
        for cell in order.tolist()
        if cells[cell]
    ]
