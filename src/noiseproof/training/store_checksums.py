# SPDX-License-Identifier: Apache-2.0
"""Checksums of the run store's rows: SQLite notices damage to its own structure, but not to what it was given.

Every row of ``runs`` and ``epochs`` carries the checksum of its other columns. A store written before there were
any is believed, and all its rows get them when it is next written to.
"""

import hashlib
import sqlite3
import struct
from collections.abc import Sequence
from typing import Any

COLUMN = "checksum"

RUN_COLUMNS = (
    "id, config, config_hash, status, started, ended, seconds, environment, noise, result, error, epochs_done, "
    "last_accuracy, last_accuracy_epoch, best_accuracy, best_accuracy_epoch, number, dataset, noise_name, loss"
)
"""What the checksum of a run covers; its first sixteen make a :class:`noiseproof.training.run_record.RunRecord`."""

EPOCH_COLUMNS = "run, epoch, seconds, test_accuracy, metrics"

NO_COLUMN = "'old'"
"""Selected in place of the checksum where a store has no such column; not NULL, which damage may make of one."""


class WrongRowError(ValueError):
    """A row is not what was written."""


def of_row(values: Sequence[Any]) -> str:
    """Checksum of a row's values as SQLite gives them, the kind of each included.

    >>> of_row([1, "a"]) == of_row([1, "a"]), of_row([1, "a"]) == of_row([1.0, "a"])
    (True, False)
    """
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, float):
            kind, content = b"f", struct.pack("<d", value)
        elif isinstance(value, str):
            kind, content = b"t", value.encode()
        else:
            kind, content = b"o", str(value).encode()  # a whole number, None, or bytes where damage made them
        digest.update(kind + len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def require_right(row: Sequence[Any]) -> None:
    """Refuse a row whose last value is not the checksum of those before.

    Raises:
        WrongRowError: it is not.
    """
    if row[-1] not in ("old", of_row(row[:-1])):
        raise WrongRowError("its checksum is not the one it was written with")


def seal(connection: sqlite3.Connection, number: int) -> None:
    """Give a run's row the checksum of what it now says."""
    row = connection.execute(f"SELECT {RUN_COLUMNS} FROM runs WHERE number = ?", (number,)).fetchone()
    connection.execute(f"UPDATE runs SET {COLUMN} = ? WHERE number = ?", (of_row(row), number))


def add(connection: sqlite3.Connection) -> None:
    """Bring a store of schema 1 to schema 2: every row gets its checksum."""
    for table, columns in (("runs", RUN_COLUMNS), ("epochs", EPOCH_COLUMNS)):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {COLUMN} TEXT")
        rows = connection.execute(f"SELECT rowid, {columns} FROM {table}").fetchall()
        connection.executemany(
            f"UPDATE {table} SET {COLUMN} = ? WHERE rowid = ?", [(of_row(row), rowid) for rowid, *row in rows]
        )


def column(connection: sqlite3.Connection) -> str:
    """What to select for the checksum."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return COLUMN if version > 1 else NO_COLUMN
