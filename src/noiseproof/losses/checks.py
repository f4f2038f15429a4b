# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments: each error says which argument, what was expected and what came."""

import difflib
import sys
from collections.abc import Iterable

REDUCTIONS = ("mean", "sum", "none")
LARGEST_FLOAT = sys.float_info.max


def number(name: str, value: object) -> float:
    """Return ``value`` as a finite float, or say why it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}: expected a number, got {shown(value)} of type {type(value).__name__}")
    # math.isfinite, in a form that torch.compile can follow; a whole number may be too large for a float.
    if not -LARGEST_FLOAT <= value <= LARGEST_FLOAT:
        raise ValueError(f"{name}: expected a finite number, got {shown(value)}")
    return float(value)


def non_negative(name: str, value: float) -> float:
    """Return ``value`` if it is a number of at least zero.

    >>> non_negative("alpha", -1.0)
    Traceback (most recent call last):
    ValueError: alpha: expected a number >= 0, got -1.0
    """
    checked = number(name, value)
    if checked < 0:
        raise ValueError(f"{name}: expected a number >= 0, got {value!r}")
    return checked


def above(name: str, value: float, bound: float) -> float:
    """Return ``value`` if it is a number greater than ``bound``."""
    checked = number(name, value)
    if checked <= bound:
        raise ValueError(f"{name}: expected a number > {bound:g}, got {value!r}")
    return checked


def probability_floor(name: str, value: float) -> float:
    """Return ``value`` if it lies strictly between 0 and 1, as a smallest probability must."""
    checked = number(name, value)
    if not 0 < checked < 1:
        raise ValueError(f"{name}: expected a number between 0 and 1 (exclusive), got {value!r}")
    return checked


def positive_integer(name: str, value: int) -> int:
    """Return ``value`` if it is an integer of at least one."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an integer, got {shown(value)} of type {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name}: expected an integer >= 1, got {shown(value)}")
    return value


def shown(value: object) -> str:
    """A value in a message, cut where it is long.

    >>> shown(-1.0), shown("x" * 1000)[-12:], shown(1 << 100_000)
    ('-1.0', 'xxxxxxxxxxx…', 'an integer of 100001 bits')
    """
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def reduction(value: str) -> None:
    """Accept the three reductions that torch knows."""
    if value not in REDUCTIONS:
        raise ValueError(unknown("reduction", value, REDUCTIONS))


def unknown(argument: str, value: object, known: Iterable[str]) -> str:
    """Say that ``value`` is not among the ``known`` names and which one comes nearest.

    >>> unknown("loss", "anlce", ["anl-ce", "ce"])
    "loss: unknown name 'anlce'; did you mean 'anl-ce'? Known: anl-ce, ce"
    >>> unknown("loss", "anl", ["anl-ce", "nfl"])
    "loss: unknown name 'anl'; did you mean 'anl-ce'? Known: anl-ce, nfl"
    """
    names, asked = sorted(known), str(value)[:100].lower()
    nearest = difflib.get_close_matches(asked, names, n=1, cutoff=0.7)
    nearest = nearest or [name for name in names if len(asked) > 1 and name.startswith(asked)]
    nearest = nearest or difflib.get_close_matches(asked, names, n=1, cutoff=0.5)
    suggestion = f"; did you mean {nearest[0]!r}?" if nearest else "."
    return f"{argument}: unknown name {shown(value)}{suggestion} Known: {', '.join(names)}"
