# SPDX-License-Identifier: Apache-2.0
"""What the noise came out as: rates, heat maps of which class was given which label, and what was done to masks."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from noiseproof.results import Result

MOST_CLASSES = 20
"""Classes up to which the whole matrix is drawn; with more, the rate of each class."""

KINDS = {"kept": "unchanged", "erode": "eroded", "dilate": "dilated", "affine": "affine"}
"""What was done to masks, in words."""

CELL = 16
LABEL_SPACE = 14

MOST_MASKS = 10**12
"""Beyond this a count is taken for a slip."""


@dataclass(frozen=True)
class NoiseFacts:
    """What is known of one noise.

    Attributes:
        name: its short name.
        rates: realised shares of wrong labels or masks, lowest and highest over the runs; None where not recorded.
        wrong_pixels: of masks, likewise, the share of wrong pixels in all of them; None for labels.
        draws: how many different realisations there are.
        generator: how it was drawn, where that is on record.
        drawn: what the picture shows: the transition matrix, the rate of each class, or what was done to masks.
        picture: SVG of the first run's realisation; empty where nothing is recorded.
    """

    name: str
    rates: tuple[float, float] | None
    wrong_pixels: tuple[float, float] | None
    draws: int
    generator: str
    drawn: Literal["matrix", "classes", "kinds", ""]
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
    pixels = [
        share for result in results if (share := _share(result.noise_facts.get("wrong_pixels"))) is not None
    ]
    kinds = _kinds(first)
    words = [str(first[key]) for key in ("kind", "generator") if first.get(key)]
    if kinds:
        words = [f"{count} {KINDS[kind]}" for kind, count in kinds.items()]
    return NoiseFacts(
        noise,
        (min(rates), max(rates)) if rates else None,
        (min(pixels), max(pixels)) if pixels else None,
        0 if noise == "clean" else len(draws),
        ", ".join(words),
        *_picture(noise, first, kinds),
    )


def _share(value: Any) -> float | None:
    """A share; None for whatever else a file may hold in its place."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None


def _kinds(facts: Mapping[str, Any]) -> dict[str, int]:
    """Masks by what was done to them; empty where that is not on record."""
    found = facts.get("kinds")
    if not isinstance(found, Mapping):
        return {}
    kinds = {kind: found[kind] for kind in KINDS if kind in found}
    whole = all(isinstance(count, int) and 0 <= count <= MOST_MASKS for count in kinds.values())
    return kinds if whole and sum(kinds.values()) > 0 else {}


def _picture(
    noise: str, facts: Mapping[str, Any], kinds: Mapping[str, int]
) -> tuple[Literal["matrix", "classes", "kinds", ""], str]:
    transition, rates = facts.get("transition"), facts.get("class_rates")
    names = [str(name) for name in facts.get("class_names") or ()]
    if transition is not None and len(transition) <= MOST_CLASSES:
        return "matrix", _heat_map(noise, transition, names)
    if rates is not None and any(rates):
        return "classes", _bars(noise, rates, names)
    if kinds:
        return "kinds", _kind_bars(noise, kinds)
    return "", ""


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


def _kind_bars(noise: str, kinds: Mapping[str, int]) -> str:
    """Masks left as they are and made wrong in each way, one bar each."""
    width, left, right, step = 210.0, 56.0, 30.0, 18.0
    scale = (width - left - right) / max(kinds.values())
    bars = "".join(
        f'<text class="y" x="{left - 4:g}" y="{step * (row + 0.5) + 3:g}">{KINDS[kind]}</text>'
        f'<rect x="{left:g}" y="{step * row + 3:g}" width="{scale * count:.4g}" height="{step - 6:g}"/>'
        f'<text class="y first" x="{left + scale * count + 4:.4g}" y="{step * (row + 0.5) + 3:g}">{count:,}</text>'
        for row, (kind, count) in enumerate(kinds.items())
    )
    said = ", ".join(f"{KINDS[kind]} {count:,}" for kind, count in kinds.items())
    box = f"0 0 {width:g} {step * len(kinds):g}"
    return (
        f'<svg class="heat bars" viewBox="{box}" role="img"><title>{html.escape(noise)}: '
        f"what was done to masks</title><desc>Masks: {said}.</desc>{bars}</svg>"
    )


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else f"class {number}"
