# SPDX-License-Identifier: Apache-2.0
"""What the label noise came out as: rates, and heat maps of which class was given which label."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from noiseproof.results import Result

MOST_CLASSES = 20
"""Classes up to which the whole matrix is drawn; with more, the rate of each class."""

CELL = 16
LABEL_SPACE = 14


@dataclass(frozen=True)
class NoiseFacts:
    """What is known of one noise.

    Attributes:
        name: its short name.
        rates: realised shares of wrong labels, lowest and highest over the runs; None where not recorded.
        draws: how many different realisations there are.
        generator: how it was drawn, where that is on record.
        picture: SVG of the first run's realisation; empty where nothing is recorded.
    """

    name: str
    rates: tuple[float, float] | None
    draws: int
    generator: str
    picture: str


def noise_facts(results: Sequence[Result], noises: Sequence[str]) -> list[NoiseFacts]:
    """Return the facts of every noise among the results, in the order of ``noises``."""
    by_noise: dict[str, list[Result]] = {noise: [] for noise in noises}
    for result in results:
        by_noise[result.noise].append(result)
    return [_facts(noise, each) for noise, each in by_noise.items() if each]


def _facts(noise: str, results: Sequence[Result]) -> NoiseFacts:
    rates = [result.realised_rate for result in results if result.realised_rate is not None]
    draws = {str(result.noise_facts.get("seed", result.seed)) for result in results}
    first = min(results, key=lambda result: result.seed).noise_facts
    words = [str(first[key]) for key in ("kind", "generator") if first.get(key)]
    return NoiseFacts(
        noise,
        (min(rates), max(rates)) if rates else None,
        0 if noise == "clean" else len(draws),
        ", ".join(words),
        _picture(noise, first),
    )


def _picture(noise: str, facts: Any) -> str:
    transition, rates = facts.get("transition"), facts.get("class_rates")
    names = [str(name) for name in facts.get("class_names") or ()]
    if transition is not None and len(transition) <= MOST_CLASSES:
        return _heat_map(noise, transition, names)
    if rates is not None and any(rates):
        return _bars(noise, rates, names)
    return ""


def _heat_map(noise: str, transition: Sequence[Sequence[float]], names: Sequence[str]) -> str:
    """Rows are true classes, columns given labels; the darker, the more."""
    size = len(transition)
    cells = []
    for row, shares in enumerate(transition):
        for column, share in enumerate(shares):
            if share > 0:
                where = f"{_name(names, row)} given as {_name(names, column)}: {share:.1%}"
                cells.append(
                    f'<rect x="{LABEL_SPACE + CELL * column}" y="{LABEL_SPACE + CELL * row}" width="{CELL}" '
                    f'height="{CELL}" fill-opacity="{share:.3g}"><title>{html.escape(where)}</title></rect>'
                )
    marks = "".join(
        f'<text class="x" x="{LABEL_SPACE + CELL * (k + 0.5):g}" y="{LABEL_SPACE - 4}">{k}</text>'
        f'<text class="y" x="{LABEL_SPACE - 4}" y="{LABEL_SPACE + CELL * (k + 0.5) + 3:g}">{k}</text>'
        for k in range(size)
    )
    side = LABEL_SPACE + CELL * size + 2
    description = "Share of each true class (row) that was given each label (column), by class number."
    return (
        f'<svg class="heat" viewBox="0 0 {side} {side}" role="img"><title>{html.escape(noise)}: transition matrix'
        f"</title><desc>{description}</desc>{marks}{''.join(cells)}"
        f'<path class="g" d="M{LABEL_SPACE} {LABEL_SPACE}h{CELL * size}v{CELL * size}h-{CELL * size}z"/></svg>'
    )


def _bars(noise: str, rates: Sequence[float], names: Sequence[str]) -> str:
    """Rate of wrong labels of each class."""
    width, height, left = 190.0, 90.0, 30.0
    step = (width - left) / len(rates)
    bars = "".join(
        f'<rect x="{left + step * (k + 0.1):.4g}" y="{4 + height * (1 - rate):.4g}" width="{0.8 * step:.4g}" '
        f'height="{height * rate:.4g}"><title>{html.escape(_name(names, k))}: {rate:.1%}</title></rect>'
        for k, rate in enumerate(rates)
    )
    axis = "".join(
        f'<path class="g" d="M{left:g} {4 + height * (1 - share):g}H{width:g}"/>'
        f'<text class="y" x="{left - 3:g}" y="{7 + height * (1 - share):g}">{share:.0%}</text>'
        for share in (0, 0.5, 1)
    )
    middle = (left + width) / 2
    return (
        f'<svg class="heat bars" viewBox="0 0 {width:g} {height + 20:g}" role="img"><title>{html.escape(noise)}: '
        f"wrong labels by class</title><desc>Share of wrong labels of each true class, from {min(rates):.1%} to "
        f'{max(rates):.1%}.</desc>{axis}{bars}<text class="x" x="{middle:g}" y="{height + 16:g}">true class</text>'
        "</svg>"
    )


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else f"class {number}"
