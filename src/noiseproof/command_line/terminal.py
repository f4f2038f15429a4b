# SPDX-License-Identifier: Apache-2.0
"""What every command needs to print: a console, JSON, text that cannot steer a terminal."""

import json
import math
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 200
"""Columns where there is no terminal to ask: a line of a table is then one line."""


def open_console(piped_width: int | None = None) -> "Console":
    """The terminal; where there is none, so many columns, by default :data:`PIPED_WIDTH`."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=piped_width or PIPED_WIDTH)


def percent(value: float | None, digits: int = 2, without: str = "") -> str:
    """An accuracy without its sign; other words where there is none.

    >>> percent(61.274), percent(None, 1, without="–")
    ('61.27', '–')
    """
    return without if value is None else f"{value:.{digits}f}"


def mean_over(epochs: int) -> str:
    """Which epochs a result is of.

    >>> mean_over(10), mean_over(1)
    ('mean over the last 10 epochs', 'after its only epoch')
    """
    return "after its only epoch" if epochs == 1 else f"mean over the last {epochs} epochs"


def printable(text: str) -> str:
    r"""Text whose control characters are written out: what a config says must not steer the terminal.

    >>> print(printable("red \x1b[31m"))
    red \x1b[31m
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def as_json(value: Any) -> str:
    """Strict JSON, in which NaN and the infinities are the texts ``"NaN"``, ``"Infinity"``, ``"-Infinity"``.

    >>> as_json({"loss": float("nan")})
    '{\\n  "loss": "NaN"\\n}'
    """
    return json.dumps(_spelled_out(value), ensure_ascii=False, indent=2, allow_nan=False)


def _spelled_out(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _spelled_out(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled_out(each) for each in value]
    return value
