# SPDX-License-Identifier: Apache-2.0
"""Readers of grids and of results files."""

from pathlib import Path

from targets.target import Target, written


def _grid(content: bytes, folder: Path) -> object:
    from noiseproof import grids

    grid = grids.load(str(written(folder, "mine.toml", content)))
    count = len(grid.methods) * len(grid.noises) * len(grid.seeds)
    return grid.cells() if count < 20 else None


def _records(content: bytes, folder: Path) -> object:
    from noiseproof.results.records_file import read_records, write_results

    found = read_records(written(folder, "table.jsonl", content))
    again = folder / "again.jsonl"
    again.unlink(missing_ok=True)
    write_results(again, found)
    return read_records(again)


TARGETS = (
    Target(
        "grid",
        _grid,
        (
            "grids/files.py: load parsed _methods _flat _nested _filled written",
            "grids/grid.py: cells _config merged",
            "grids/checks.py: check_grid check_settings _no_doubles",
        ),
        ("ValueError",),
    ),
    Target(
        "records",
        _records,
        (
            "results/records_file.py: read_records _lines",
            "results/result.py: result_of_line _spread _curve _marginals _number",
            "results/line_checks.py",
        ),
        ("ValueError",),
    ),
)
