# SPDX-License-Identifier: Apache-2.0
"""The code in docs/models.md runs, and what the page says of numbers is true."""

import re
from pathlib import Path

import torch

from noiseproof import models
from noiseproof.models import catalogue

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


def test_code_runs_and_prints_what_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "_RECORDS", dict(catalogue._RECORDS))
    torch.save(models.create("resnet50", 1000).state_dict(), "resnet50-0676ba61.pth")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(block, "models.md", "exec"), names)
    assert "tiny" in models.available()
    quoted = " ".join(line.removeprefix("# ") for line in PAGE.splitlines() if line.startswith("# "))
    assert capsys.readouterr().out.strip() in quoted


def test_the_table_is_true():
    rows = dict(re.findall(r"^\| `([\w-]+)` \| ([\d,]+) \|", PAGE, re.M))
    assert {name: int(count.replace(",", "")) for name, count in rows.items()} == {
        name: models.record(name).parameters(10) for name in models.available()
    }
