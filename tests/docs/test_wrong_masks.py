# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/segmentation.md about wrong masks and T-Loss are those of the runs on record."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("script", "make", "records", "rows"),
    [
        ("wrong_masks", "table_of_augmentations", "wrong-masks", 12),
        ("wrong_masks", "table_of_learning_rates", "wrong-masks", 21),
        ("t_loss", "table", "t-loss", 7),
    ],
)
def test_the_pages_table_is_made_from_the_records(script, make, records, rows, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    table = runpy.run_path(str(ROOT / "benchmarks" / f"{script}.py"))[make]
    made = table(ROOT / "docs" / "performance" / f"{records}.jsonl")
    assert made.count("\n") == 1 + rows
    assert made in (ROOT / "docs" / "segmentation.md").read_text(encoding="utf-8")
