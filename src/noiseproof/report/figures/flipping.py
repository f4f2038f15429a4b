# SPDX-License-Identifier: Apache-2.0
"""Vertical flipping: how a negative loss is made of an active one, L and A − L against p."""

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from noiseproof.report.figures import Drawing, figure_of
from noiseproof.report.plots import QUIET, SERIES, new_figure, styled, svg_of

if TYPE_CHECKING:
    from noiseproof.results import Gathered

P_MIN = 1e-7
"""Where the paper cuts probabilities off, which makes A finite."""

FOCAL_GAMMA = 0.5

NEGATIVE_LOSSES = ("anl-ce", "anl-fl", "anl-ce*", "nnce", "nnfl")
"""Losses with a part that is made by flipping: their pages explain it."""


@figure_of()
def vertical_flipping(gathered: "Gathered") -> Drawing | None:
    """L and A − L of cross-entropy and focal loss against p, with the axis A/2 that mirrors one onto the other."""
    if not any(result.loss in NEGATIVE_LOSSES for result in gathered.results):
        return None
    return _drawing()


@functools.cache
def _drawing() -> Drawing:
    """The same on every page: it is made of formulas alone."""
    p = np.concatenate([np.geomspace(P_MIN, 1e-2, 60)[:-1], np.linspace(1e-2, 1.0, 120)])
    top = -math.log(P_MIN)
    losses = {
        "cross-entropy": (-np.log(p), top),
        "focal loss, γ = 0.5": (-((1 - p) ** FOCAL_GAMMA) * np.log(p), (1 - P_MIN) ** FOCAL_GAMMA * top),
    }
    with styled():
        figure, panels = new_figure(8.5, 3.2, 1, 2, sharey=True)
        for panel, (name, (values, highest)) in zip(panels, losses.items(), strict=True):
            panel.plot(p, values, color=SERIES[0], label="L(p)")
            panel.plot(p, highest - values, color=SERIES[1], label="A − L(p)")
            panel.axhline(highest / 2, color=QUIET, linestyle="--", linewidth=1, label="axis A/2")
            panel.set_title(name)
            panel.set_xlabel("probability p of the label")
            panel.set_ylim(0, 1.02 * top)
        panels[0].set_ylabel("loss")
        panels[1].legend(loc="upper left", bbox_to_anchor=(1, 1))
        svg = svg_of(
            figure,
            "flipping",
            "Vertical flipping",
            f"L falls from A = {top:.2f} at p = 1e-7 to 0 at p = 1; A − L is its mirror image about the line A/2.",
        )
    return Drawing(
        "flipping",
        "Vertical flipping",
        "How a negative loss is made: L is mirrored about the line A/2 to give A − L, with A = L(10⁻⁷). Drawn from "
        "the formulas, not from runs.",
        svg,
    )
