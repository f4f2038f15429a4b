# SPDX-License-Identifier: Apache-2.0
"""Matplotlib figures as SVG that takes its colours from the page, so that light and dark both suit it."""

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, QUIET, LINE, PAPER = "#010201", "#010202", "#010203", "#010204"
"""Colours that no figure uses otherwise: each stands for a variable of the page's style sheet."""

SERIES = tuple(f"#0103{number:02x}" for number in range(1, 8))
"""Colours of series, likewise."""

_VARIABLES = {
    INK: "var(--ink)",
    QUIET: "var(--quiet)",
    LINE: "var(--line)",
    PAPER: "var(--paper)",
    **{colour: f"var(--s{number})" for number, colour in enumerate(SERIES, 1)},
}

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "noiseproof",
    "text.parse_math": False,
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "patch.edgecolor": INK,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the page's style; nothing in a label is taken for mathematics."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        yield


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> Any:
    """Return a figure and its panels, as a flat list; call within :func:`styled`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(panels.flat)


def svg_of(figure: "Figure", key: str, title: str, description: str) -> str:
    """Return a figure as SVG to stand in a page.

    Args:
        figure: drawn within :func:`styled`.
        key: unique in the page: its parts are named by it.
        title: what it shows, in a few words, for those who cannot see it.
        description: what is to be seen.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'(?<=\bid=")(?=[^"])', f"{key}-", text)
    text = re.sub(r'(?<=href="#)|(?<=url\(#)', f"{key}-", text)
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    _, box, rest = re.split(r'<svg[^>]*viewBox="([^"]+)"[^>]*>', text, maxsplit=1)
    width = float(box.split()[2])
    return (
        f'<svg viewBox="{box}" style="max-width:{width * 1.25:.0f}px" role="img" '
        f'aria-labelledby="{key}-t {key}-d" xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<title id="{key}-t">{html.escape(title)}</title><desc id="{key}-d">{html.escape(description)}</desc>'
        f"{rest.strip()}"
    )
