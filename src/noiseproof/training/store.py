# SPDX-License-Identifier: Apache-2.0
"""The run store: what was trained, with what, how it went and how it ended, in one SQLite file.

A record is complete or absent: each call below is one transaction, and a process that is killed in the middle of
one leaves the file as it was before. Processes may share a store; each opens its own.
"""

import contextlib
import math
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from noiseproof.training.outcome import score_of
from noiseproof.training.run_names import checked_run_id, number_of, shown_noise, storable, unknown
from noiseproof.training.run_record import STATUSES, Progress, RunRecord, Status, decoded, encoded
from noiseproof.training.store_checksums import (
    EPOCH_COLUMNS,
    RUN_COLUMNS,
    WrongRowError,
    column,
    of_row,
    require_right,
    seal,
)
from noiseproof.training.store_file import (
    DAMAGED_ADVICE,
    FILE_NAME,
    AmbiguousRunError,
    DamagedStoreError,
    NewerStoreError,
    OtherConfigError,
    StoreError,
    UnknownRunError,
    bring_up_to_date,
    open_for_reading,
    open_for_writing,
    plain_errors,
    transaction,
)

__all__ = [
    "AmbiguousRunError",
    "DamagedStoreError",
    "NewerStoreError",
    "OtherConfigError",
    "Progress",
    "RunRecord",
    "Status",
    "Store",
    "StoreError",
    "UnknownRunError",
    "checked_run_id",
    "default_folder",
]

_SUM_UP = """
    UPDATE runs SET
        epochs_done = (SELECT count(*) FROM epochs WHERE run = :run),
        seconds = (SELECT total(seconds) FROM epochs WHERE run = :run),
        (last_accuracy, last_accuracy_epoch) = (
            SELECT test_accuracy, epoch FROM epochs WHERE run = :run AND test_accuracy IS NOT NULL
            ORDER BY epoch DESC LIMIT 1
        ),
        (best_accuracy, best_accuracy_epoch) = (
            SELECT test_accuracy, epoch FROM epochs WHERE run = :run AND test_accuracy IS NOT NULL
            ORDER BY test_accuracy DESC, epoch LIMIT 1
        )
    WHERE number = :run
"""


def default_folder() -> Path:
    """Return the runs folder: ``NOISEPROOF_RUNS``, else ``runs`` in the current folder.

    >>> os.environ["NOISEPROOF_RUNS"] = "/data/runs"
    >>> default_folder().as_posix()
    '/data/runs'
    >>> del os.environ["NOISEPROOF_RUNS"]
    >>> default_folder().as_posix()
    'runs'
    """
    chosen = os.environ.get("NOISEPROOF_RUNS")
    return Path(chosen).expanduser() if chosen else Path("runs")


class Store:
    """The runs of one folder.

    Args:
        folder: the runs folder; ``runs.sqlite`` in it is created on the first write. WAL needs memory that
            processes share, so the folder should be on a disk of this machine, not on a network's.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        ...     store.begin("digits-s1", {"loss": "anl-ce"}, "3f2a", environment={}, noise={"rate": 0.6})
        ...     store.record_epoch("digits-s1", 1, {"test_accuracy": 93.4, "loss": float("nan")}, seconds=0.5)
        ...     store.finish("digits-s1", {"test_accuracy": 93.4})
        ...     record = store.get("dig")
        >>> record.status, record.seconds, record.epochs
        ('finished', 0.5, ({'test_accuracy': 93.4, 'loss': nan, 'epoch': 1, 'seconds': 0.5},))
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE_NAME
        self._open: sqlite3.Connection | None = None
        self._turn = threading.RLock()
        self._process = os.getpid()

    def begin(
        self,
        run_id: str,
        config: Mapping[str, Any],
        config_hash: str,
        environment: Mapping[str, Any],
        noise: Mapping[str, Any],
        *,
        afresh: bool = False,
    ) -> None:
        """Record that a run starts, or goes on: then its start, config, noise and epochs stay as they are.

        Args:
            run_id: its name.
            config: everything that decides what it computes.
            config_hash: hash of the decisive part of ``config``.
            environment: what it runs on now.
            noise: what the label noise came out as.
            afresh: nothing is left of what an earlier start had computed, as after an error in its first step: then
                environment and noise are those of now alone. So they are where none were recorded.

        Raises:
            OtherConfigError: the name is taken by a run with another ``config_hash``.
        """
        checked_run_id(run_id)
        texts = (encoded(config, "config"), encoded(environment, "environment"), encoded(noise, "noise"))
        told = {**config, "noise": shown_noise(config.get("noise"))}
        searched = tuple(_searchable(told.get(key)) for key in ("dataset", "noise", "loss"))
        with self._writing() as connection:
            known = connection.execute(
                "SELECT number, id, config_hash, environment, noise FROM runs WHERE id = ?", (run_id,)
            ).fetchone()
            if known is None:
                connection.execute(
                    "INSERT INTO runs (id, config_hash, status, started, dataset, noise_name, loss, config, "
                    "environment, noise) VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, ?)",
                    (run_id, config_hash, _now(), *searched, *texts),
                )
                seal(connection, self._row(connection, run_id)[0])
                return
            self._read(connection, known[0], epochs=True)  # a damaged record is not added to
            number, known_id, known_hash, known_environment, known_noise = known
            if known_hash != config_hash or known_id != run_id:
                raise OtherConfigError(
                    f"run {known_id} exists and was made with another config (hash {known_hash}, now "
                    f"{config_hash} for {run_id}); give the new run another name, or use another runs folder"
                )
            told_of = (_with_resumption(known_environment, texts[1]), known_noise)
            if afresh or not (decoded(known_environment) or decoded(known_noise)):
                told_of = texts[1:]
            connection.execute(
                "UPDATE runs SET status = 'running', ended = NULL, result = NULL, error = NULL, environment = ?, "
                "noise = ? WHERE number = ?",
                (*told_of, number),
            )
            seal(connection, number)

    def record_epoch(self, run_id: str, epoch: int, metrics: Mapping[str, Any], seconds: float) -> None:
        """Record a finished epoch.

        The same epoch again replaces it, and later ones are dropped: a resumed run repeats what it had recorded
        but not saved. So record an epoch before saving its checkpoint, and no epoch is ever missing.

        Args:
            run_id: a run that has begun and not ended.
            epoch: its number, counted from 0.
            metrics: numbers, and texts, lists and dicts of them; ``"test_accuracy"``, or ``"test_dice"`` in its
                place, is also kept for lists.
            seconds: what this epoch took.
        """
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            raise ValueError(f"epoch: expected a whole number from 0, got {epoch!r}")
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"seconds: expected a finite number from 0, got {seconds!r}")
        for key, own in (("epoch", epoch), ("seconds", seconds)):
            if key in metrics and metrics[key] != own:
                raise ValueError(f"metrics: {key!r} is {metrics[key]!r} there and {own!r} as an argument")
        text = encoded({**metrics, "epoch": epoch, "seconds": seconds}, "metrics")
        with self._writing() as connection:
            number, status = self._row(connection, run_id)
            if status != "running":
                raise StoreError(
                    f"run {run_id} is {status}, not running: begin it again to record more epochs"
                )
            connection.execute("DELETE FROM epochs WHERE run = ? AND epoch >= ?", (number, epoch))
            row = (number, epoch, float(seconds), _finite(score_of(metrics)), text)
            connection.execute(
                f"INSERT INTO epochs ({EPOCH_COLUMNS}, checksum) VALUES (?, ?, ?, ?, ?, ?)",
                (*row, of_row(row)),
            )
            connection.execute(_SUM_UP, {"run": number})
            seal(connection, number)

    def finish(self, run_id: str, result: Mapping[str, Any]) -> None:
        """Record that a run came to its end, and what came out."""
        with self._writing() as connection:
            number, status = self._row(connection, run_id)
            if status != "running":
                raise StoreError(f"run {run_id} is {status} already: begin it again before finishing it")
            self._end(connection, number, "finished", result=encoded(result, "result"))

    def interrupt(self, run_id: str) -> None:
        """Record that a run was stopped on request. One that has ended stays as it ended."""
        with self._writing() as connection:
            number, status = self._row(connection, run_id)
            if status == "running":
                self._end(connection, number, "interrupted")

    def fail(self, run_id: str, error: str) -> None:
        """Record why a run broke off. One that has ended stays as it ended."""
        with self._writing() as connection:
            number, status = self._row(connection, run_id)
            if status == "running":
                self._end(connection, number, "failed", error=storable(str(error)))

    def delete(self, run_id: str) -> None:
        """Forget a run and its epochs."""
        with self._writing() as connection:
            number, _ = self._row(connection, run_id)
            connection.execute("DELETE FROM epochs WHERE run = ?", (number,))
            connection.execute("DELETE FROM runs WHERE number = ?", (number,))

    def get(self, run: str, *, epochs: bool = True) -> RunRecord:
        """Return one run by its name or the beginning of it, with its epochs unless told otherwise.

        Raises:
            UnknownRunError: there is none; the message names the nearest.
            AmbiguousRunError: there are several; the message names them.
        """
        with self._reading() as connection:
            if connection is None:
                raise UnknownRunError(f"no run {run!r}: there are no runs in {self.folder} yet")
            number = number_of(connection, run, self.folder)
            record = self._read(connection, number, epochs)
        if not str(record.id).lower().startswith(storable(run).lower()):
            raise self._damaged(run, f"its index leads to run {record.id!r}")
        return record

    def runs(
        self,
        *,
        status: Status | None = None,
        dataset: str | None = None,
        loss: str | None = None,
        noise: str | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        """Return runs without their epochs, newest first; a filter that is None lets all through."""
        if limit is not None and limit < 1:
            raise ValueError(f"limit: expected 1 or more, got {limit}")
        noise = shown_noise(noise)
        wanted = {"status": _checked_status(status), "dataset": dataset, "loss": loss, "noise_name": noise}
        return self._select(wanted, limit)

    def find(self, config_hash: str, status: Status | None = "finished") -> list[RunRecord]:
        """Return the runs of one config, newest first, without their epochs; of any status if it is None."""
        return self._select({"config_hash": config_hash, "status": _checked_status(status)}, None)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._turn:
            if self._open is not None and self._process == os.getpid():
                with plain_errors(self.path):
                    self._open.close()
            self._open = None

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._turn, plain_errors(self.path):
            self._check_process()
            if self._open is None:
                self._open = open_for_writing(self.path)
            with transaction(self._open):
                bring_up_to_date(self._open)
                yield self._open

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """Give a connection that sees one state of the file throughout, or None where there is no store."""
        with self._turn, plain_errors(self.path):
            self._check_process()
            if self._open is None:
                self._open = open_for_reading(self.path)
            if self._open is None:
                yield None
                return
            with transaction(self._open, "DEFERRED"):
                yield self._open

    def _check_process(self) -> None:
        if self._open is not None and self._process != os.getpid():
            # SQLite's locks do not survive a fork: two processes on one connection would damage the file.
            raise StoreError("this Store was opened by a parent process; open another one in this process")
        self._process = os.getpid()

    def _row(self, connection: sqlite3.Connection, run_id: str) -> tuple[int, str]:
        found = connection.execute("SELECT number, status, id FROM runs WHERE id = ?", (run_id,)).fetchone()
        if found is None:
            raise UnknownRunError(unknown(connection, run_id, self.folder))
        if str(found[2]).lower() != run_id.lower():
            raise self._damaged(run_id, f"its index leads to run {found[2]!r}")
        return found[0], found[1]

    def _end(
        self,
        connection: sqlite3.Connection,
        number: int,
        status: Status,
        result: str | None = None,
        error: str | None = None,
    ) -> None:
        connection.execute(
            "UPDATE runs SET status = ?, ended = ?, result = ?, error = ? WHERE number = ?",
            (status, _now(), result, error, number),
        )
        seal(connection, number)

    def _read(self, connection: sqlite3.Connection, number: int, epochs: bool) -> RunRecord:
        """One run, checked."""
        checksum = column(connection)
        row = connection.execute(
            f"SELECT {RUN_COLUMNS}, {checksum} FROM runs WHERE number = ?", (number,)
        ).fetchone()
        if row is None:
            raise self._damaged(number, "it is in the index and not in the table")
        if not epochs:
            return self._record(row)
        rows = connection.execute(
            f"SELECT {EPOCH_COLUMNS}, {checksum} FROM epochs WHERE run = ? ORDER BY epoch", (number,)
        ).fetchall()
        return self._record(row, rows)

    def _select(self, wanted: Mapping[str, str | None], limit: int | None) -> list[RunRecord]:
        """Runs, newest first. What is filtered by is looked at here: a damaged row must not pass for another."""
        asked = {name: storable(value) for name, value in wanted.items() if value is not None}
        places = {name: RUN_COLUMNS.split(", ").index(name) for name in asked}
        by_config = "config_hash" in asked
        with self._reading() as connection:
            if connection is None:
                return []
            if not by_config:
                self._require_all(connection)
            rows = connection.execute(
                f"SELECT {RUN_COLUMNS}, {column(connection)} FROM runs "
                f"{'WHERE config_hash = ?' if by_config else ''} ORDER BY number DESC",
                (asked["config_hash"],) if by_config else (),
            )
            found = []
            for row in rows:
                self._require_right(row, row[0])
                if all(row[place] == asked[name] for name, place in places.items()):
                    found.append(self._record(row))
                if len(found) == limit:
                    break
            rows.close()
            return found

    def _require_all(self, connection: sqlite3.Connection) -> None:
        """Refuse a table that has lost rows which its index has, or the other way round."""
        counts = [
            connection.execute(f"SELECT count(*) FROM runs {how}").fetchone()[0]
            for how in ("NOT INDEXED", "INDEXED BY runs_by_config")
        ]
        if counts[0] != counts[1]:
            raise self._damaged("", f"{counts[0]} runs in the table and {counts[1]} in its index")

    def _require_right(self, row: Sequence[Any], run_id: object) -> None:
        try:
            require_right(row)
        except WrongRowError as problem:
            raise self._damaged(run_id, problem) from problem

    def _require_epochs(self, rows: Sequence[Sequence[Any]], run_id: object, number: int, count: int) -> None:
        """Refuse rows that are not all the epochs of a run, each once."""
        for row in rows:
            self._require_right(row, run_id)
        whose = {row[0] for row in rows}
        if len(rows) != count or len({row[1] for row in rows}) != count or not whose <= {number}:
            raise self._damaged(run_id, f"not all of its {count} epochs are there")

    def _damaged(self, run: object, problem: object) -> DamagedStoreError:
        return DamagedStoreError(f"{self.path} is damaged (run {run!r}: {problem}); {DAMAGED_ADVICE}")

    def _record(self, row: Sequence[Any], epochs: Sequence[Sequence[Any]] | None = None) -> RunRecord:
        run_id, config, config_hash, status, started, ended, seconds, environment, noise, result, error = row[
            :11
        ]
        self._require_right(row, run_id)
        if not isinstance(run_id, str):  # a row without a checksum, of an earlier version
            raise self._damaged(run_id, "a name that is no text")
        if epochs is not None:
            self._require_epochs(epochs, run_id, number=row[16], count=row[11])
        try:
            return RunRecord(
                id=run_id,
                config=decoded(config),
                config_hash=config_hash,
                status=status,
                started=started,
                ended=ended,
                seconds=float(seconds),
                environment=decoded(environment),
                noise=decoded(noise),
                result=None if result is None else decoded(result),
                error=error,
                epochs=tuple(decoded(metrics) for *_, metrics, _ in epochs or ()),
                progress=Progress(*row[11:16]),
            )
        except (ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise self._damaged(run_id, problem) from problem


def _with_resumption(first: str, now: str) -> str:
    """Add the environment of a resumption to the record's, unless it is the one that was last in use."""
    environment, current = decoded(first), decoded(now)
    earlier = environment.pop("resumed_in", [])
    if current == (earlier[-1] if earlier else environment):
        return first
    return encoded({**environment, "resumed_in": [*earlier, current]}, "environment")


def _checked_status(status: str | None) -> str | None:
    if status is not None and status not in STATUSES:
        raise ValueError(f"status: expected one of {', '.join(STATUSES)}, got {status!r}")
    return status


def _searchable(value: Any) -> str | None:
    return None if value is None else storable(str(value))


def _finite(value: Any) -> float | None:
    number = float("nan") if value is None else float(value)
    return number if math.isfinite(number) else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
