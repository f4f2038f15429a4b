# SPDX-License-Identifier: Apache-2.0
"""The table of docs/segmentation.md about augmentation is that of the runs on record."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_pages_table_is_made_from_the_records():
    table = runpy.run_path(str(ROOT / "benchmarks" / "wrong_masks.py"))["table"]
    made = table(ROOT / "docs" / "performance" / "wrong-masks.jsonl")
    assert made.count("\n") == 13
    assert made in (ROOT / "docs" / "segmentation.md").read_text(encoding="utf-8")
