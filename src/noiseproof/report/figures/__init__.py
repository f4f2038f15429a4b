# SPDX-License-Identifier: Apache-2.0
"""Figures: each is a function from a grid's recorded runs to a drawing, registered for the kinds of grid it suits.

A new figure is a new file here, with one function under :func:`figure_of`, named in :data:`HOMES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noiseproof.results import Gathered

HOMES = ("marginals", "regularisers", "gradients", "alpha_beta", "curves", "segmentation", "flipping")
"""Modules with figures, in the order in which a page shows them."""


@dataclass(frozen=True)
class Drawing:
    """A figure, ready to stand in a page.

    Attributes:
        key: short and unique; links lead to it.
        title: its heading.
        caption: what is drawn, and how to read it.
        markup: HTML or SVG in which all text is escaped.
    """

    key: str
    title: str
    caption: str
    markup: str


Maker = Callable[["Gathered"], Drawing | None]

_MAKERS: list[tuple[frozenset[str] | None, Maker]] = []


def figure_of(*kinds: str) -> Callable[[Maker], Maker]:
    """Register a figure for grids of these kinds; for all where none is named.

    The function returns None where the runs hold nothing to draw.
    """

    def register(maker: Maker) -> Maker:
        _MAKERS.append((frozenset(kinds) or None, maker))
        return maker

    return register


def draw_all(gathered: "Gathered") -> list[Drawing]:
    """Draw every figure that suits a grid and has something to show."""
    order = {import_module(f"{__name__}.{home}").__name__: place for place, home in enumerate(HOMES)}
    makers = sorted(_MAKERS, key=lambda each: order.get(each[1].__module__, len(order)))
    drawings = [maker(gathered) for kinds, maker in makers if kinds is None or gathered.grid.kind in kinds]
    return [drawing for drawing in drawings if drawing is not None]
