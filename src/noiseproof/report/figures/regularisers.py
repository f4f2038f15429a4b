# SPDX-License-Identifier: Apache-2.0
"""Test accuracy or Dice against the strength δ of a regulariser."""

import re
from typing import TYPE_CHECKING

import numpy as np

from noiseproof.report.figures import Drawing, figure_of
from noiseproof.report.plots import QUIET, SERIES, new_figure, styled, svg_of
from noiseproof.report.words import words_of

if TYPE_CHECKING:
    from noiseproof.results import Gathered

STRENGTH = re.compile(r"(?P<family>.*?)\s*δ\s*=\s*(?P<strength>\S+)")
"""How a method's label names its regulariser and strength; one without a strength is a level line."""

LINE_STYLES = ("--", ":", "-.")


@figure_of("regularisers")
def regularisers(gathered: "Gathered") -> Drawing | None:
    """Lines over δ, one for each regulariser; methods without a strength as level lines."""
    families: dict[str, dict[float, list[float]]] = {}
    levels: dict[str, list[float]] = {}
    for result in gathered.results:
        found = STRENGTH.fullmatch(result.method)
        try:
            strength = float(found["strength"]) if found else 0.0
        except ValueError:
            strength = 0.0
        if found and strength > 0:
            points = families.setdefault(found["family"], {})
            points.setdefault(strength, []).append(result.score)
        else:
            levels.setdefault(result.method, []).append(result.score)
    if not families:
        return None
    words = words_of(gathered.results)
    with styled():
        figure, (panel,) = new_figure(7.5, 4.2)
        for number, (family, by_strength) in enumerate(families.items()):
            strengths = sorted(by_strength)
            means = [float(np.mean(by_strength[each])) for each in strengths]
            colour = SERIES[number % len(SERIES)]
            panel.plot(strengths, means, marker="o", color=colour, label=family)
            for each in strengths:
                panel.plot([each] * len(by_strength[each]), by_strength[each], ".", color=colour, alpha=0.4)
        for number, (label, values) in enumerate(levels.items()):
            panel.axhline(
                float(np.mean(values)),
                color=QUIET,
                linestyle=LINE_STYLES[number % len(LINE_STYLES)],
                label=label,
            )
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter(lambda value, _: _power(value))
        panel.xaxis.set_minor_formatter(lambda value, _: "")
        panel.set_xlabel("strength δ")
        panel.set_ylabel(f"test {words.score}, %")
        panel.legend(loc="upper left", bbox_to_anchor=(1, 1))
        described = "; ".join(
            f"{family}: "
            + ", ".join(f"{s:g} gives {np.mean(values):.1f}" for s, values in sorted(points.items()))
            for family, points in families.items()
        )
        level = "; ".join(f"{label}: {np.mean(values):.1f}" for label, values in levels.items())
        svg = svg_of(
            figure,
            "regularisers",
            f"Test {words.score} against the strength of regularisers",
            f"{described}. {level}",
        )
    return Drawing(
        "regularisers",
        "Regularisers",
        f"Test {words.result}, against the strength δ; lines join the means over seeds; horizontal lines are "
        "methods without such a strength.",
        svg,
    )


def _power(value: float) -> str:
    """A strength at the axis.

    >>> _power(1e-07), _power(0.001)
    ('1e-7', '1e-3')
    """
    digits, _, exponent = f"{value:e}".partition("e")
    return f"{float(digits):g}e{int(exponent)}"
