# SPDX-License-Identifier: Apache-2.0
"""A table of ours beside the paper's: at a glance as the paper lays it out, and cell by cell with commands."""

import shlex
from statistics import mean

from noiseproof.results.formats import NOTHING, markdown_text, spread
from noiseproof.results.table import ResultTable, TableCell


def at_a_glance(table: ResultTable) -> list[str]:
    """Our means, laid out as in the paper, and how far they are from its; where it has none, their spread."""
    lines = [
        f"| method | {' | '.join(map(markdown_text, table.noises))} |",
        "|---" * (1 + len(table.noises)) + "|",
    ]
    for method in table.methods:
        cells = [_glance(table.cells[method, noise], table.has_published) for noise in table.noises]
        if any(cell != NOTHING for cell in cells):
            lines.append(f"| {markdown_text(method)} | {' | '.join(cells)} |")
    return lines


def _glance(cell: TableCell, compared: bool) -> str:
    if cell.ours is None:
        return NOTHING
    if not compared:
        return str(cell.ours)
    outside = " ✗" if cell.verdict == "outside" else ""
    return f"{cell.ours.mean:.2f}" + (
        "" if cell.difference is None else f" ({cell.difference:+.2f}{outside})"
    )


def cell_by_cell(table: ResultTable) -> list[str]:
    """Every cell that was run, beside the paper's, with its command."""
    columns = ["noise", "method", "published", "ours (seeds)", "difference", "verdict"]
    columns += ["seconds per run", "command"]
    places = [(method, noise) for noise in table.noises for method in table.methods]
    run = [place for place in places if table.cells[place].ours is not None]
    lines = [
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
        *(_row(table, *place) for place in run),
        "",
    ]
    return [*lines, *not_run(table)]


def not_run(table: ResultTable) -> list[str]:
    """How many cells have no run, and what trains them."""
    left = sum(cell.ours is None for cell in table.cells.values())
    if not left:
        return []
    words = f"Not run yet: {left} of {len(table.cells)} cells. `noiseproof bench {table.name}` trains them."
    return [words, ""]


def _row(table: ResultTable, method: str, noise: str) -> str:
    cell = table.cells[method, noise]
    seconds = [result.seconds for result in cell.results if result.seconds is not None]
    seeds = ",".join(str(result.seed) for result in cell.results)
    words = shlex.join(["noiseproof", "bench", table.name, "--methods", method, "--noise", noise])
    cells = [
        markdown_text(noise),
        markdown_text(method),
        spread(cell.published) if cell.published else "–",
        str(cell.ours),
        "–" if cell.difference is None else f"{cell.difference:+.2f}",
        cell.verdict or "–",
        f"{mean(seconds):.0f}" if seconds else "–",
        f"`{words}{f' --seeds {seeds}' if seeds else ''}`",
    ]
    return f"| {' | '.join(cells)} |"
