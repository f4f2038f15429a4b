# SPDX-License-Identifier: Apache-2.0
"""A runs file from elsewhere: damage that SQLite quotes in its own messages, and records that are no records."""

import sqlite3

import pytest

from noiseproof.training.store import Store
from noiseproof.training.store_file import DamagedStoreError


@pytest.fixture
def folder(tmp_path):
    with Store(tmp_path) as store:
        store.begin("digits-s1", {"loss": "ce"}, "3f2a", environment={}, noise={})
        store.record_epoch("digits-s1", 1, {"test_accuracy": 93.4}, seconds=0.5)
        store.finish("digits-s1", {"test_accuracy": 93.4})
    connection = sqlite3.connect(tmp_path / "runs.sqlite")
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    return tmp_path


def test_a_schema_whose_text_is_no_text(folder):
    # Found by fuzzing: SQLite quotes the broken schema in its message, which is then no UTF-8.
    path = folder / "runs.sqlite"
    content = path.read_bytes()
    assert content.count(b"CREATE TABLE runs") == 1
    path.write_bytes(content.replace(b"CREATE TABLE runs", b"CREATE TABL\xa5 runs"))
    with Store(folder) as store, pytest.raises(DamagedStoreError, match="is damaged"):
        store.runs()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("config", "[" * 100_000),
        ("config", "{"),
        ("environment", b"\xff"),
        ("noise", '{"rate": {"$float": "x"}}'),
        ("seconds", "x"),
    ],
)
def test_records_that_are_none(folder, column, value):
    connection = sqlite3.connect(folder / "runs.sqlite")
    connection.execute("PRAGMA ignore_check_constraints=ON")
    connection.execute(f"UPDATE runs SET {column} = ?", (value,))
    connection.commit()
    connection.close()
    with Store(folder) as store, pytest.raises(DamagedStoreError, match="is damaged"):
        store.runs()
