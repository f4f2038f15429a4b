# SPDX-License-Identifier: Apache-2.0
"""The document about reports keeps its word, and the page about reproduction is made from records."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

from tests import warm
from tests.results.making import gathered_of

from noiseproof.grids import load, names
from noiseproof.results import write_results

ROOT = Path(__file__).parents[2]


def test_the_example_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    block, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "report.md").read_text(), re.S)
    exec(compile(block, "docs/report.md", "exec"), {"__name__": "document"})
    assert capsys.readouterr().out == "62.92 (1) 61.27 ± 0.55 (3) 1.65 outside\n"


def test_reproduction_says_what_was_run_and_what_not(tmp_path):
    """Records made up for this test, in a folder of its own."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("_build"))
    shutil.copy(ROOT / "README.md", tmp_path)
    part = load("cifar10-table").narrowed(["anl-ce", "ce"], ["sym-0.8"], [1, 2])
    results = gathered_of(part, lambda cell: {"ce": 40.0, "anl-ce": 61.0}[cell.method.loss] + cell.seed / 10)
    write_results(tmp_path / "results" / "cifar10-table.jsonl", results.results)
    done = warm.run(["docs/generate.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "docs" / "reproduce.md").read_text()
    assert "[4 of 360 runs](#cifar10-table); 1 of 2 cells within the published spread" in text
    assert (
        "| sym-0.8 | ANL-CE | 61.27 ± 0.55 | 61.15 ± 0.07 (2) | -0.12 | within | 90 | `noiseproof bench "
        "cifar10-table --methods ANL-CE --noise sym-0.8 --seeds 1,2` |" in text
    )
    assert "| outside |" in text
    assert re.search(r"bench cifar10-parts` \| 45 \| x86\\_64 \| about 1 h 07 min, at the pace of", text)
    for name in names():
        assert f"`noiseproof bench {name}`" in text
    assert "not run yet" in text


def test_cells_outside_are_told_with_what_is_known_of_them(tmp_path):
    """Lost classes by seed, and the same cell in another precision; a run of another cell is no such run."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("_build"))
    shutil.copy(ROOT / "README.md", tmp_path)
    part = load("cifar10-table").narrowed(["ce"], ["sym-0.4", "sym-0.8"], [1, 2])
    results = gathered_of(part, lambda cell: {"sym-0.4": 58.2, "sym-0.8": 40.0}[cell.noise] + cell.seed / 10)
    losing = [
        replace(each, predicted_marginals=(0.0, 0.0, *[0.125] * 8))
        if (each.noise, each.seed) == ("sym-0.8", 2)
        else each
        for each in results.results
    ]
    write_results(tmp_path / "results" / "cifar10-table.jsonl", losing)
    precisions = load("cifar10-precision").narrowed(["CE float32", "CE bf16"], ["sym-0.4", "sym-0.8"], [1, 2])
    others = gathered_of(precisions, lambda cell: {"sym-0.4": 58.0, "sym-0.8": 20.09}[cell.noise])
    write_results(tmp_path / "results" / "cifar10-precision.jsonl", others.results)
    done = warm.run(["docs/generate.py"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "docs" / "reproduce.md").read_text()
    begin = text.index("#### Outside the published spread: 1 of 2 cells")
    section = text[begin : text.index("####", begin + 4)]
    rows = [line for line in section.splitlines() if line.startswith("| sym")]
    assert rows == [
        "| sym-0.8 | CE | +21.06 | ± 0.50 | 1, 2 | class 0, class 1 (2) | float32: 20.09 ± 0.00 (2) +1.00 |"
    ]


def test_no_published_record_is_made_up():
    """What tests make up says so by its machine and commit."""
    for path in ROOT.glob("results/*.jsonl"):
        for line in path.read_text().splitlines():
            assert json.loads(line)["environment"].get("commit") != "0123456789abcdef"
