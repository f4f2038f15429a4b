# SPDX-License-Identifier: Apache-2.0
"""The sentence of docs/reproduce.md on our deviations beside the paper's."""

from statistics import geometric_mean

from noiseproof.results.agreement import FEWEST_CELLS
from noiseproof.results.statistics import LEAST_TOLERANCE, two_standard_errors
from noiseproof.results.table import ResultTable


def on_deviations(table: ResultTable) -> list[str]:
    """How our deviations compare with the paper's, and how much hangs on the rule's least tolerance."""
    found = [
        (cell.ours.std, cell.published.std)
        for cell in table.cells.values()
        if cell.ours and cell.published and cell.ours.std and cell.published.std
    ]
    if len(found) < FEWEST_CELLS:
        return []
    ratio = geometric_mean(ours / paper for ours, paper in found)
    larger = sum(ours > paper for ours, paper in found)
    inside = [
        (abs(cell.difference), two_standard_errors(cell.ours, cell.published))
        for cell in table.cells.values()
        if cell.verdict == "within" and cell.ours and cell.published and cell.difference is not None
    ]
    by_least = sum(difference > errors for difference, errors in inside)
    return [
        f"Where both have a deviation, ours is the larger one in {larger} of {len(found)} cells, and {ratio:.2f} "
        f"times the paper's in the geometric mean. {by_least} of the {len(inside)} cells within the spread are so "
        f"only because the rule allows at least {LEAST_TOLERANCE} points."
    ]
