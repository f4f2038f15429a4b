# SPDX-License-Identifier: Apache-2.0
"""Class names, file names and labels of a table with markup, formulas, line breaks, emoji and terminal codes.

One data set of such names goes through every command that shows or writes them.
"""

import csv
import json
import os
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from tests.results.making import grid_of, result_of
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.grids import Method
from noiseproof.report import write_report
from noiseproof.results import formats, gather, table_of
from noiseproof.results.result import line_of_result

NAMES = (
    "[red]",
    "[bold",
    "<script>alert(1)",
    "=HYPERLINK(1)",
    "two\nlines",
    "🐈\x1b[31m",
    "$x_{",
    "@SUM(1)",
    "'",
    '"&"',
)
SIGNS = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    if os.name == "nt":
        pytest.skip("Windows has no such file names")
    root = tmp_path_factory.mktemp("names")
    random = np.random.default_rng(0)
    for split, count in (("train", 3), ("test", 1)):
        for shade, name in enumerate(NAMES):
            folder = root / "data[red]" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(0, 60, (8, 8, 3)) + 20 * shade
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"=-{number}\n[x].png")
    return root


def run(place, monkeypatch, *words):
    monkeypatch.chdir(place)
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "\x1b[31m" not in result.output
    return result.output


def test_check_and_show(place, monkeypatch):
    assert "data[red]" in run(place, monkeypatch, "data", "check", "folder:data[red]")
    run(place, monkeypatch, "data", "show", "folder:data[red]", "--out", "sheet.png")
    assert Image.open(place / "sheet.png").width > 0


def test_train_look_and_predict(place, monkeypatch):
    flags = {
        "loss": "ce",
        "noise": "sym-0.2",
        "epochs": 1,
        "model": "mlp",
        "image-size": 8,
        "workers": 0,
        "device": "cpu",
    }
    words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
    run(place, monkeypatch, "train", "folder:data[red]", *words)
    (name,) = [each.name for each in (place / "runs").iterdir() if each.is_dir()]
    assert json.loads((place / "runs" / name / "model.json").read_text("utf-8"))["class_names"] == sorted(
        NAMES
    )
    run(place, monkeypatch, "runs")
    run(place, monkeypatch, "runs", name)
    run(place, monkeypatch, "evaluate", name, "folder:data[red]")
    monkeypatch.chdir(place)
    os.symlink(place / "data[red]" / "test" / "=HYPERLINK(1)", place / "=pictures")
    run(place, monkeypatch, "predict", name, "=pictures", "--out", "predicted.csv")
    with open(place / "predicted.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    assert len(rows) == 1
    for path, predicted, _ in rows:
        assert not path.startswith(SIGNS)
        assert not predicted.startswith(SIGNS)
        assert predicted.removeprefix("'") in NAMES or predicted == "''"


class Tags(HTMLParser):
    """The tags that a browser would open, and the attributes that it would run."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        assert not any(name.startswith("on") or "javascript:" in (value or "") for name, value in attributes)

    def handle_data(self, data):
        self.text.append(data)


EVIL = [
    "<img src=x onerror=alert(1)>",
    "]]><script>x</script>",
    "--><svg onload=x>",
    "a\nb\rc\0d",
    "\u202e🐈",
    "{{7*7}}",
]


def test_a_page_and_tables_of_hostile_records(tmp_path):
    grid = grid_of(seeds=(1,), kind="marginals", methods=(Method(EVIL[0], "ce"), Method("\"'><b>", "anl-ce")))
    lines = []
    for cell in grid.cells():
        facts = {"class_names": EVIL, "transition": np.eye(6).tolist(), "kind": EVIL[1], "generator": EVIL[2]}
        line = line_of_result(result_of(cell, 50.0))
        line |= {"noise_facts": facts, "predicted_marginals": [1 / 6] * 6, "run": EVIL[3], "variant": EVIL[4]}
        line["environment"] = {"hardware": EVIL[0], "versions": {EVIL[1]: EVIL[2]}, "commit": EVIL[5]}
        lines.append(json.dumps(line))
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    gathered = gather(grid, files=[tmp_path / "r.jsonl"])
    write_report(gathered, tmp_path / "page.html", title=EVIL[0], introduction=EVIL[1])
    page = Tags((tmp_path / "page.html").read_text("utf-8"))
    assert page.tags.count("script") == 1  # its own
    assert "img" not in page.tags
    assert "{{7*7}}" in "".join(page.text)
    for write in (formats.markdown, formats.latex):
        assert "<img" not in write(table_of(gathered)).replace(r"\<img", "")


def test_no_cell_of_a_table_is_a_formula():
    grid = grid_of(seeds=(1,), methods=(Method('=cmd|"/C calc"!A0', "ce"), Method("@SUM(1);=1", "anl-ce")))
    text = formats.comma_separated(table_of(_gathered(grid)))
    for row in csv.reader(text.splitlines()):
        assert not any(cell.startswith(SIGNS) for cell in row if not _is_number(cell))
        assert not any(";=" in cell for cell in row)


def _gathered(grid):
    from tests.results.making import gathered_of

    return gathered_of(grid)


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True
