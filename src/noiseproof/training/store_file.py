# SPDX-License-Identifier: Apache-2.0
"""The SQLite file of the run store: opened, checked before it is believed, and its troubles said in plain words.

Write-ahead logging lets one process write while others read; ``synchronous=FULL`` makes what was committed
survive a power cut too. Nothing here ever repairs, moves or deletes a file that it cannot read.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from noiseproof.training import store_checksums

FILE_NAME = "runs.sqlite"
SCHEMA_VERSION = 2
"""1 had no checksums; such a store is read as it is, and gets them when it is next written to."""
APPLICATION_ID = int.from_bytes(b"NPRF", "big")
"""Marks the file as ours, so that another program's SQLite file is never written to."""

BUSY_SECONDS = 30.0
"""How long a writer waits for the others: their transactions take milliseconds."""

SCHEMA = (
    # `number` is the order of beginning. `dataset`, `noise_name` and `loss` repeat what the config says, to be
    # searched by; `epochs_done` to `best_accuracy_epoch` sum up the epochs, in the transaction that adds one.
    """
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE COLLATE NOCASE,
        config_hash TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'interrupted', 'failed')),
        dataset TEXT,
        noise_name TEXT,
        loss TEXT,
        started TEXT NOT NULL,
        ended TEXT,
        seconds REAL NOT NULL DEFAULT 0,
        epochs_done INTEGER NOT NULL DEFAULT 0,
        last_accuracy REAL,
        last_accuracy_epoch INTEGER,
        best_accuracy REAL,
        best_accuracy_epoch INTEGER,
        config TEXT NOT NULL,
        environment TEXT NOT NULL,
        noise TEXT NOT NULL,
        result TEXT,
        error TEXT,
        checksum TEXT
    )
    """,
    "CREATE INDEX runs_by_config ON runs (config_hash)",
    # The metrics come last: sums over the other columns then need not read them.
    """
    CREATE TABLE epochs (
        run INTEGER NOT NULL REFERENCES runs,
        epoch INTEGER NOT NULL CHECK (epoch >= 0),
        seconds REAL NOT NULL CHECK (seconds >= 0),
        test_accuracy REAL,
        metrics TEXT NOT NULL,
        checksum TEXT,
        UNIQUE (run, epoch)
    )
    """,
)


class StoreError(RuntimeError):
    """Any trouble with the run store: the base of the errors below, for one ``except``."""


class DamagedStoreError(StoreError):
    """The file is not what was written: another file, random bytes, or only a part."""


class NewerStoreError(StoreError):
    """The file was written by a newer noiseproof, whose records this one might misread."""


class UnknownRunError(StoreError, LookupError):
    """A name that no run has."""


class AmbiguousRunError(StoreError, LookupError):
    """The beginning of several runs' names."""


class OtherConfigError(StoreError, ValueError):
    """A run of that name exists and was made with another config."""


def open_for_reading(path: Path) -> sqlite3.Connection | None:
    """Open the store if there is one with anything in it; never create one.

    A store on a read-only disk can be read if it was closed properly, that is, has no log beside it.
    """
    if not path.exists():
        return None
    with plain_errors(path):
        try:
            connection, version = _opened(path, "mode=rw")
        except sqlite3.OperationalError as error:
            unwritable = _primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if not unwritable or _has_log(path):
                raise
            connection, version = _opened(path, "mode=ro&immutable=1")
    if version == 0:
        connection.close()
        return None
    return connection


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the store, created with its folder if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the runs folder {path.parent} ({error.strerror}); {_ANOTHER}"
        ) from error
    with plain_errors(path):
        connection, version = _opened(path, "mode=rwc")
        try:
            if version == 0:
                _create(connection)
        except BaseException:
            connection.close()
            raise
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Everything in the block is written, or nothing."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # after a full disk SQLite has rolled back by itself
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ones that say what happened to ``path`` and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = _primary_code(error)
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT) or "Could not decode" in str(error):
            raise DamagedStoreError(f"{path} is damaged ({error}); {DAMAGED_ADVICE}") from error
        raise StoreError(f"{path}: {_ADVICE.get(code, str(error)).format(error=error)}") from error
    except UnicodeDecodeError as error:  # what SQLite itself has to say quotes the damage
        raise DamagedStoreError(f"{path} is damaged ({error}); {DAMAGED_ADVICE}") from error


def _opened(path: Path, how: str) -> tuple[sqlite3.Connection, int]:
    """Open, and return the schema's version with the connection: 0 where nothing was written yet."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions are begun and ended here, in the open
        check_same_thread=False,  # the store takes turns itself
    )
    try:
        connection.execute("PRAGMA synchronous=FULL")
        # A schema from elsewhere may call no function that acts.
        connection.execute("PRAGMA trusted_schema=OFF")
        with transaction(connection, "DEFERRED"):  # one look at the file, not three while another creates it
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (things,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            (page,) = connection.execute("PRAGMA page_size").fetchone()
        if application != APPLICATION_ID and (application or version or things):
            raise StoreError(f"{path} is a database of another program and was left alone; {_ANOTHER}")
        if version > SCHEMA_VERSION:
            raise NewerStoreError(
                f"{path} was written by a newer noiseproof (schema {version}, this one knows "
                f"{SCHEMA_VERSION}); upgrade noiseproof, or {_ANOTHER}"
            )
        if path.stat().st_size % page and not _has_log(path):  # SQLite would take what is missing for zeros
            raise DamagedStoreError(f"{path} is damaged (its last page is cut off); {DAMAGED_ADVICE}")
    except BaseException:
        connection.close()
        raise
    return connection, int(version)


def _has_log(path: Path) -> bool:
    """Whether the latest pages are still beside the file: it is in use, or its last user did not close it."""
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _create(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:  # for this one statement SQLite does not wait by itself
            if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    with transaction(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:  # else another process was faster
            for statement in SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Give a store of an earlier schema what it lacks; inside a transaction that writes."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 1:
        store_checksums.add(connection)
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _primary_code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


_ANOTHER = "choose another runs folder with --folder or NOISEPROOF_RUNS"

DAMAGED_ADVICE = (
    "it was left as it is. Put back a copy of it, or move it away (runs then start a new one; weights and "
    'checkpoints are not in it). What can be saved of it: sqlite3 OLD ".recover" | sqlite3 NEW'
)

_READ_ONLY = (
    "cannot be written or opened ({error}): the file or its folder is read-only or closed to you; change that, "
    "copy the folder to where you may write, or " + _ANOTHER
)

_ADVICE = {
    sqlite3.SQLITE_BUSY: f"another process has been writing for over {BUSY_SECONDS:.0f} s; wait for it or stop it",
    sqlite3.SQLITE_FULL: "the disk is full; what was recorded before is safe. Make room, then resume the run",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written ({error}): it is full, failing, or gone. What was "
    "recorded before is safe on a sound disk; make room or mend it, then resume the run",
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: _READ_ONLY,
}
