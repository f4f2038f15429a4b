# SPDX-License-Identifier: Apache-2.0
"""What the documents say of grids is so."""

import re
from pathlib import Path

from noiseproof.grids import load, names
from noiseproof.grids.files import parsed

DOCS = Path(__file__).parents[2] / "docs"


def test_every_shipped_grid_is_in_the_document_with_its_number_of_runs():
    told = {}
    for grids, numbers in re.findall(r"^\| (`[^|]+`) \| ([\d, ]+(?: each)?) \|", _text("grids.md"), re.M):
        found = re.findall(r"`([\w-]+)`", grids)
        counts = [int(number) for number in re.findall(r"\d+", numbers)]
        told |= dict(zip(found, counts * len(found) if len(counts) == 1 else counts, strict=False))
    assert told == {name: len(load(name).cells()) for name in names()}


def test_the_grid_of_the_document_stands():
    example, *_ = re.findall(r"```toml\n(.*?)```", _text("grids.md"), re.S)
    grid = parsed(example, "my-grid")
    assert [method.label for method in grid.methods][:3] == ["CE", "ANL-CE δ=1e-6 β=1", "ANL-CE δ=1e-6 β=5"]
    assert len(grid.cells()) == 7 * 2 * 3


def test_the_code_of_the_document_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", _text("grids.md"), re.S)
    names_of_code = {"__name__": "document"}
    exec(compile(code, "grids.md", "exec"), names_of_code)
    assert len(names_of_code["grid"].cells()) == 2


def test_options_in_the_documents_exist():
    import typer

    from noiseproof.command_line.bench import bench

    app = typer.Typer()
    app.command()(bench)
    known = {option for each in typer.main.get_command(app).params for option in each.opts}
    for line in (_text("grids.md") + _text("cluster.md")).splitlines():
        command = re.search(r"noiseproof bench ([^#`>]*)", line)
        if command:
            assert set(re.findall(r"(?<!\S)--[\w-]+", command[1])) <= known, line


def _text(name):
    return (DOCS / name).read_text()
