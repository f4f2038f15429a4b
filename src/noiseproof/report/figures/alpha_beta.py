# SPDX-License-Identifier: Apache-2.0
"""The α × β grid: a panel of curves for every pair of weights."""

from typing import TYPE_CHECKING

from noiseproof.report.figures import Drawing, figure_of
from noiseproof.report.figures.curves import legend, matrix
from noiseproof.report.panels import bottom_axis, longest, small_panel
from noiseproof.report.words import words_of
from noiseproof.results import Result

if TYPE_CHECKING:
    from noiseproof.results import Gathered


@figure_of("alpha-beta")
def alpha_beta(gathered: "Gathered") -> Drawing | None:
    """Curves of α·(active part) + β·(passive part), α by rows and β by columns."""
    cells: dict[tuple[float, float], list[Result]] = {}
    for result in gathered.results:
        parameters = result.config.get("loss_parameters", {})
        alpha, beta = parameters.get("alpha"), parameters.get("beta")
        if isinstance(alpha, int | float) and isinstance(beta, int | float):
            cells.setdefault((float(alpha), float(beta)), []).append(result)
    if not cells:
        return None
    epochs = longest(result for results in cells.values() for result in results)
    rows = {f"α = {alpha:g}": alpha for alpha in sorted({alpha for alpha, _ in cells})}
    columns = {f"β = {beta:g}": beta for beta in sorted({beta for _, beta in cells})}

    def panel(row: str, column: str) -> str:
        found = cells.get((rows[row], columns[column]))
        return small_panel(found, epochs, f"{row}, {column}") if found else ""

    words = words_of(gathered.results)
    return Drawing(
        "alpha-beta",
        "Weights of the two parts",
        f"{words.curves} in percent (0 to 100) by epoch for each pair of weights, α of the active part "
        "(NCE) by rows and β of the negative one (NNCE) by columns.",
        legend(words) + matrix(list(rows), list(columns), panel, bottom_axis(epochs)),
    )
