# SPDX-License-Identifier: Apache-2.0
"""Accuracy or Dice by epoch as small multiples: how far each method learns what is right and what is wrong."""

import html
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from noiseproof.noise import short_name
from noiseproof.report.figures import Drawing, figure_of
from noiseproof.report.panels import LINES, bottom_axis, large_panel, longest, side_axis, small_panel
from noiseproof.report.words import Words, words_of
from noiseproof.results import Result

if TYPE_CHECKING:
    from noiseproof.results import Gathered

FEW_NOISES = 2
"""Up to so many noises every panel is large and has axes of its own."""


@figure_of("table", "curves", "marginals", "regularisers", "gradients")
def accuracy_curves(gathered: "Gathered") -> Drawing | None:
    """Training accuracy on right and on wrong labels or pixels, and the score on test data, by epoch, for every
    method and noise."""
    results = [result for result in gathered.results if any(v is not None for v in result.curves.test)]
    if not results:
        return None
    cells: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        cells.setdefault((result.method, result.noise), []).append(result)
    known = [method.label for method in gathered.grid.methods]
    methods = [
        m for m in dict.fromkeys([*known, *(m for m, _ in cells)]) if any(m == row for row, _ in cells)
    ]
    noises = list(dict.fromkeys(noise for _, noise in _in_grid_order(gathered, cells)))
    epochs = longest(results)
    if len(noises) <= FEW_NOISES:
        titles = {
            (m, n): m if len(noises) == 1 else f"{m}, {n}" for n in noises for m in methods if (m, n) in cells
        }
        markup = flow([(title, large_panel(cells[key], epochs, title)) for key, title in titles.items()])
    else:
        markup = matrix(
            methods,
            noises,
            lambda m, n: small_panel(cells[m, n], epochs, f"{m}, {n}") if (m, n) in cells else "",
            bottom_axis(epochs),
        )
    seeds = "one line per seed" if max(map(len, cells.values())) > 1 else "one seed"
    words = words_of(results)
    return Drawing(
        "curves",
        f"{words.score.capitalize()} by epoch",
        f"{words.curves} in percent (0 to 100) by epoch (1 to {epochs}), {seeds}. Accuracy on wrong {words.pieces} "
        f"is agreement with the given {words.samples}: the lower it stays, the less has been memorised.",
        legend(words) + markup,
    )


def _in_grid_order(gathered: "Gathered", cells: dict[tuple[str, str], list[Result]]) -> list[tuple[str, str]]:
    noises = [short_name(noise) for noise in gathered.grid.noises]
    return sorted(cells, key=lambda key: noises.index(key[1]) if key[1] in noises else len(noises))


def legend(words: Words) -> str:
    """What the lines mean."""
    entries = "".join(
        f'<span><svg viewBox="0 0 26 8" aria-hidden="true"><path class="{short}" d="M1 4H25"/></svg>'
        f"{words.of_curve(field)}</span>"
        for field, short in reversed(LINES)
    )
    return f'<p class="legend">{entries}</p>'


def flow(panels: Sequence[tuple[str, str]]) -> str:
    """Large panels one after another, as many in a row as there is room for."""
    figures = "".join(
        f"<figure><figcaption>{html.escape(title)}</figcaption>{panel}</figure>" for title, panel in panels
    )
    return f'<div class="flow">{figures}</div>'


def matrix(
    rows: Sequence[str],
    columns: Sequence[str],
    panel: Callable[[str, str], str],
    below: str,
    corner: str = "",
) -> str:
    """Small panels as a table: rows and columns are named at its edges."""
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in columns)
    lines = [f'<tr><th>{html.escape(corner)}</th><td class="axis"></td>{head}</tr>']
    for row in rows:
        cells = "".join(f"<td>{panel(row, column)}</td>" for column in columns)
        lines.append(
            f'<tr><th scope="row">{html.escape(row)}</th><td class="axis">{side_axis()}</td>{cells}</tr>'
        )
    axes = f"<td>{below}</td>" * len(columns)
    lines.append(f'<tr><th></th><td class="axis"></td>{axes}</tr>')
    return f'<div class="wide"><table class="matrix">{"".join(lines)}</table></div>'
