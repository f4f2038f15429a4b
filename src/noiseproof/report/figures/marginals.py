# SPDX-License-Identifier: Apache-2.0
"""Marginal class probabilities: of the given labels, and of each method's predictions."""

from typing import TYPE_CHECKING

import numpy as np

from noiseproof.report.figures import Drawing, figure_of
from noiseproof.report.plots import QUIET, SERIES, new_figure, styled, svg_of
from noiseproof.results import Result

if TYPE_CHECKING:
    from noiseproof.results import Gathered

MOST_NAMED = 30
"""Classes up to which each is named at the axis."""


@figure_of("marginals")
def marginals(gathered: "Gathered") -> Drawing | None:
    """Bars by class: share among the given labels, and mean predicted probability, one panel a noise."""
    by_noise: dict[str, dict[str, list[Result]]] = {}
    for result in gathered.results:
        if result.predicted_marginals is not None:
            by_noise.setdefault(result.noise, {}).setdefault(result.method, []).append(result)
    if not by_noise:
        return None
    with styled():
        figure, panels = new_figure(8.5, 3.2 * len(by_noise), len(by_noise))
        for panel, (noise, methods) in zip(panels, by_noise.items(), strict=True):
            first = next(iter(methods.values()))[0]
            labels = first.noise_facts.get("label_marginals")
            classes = len(first.predicted_marginals or ())
            width = 0.8 / (len(methods) + (labels is not None))
            places = np.arange(classes)
            bars = [] if labels is None else [("given labels", np.asarray(labels), QUIET)]
            for number, (method, results) in enumerate(methods.items()):
                mean = np.mean([result.predicted_marginals or () for result in results], axis=0)
                bars.append((f"predictions, {method}", mean, SERIES[number % len(SERIES)]))
            for number, (label, heights, colour) in enumerate(bars):
                offset = (number - (len(bars) - 1) / 2) * width
                panel.bar(places + offset, heights, width, color=colour, label=label)
            panel.axhline(1 / classes, color=QUIET, linestyle=":", linewidth=1)
            panel.grid(axis="x", visible=False)
            panel.set_ylabel("probability")
            panel.set_title(noise)
            if classes <= MOST_NAMED:
                names = first.noise_facts.get("class_names") or [str(k) for k in range(classes)]
                long = any(len(str(name)) > 6 for name in names)
                panel.set_xticks(
                    places,
                    [str(name) for name in names],
                    rotation=35 if long else 0,
                    ha="right" if long else "center",
                )
            else:
                panel.set_xlabel("class")
            panel.legend(loc="upper left", bbox_to_anchor=(1, 1))
        svg = svg_of(
            figure,
            "marginals",
            "Marginal probability of each class",
            "Share of each class among the given labels, and mean predicted probability for each method: "
            + "; ".join(f"{noise}: {', '.join(methods)}" for noise, methods in by_noise.items()),
        )
    return Drawing(
        "marginals",
        "Marginal class probabilities",
        "Share of each class among the labels that were trained on, and mean predicted probability over the last "
        "epoch's training samples; dotted: equal shares.",
        svg,
    )
