# SPDX-License-Identifier: Apache-2.0
"""Results in a file: one JSON object a line, one file a table, small enough to be kept under version control."""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseproof.datasets.cache import replacing_file
from noiseproof.results.result import Result, line_of_result, result_of_line, result_of_record
from noiseproof.training.run_lock import alone_with

if TYPE_CHECKING:
    from noiseproof.training.run_record import RunRecord

CHECKSUM = "checksum"
"""What a line calls its own; lines from before there were any have none."""

_ADVICE = (
    "Put back a copy of the file, or remove that line: its run is then taken from the runs folder, or "
    "trained again"
)


def write_records(
    path: Path,
    records: "Iterable[RunRecord]",
    *,
    labels: Mapping[str, str],
    variant: str | None = None,
) -> None:
    """Add finished runs to a results file, whole or not at all.

    A line of the same config is replaced where it stands; all other lines stay as they are, new ones come after
    them. Runs that have not finished are left out: they have no result yet.

    Args:
        path: the file, by custom ``results/<table>.jsonl``; made where there is none.
        records: runs with their epochs, as :meth:`noiseproof.training.store.Store.get` returns them.
        labels: the method's label in its table, by config hash; the loss's name where there is none.
        variant: what sets all of these apart from the table's own runs, if anything.
    """
    finished = [record for record in records if record.status == "finished"]
    results = [
        result_of_record(record, labels.get(record.config_hash), variant=variant) for record in finished
    ]
    write_results(path, results)


def write_results(path: Path, results: Iterable[Result]) -> None:
    """Add results to a file, as :func:`write_records` does; of several processes, one after the other.

    Every line states a checksum of itself: lines decide what is trained, and what a table says.

    Raises:
        ValueError: a line of the file is no result, or was changed since it was written.
        OSError: the file cannot be read or written; it is as it was.
        TimeoutError: another process has had it for a minute.
    """
    path = Path(os.path.realpath(path))  # whoever comes by a link waits for the same lock
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone_with(path):
        lines = {hash_: text for hash_, text, _ in _lines(path)} if path.exists() else {}
        for result in results:
            line = _without_nan(line_of_result(result))
            line[CHECKSUM] = _checksum(line)
            lines[result.config_hash] = json.dumps(line, ensure_ascii=False, allow_nan=False)
        with replacing_file(path) as file:
            file.write("".join(f"{text}\n" for text in lines.values()).encode())


def read_records(path: Path) -> list[Result]:
    """Read a results file, in its order.

    Raises:
        ValueError: a line is no result, or was changed since it was written; the message names file and line.
    """
    return [result for _, _, result in _lines(Path(path))]


def _lines(path: Path) -> list[tuple[str, str, Result]]:
    """Config hash, text and result of each line."""
    found = []
    if path.is_char_device() or path.is_block_device():  # some never end
        raise ValueError(f"{path}: expected a results file, found a device")
    raw = path.read_bytes()
    try:
        content = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {number}: expected UTF-8 text, found other bytes ({error}). {_ADVICE}"
        ) from error
    for number, text in enumerate(content.split("\n"), 1):
        if not text.strip():
            continue
        try:
            data = json.loads(text)
            if "\\ud" in text.lower():  # half a character, which no file could be written with
                json.dumps(data, ensure_ascii=False).encode()
            if not isinstance(data, dict):
                raise ValueError(f"expected a JSON object, got a {type(data).__name__}")
            result = result_of_line(data)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: no result: {error}. {_ADVICE}") from error
        if CHECKSUM in data and data.pop(CHECKSUM) != _checksum(data):
            raise ValueError(
                f"{path}, line {number}: it was changed since it was written: it is not what its checksum says. "
                f"{_ADVICE}; if the change is meant, remove the line's {CHECKSUM}"
            )
        found.append((result.config_hash, text, result))
    return found


def _checksum(line: Mapping[str, Any]) -> str:
    """Of everything else that a line says, in whatever order it says it."""
    return hashlib.sha256(json.dumps(line, sort_keys=True).encode()).hexdigest()[:16]


def _without_nan(value: Any) -> Any:
    """The same with None for numbers that JSON does not know."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return value
