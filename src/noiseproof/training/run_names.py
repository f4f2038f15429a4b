# SPDX-License-Identifier: Apache-2.0
"""Names of runs: which are allowed, and which run is meant by a part of one."""

import difflib
import os
import sqlite3
from pathlib import Path
from typing import Any

from noiseproof.training.store_file import (
    DAMAGED_ADVICE,
    AmbiguousRunError,
    DamagedStoreError,
    UnknownRunError,
)

MAX_ID_BYTES = 200
"""File names hold 255 bytes; the rest is left for endings such as ``.safetensors``."""

COMPARED_IDS = 1000
"""Names, newest first, among which the nearest to an unknown one is looked for."""

NAMED_IDS = 5
"""Names that an error about several runs lists."""

_PORTS = {f"{port}{number}" for port in ("com", "lpt") for number in "123456789"}
_RESERVED_BY_WINDOWS = {"con", "prn", "aux", "nul"} | _PORTS


def checked_run_id(run_id: str) -> str:
    """Return ``run_id`` if every file system can hold it as a file name; raise ValueError if not.

    >>> checked_run_id("cifar10-sym-0.8-anl-ce-s1-3f2a91c0")
    'cifar10-sym-0.8-anl-ce-s1-3f2a91c0'
    >>> checked_run_id("../weights")
    Traceback (most recent call last):
    ValueError: run id: expected letters, digits and -._+= with a letter or digit first and last, got '../weights'
    """
    inside = isinstance(run_id, str) and all(c.isalnum() or c in "-._+=" for c in run_id)
    if not inside or not run_id or not (run_id[0].isalnum() and run_id[-1].isalnum()):
        raise ValueError(
            f"run id: expected letters, digits and -._+= with a letter or digit first and last, got {run_id!r}"
        )
    if run_id.partition(".")[0].lower() in _RESERVED_BY_WINDOWS:
        raise ValueError(f"run id: {run_id!r} is a device on Windows and cannot be a file name there")
    if len(os.fsencode(run_id)) > MAX_ID_BYTES:
        raise ValueError(
            f"run id: expected at most {MAX_ID_BYTES} bytes, got {len(os.fsencode(run_id))}: {run_id[:40]}…"
        )
    return run_id


def number_of(connection: sqlite3.Connection, run: str, folder: Path) -> int:
    """Return the number of the run whose name is ``run``, or the only one whose name begins so."""
    text = storable(run)
    exact = connection.execute("SELECT number FROM runs WHERE id = ?", (text,)).fetchone()
    if exact is not None:
        if not isinstance(exact[0], int):
            raise DamagedStoreError(
                f"the store in {folder} is damaged (run {run!r}: no number); {DAMAGED_ADVICE}"
            )
        return exact[0]
    # A range, not LIKE: no character of a name means anything special, and the index serves.
    found = connection.execute(
        "SELECT number, id FROM runs WHERE id >= ? AND id < ? ORDER BY number DESC",
        (text, text + chr(0x10FFFF)),
    ).fetchall()
    if not found or not text:
        raise UnknownRunError(unknown(connection, run, folder))
    if len(found) > 1:
        more = f" and {len(found) - NAMED_IDS} more" if len(found) > NAMED_IDS else ""
        named = ", ".join(run_id for _, run_id in found[:NAMED_IDS])
        raise AmbiguousRunError(
            f"{run!r} begins the names of {len(found)} runs: {named}{more}; say more of it"
        )
    return int(found[0][0])


def unknown(connection: sqlite3.Connection, run: str, folder: Path) -> str:
    """Say that there is no such run, and which name comes nearest."""
    newest = connection.execute("SELECT id FROM runs ORDER BY number DESC LIMIT ?", (COMPARED_IDS,))
    nearest = difflib.get_close_matches(run, [run_id for (run_id,) in newest], n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else "`noiseproof runs` lists them"
    return f"no run {run!r} in {folder}; {hint}"


def shown_noise(noise: Any) -> Any:
    """The noise of a config as lists show it and searches find it: of a file its own name, not the path.

    >>> shown_noise("file:/data/labels/noisy.npz"), shown_noise("sym-0.8")
    ('file:noisy', 'sym-0.8')
    """
    if not isinstance(noise, str) or not noise.startswith("file:"):
        return noise
    from noiseproof.noise import short_name  # with NumPy, for which other lists need not wait

    return short_name(noise)


def storable(text: str) -> str:
    """Text in which the half characters that a file name may hold are written out: SQLite refuses them.

    >>> storable("photo-" + chr(0xDC80))
    'photo-\\\\udc80'
    """
    return text.encode(errors="backslashreplace").decode()
