# SPDX-License-Identifier: Apache-2.0
"""Box plots by epoch of the strongest pull, max over j≠y of ∂NNCE/∂p_j, on right and on wrong labels.

The paper's figure is of right labels that pull ever harder. By the formula they can, at max(p, p_min); but the loss
itself has no gradient below p_min, so that what a surely learned sample really pulls is 0.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noiseproof.report.figures import Drawing, figure_of
from noiseproof.report.figures.flipping import P_MIN
from noiseproof.report.plots import INK, SERIES, new_figure, styled, svg_of
from noiseproof.results import Pulls, Result

if TYPE_CHECKING:
    from noiseproof.results import Gathered

BOXES = 12
"""Epochs that are drawn, evenly spread; a box for each of hundreds would be a smear."""

WHISKERS, QUARTILES, MIDDLE = (0.05, 0.95), (0.25, 0.75), 0.5


@figure_of("gradients")
def gradients(gathered: "Gathered") -> Drawing | None:
    """For each method and noise (its first seed) boxes by epoch, right labels beside wrong ones.

    One panel has the formula's values, where those were recorded, and one what training had.
    """
    shown: dict[tuple[str, str], Result] = {}
    for result in gathered.results:
        if result.pulls is not None:
            shown.setdefault((result.method, result.noise), result)
    drawn = [
        (f"{method}, {noise}, seed {result.seed}{words}", pulls)
        for (method, noise), result in shown.items()
        for words, pulls in _kinds(result)
    ]
    if not drawn:
        return None
    with styled():
        figure, panels = new_figure(8.5, 3.4 * len(drawn), len(drawn))
        described = []
        for panel, (title, pulls) in zip(panels, drawn, strict=True):
            described.append(f"{title}: {_panel(panel, pulls)}")
            panel.set_title(title)
        panels[-1].set_xlabel("epoch")
        svg = svg_of(
            figure,
            "gradients",
            "Gradients of NNCE by epoch, on right and on wrong labels",
            "Medians at the last epoch. " + "; ".join(described),
        )
    return Drawing(
        "gradients",
        "Which labels still pull",
        "Strongest pull on a sample: the largest ∂NNCE/∂pⱼ over the classes j other than its label, by epoch. "
        "Box: quartiles with the median; whiskers: 5% and 95%; triangle: mean, if recorded. NNCE takes no "
        f"probability below p_min = {P_MIN:g}, and has no gradient there: training pulls less and less at samples "
        "that it is sure of. The paper's figure is by the formula with max(p, p_min).",
        svg,
    )


def _kinds(result: Result) -> list[tuple[str, Pulls]]:
    """What a run recorded, and how to call it."""
    assert result.pulls is not None
    floored = [] if result.pulls.floored is None else [(": by the formula", result.pulls.floored)]
    return [*floored, (": as trained", result.pulls)]


def _panel(panel: Any, pulls: Pulls) -> str:
    from matplotlib.patches import Patch

    levels = list(pulls.quantiles)
    epochs = len(pulls.clean)
    chosen = sorted({round(i * (epochs - 1) / (BOXES - 1)) for i in range(BOXES)}) if epochs > 1 else [0]
    width = 0.3
    said, handles = [], []
    for side, (words, colour, of_epochs, means) in enumerate(
        (
            ("right labels", SERIES[0], pulls.clean, pulls.clean_mean),
            ("wrong labels", SERIES[1], pulls.flipped, pulls.flipped_mean),
        )
    ):
        places, boxes, triangles = [], [], []
        for place, epoch in enumerate(chosen):
            values = of_epochs[epoch]
            if values is not None:
                places.append(place + (side - 0.5) * width * 1.2)
                boxes.append(_box(levels, values))
                if means and (mean := means[epoch]) is not None:
                    triangles.append((places[-1], mean))
        if not boxes:
            continue
        said.append(f"{words} {boxes[-1]['med']:.3g}")
        panel.bxp(
            boxes,
            positions=places,
            widths=width,
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": colour, "edgecolor": colour, "alpha": 0.55},
            medianprops={"color": INK},
            whiskerprops={"color": colour},
            capprops={"color": colour},
            manage_ticks=False,
        )
        if triangles:
            panel.plot(*zip(*triangles, strict=True), "^", color=colour, markeredgecolor=INK, markersize=5)
        handles.append(Patch(color=colour, alpha=0.55, label=words))
    panel.set_xticks(range(len(chosen)), [str(epoch + 1) for epoch in chosen])
    panel.grid(axis="x", visible=False)
    panel.set_ylabel("max ∂NNCE/∂pⱼ, j ≠ y", labelpad=8)
    panel.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1))
    return ", ".join(said)


def _box(levels: Sequence[float], values: Sequence[float]) -> dict[str, Any]:
    """A box from recorded quantiles; the nearest one where a level was not recorded."""

    def at(level: float) -> float:
        return values[min(range(len(levels)), key=lambda place: abs(levels[place] - level))]

    return {
        "med": at(MIDDLE),
        "q1": at(QUARTILES[0]),
        "q3": at(QUARTILES[1]),
        "whislo": at(WHISKERS[0]),
        "whishi": at(WHISKERS[1]),
    }
