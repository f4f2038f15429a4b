# SPDX-License-Identifier: Apache-2.0
"""What is searched: ranges around a config's own numbers, which are the paper's where it has some."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noiseproof.losses import checks, record

if TYPE_CHECKING:
    from noiseproof.training.config import Config

WEIGHTS = ("alpha", "beta", "entropy_weight", "bound")
"""Hyper-parameters of losses that may be anything above 0: searched from a tenth to ten times their value."""

OF_LOSSES: Mapping[tuple[str, str], tuple[float, float]] = {
    ("gce", "q"): (0.1, 1.0),
    ("phce", "tau"): (1.5, 20.0),
}
"""Further ones that have ends of their own; what is neither here nor above stays as published."""

OF_CONFIGS = ("learning_rate", "l1", "weight_decay", "momentum", "jacobian", "clip_norm")
"""Fields of a config that can be searched when they are named."""

MOMENTA = (0.0, 0.99)
"""Ends of momentum, which has no tenfold: from one on no run converges."""

GUARDS = ("p_min", "p_floor", "label_floor")
"""Numbers of losses that keep them finite, which nobody would search."""

LARGEST_EVEN_RATIO = 10
"""Where a range is wider than this, its logarithm is searched evenly."""


@dataclass(frozen=True)
class Range:
    """One number to search.

    Attributes:
        name: what it is called in a study: a field of the config, or a hyper-parameter of the loss.
        low: its smallest value.
        high: its largest value.
        start: the config's own, tried first.
        log: whether its logarithm is searched evenly.
        of_loss: whether it is a hyper-parameter of the loss.
    """

    name: str
    low: float
    high: float
    start: float
    log: bool = True
    of_loss: bool = False


def space_of(config: "Config") -> tuple[Range, ...]:
    """The numbers to search for a config: those of its loss, its regulariser and the learning rate.

    Example:
        >>> from noiseproof.training import resolve
        >>> for each in space_of(resolve("digits", loss="anl-ce")):
        ...     print(f"{each.name}: {each.low:.2g} to {each.high:.2g}")
        alpha: 0.5 to 50
        beta: 0.5 to 50
        l1: 2.5e-06 to 0.001
        learning_rate: 0.002 to 0.05
    """
    defaults = record(config.loss).defaults
    found: list[Range] = []
    for name, default in defaults.items():
        value = config.loss_parameters.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if name in WEIGHTS and value > 0:
            found.append(Range(name, value / 10, value * 10, float(value), of_loss=True))
        elif (config.loss, name) in OF_LOSSES:
            low, high = OF_LOSSES[config.loss, name]
            start = min(high, max(low, float(value)))
            found.append(Range(name, low, high, start, log=False, of_loss=True))
    if config.l1:
        found.append(_around("l1", config.l1, 20))
    if config.weight_decay:
        found.append(_around("weight_decay", config.weight_decay, 10))
    found.append(_around("learning_rate", config.learning_rate, 5))
    return tuple(found)


def left_alone(config: "Config", space: Sequence[Range]) -> tuple[str, ...]:
    """Numbers of the loss that are not searched, though they could be.

    >>> from noiseproof.training import resolve
    >>> config = resolve("digits", loss="nce+agce")
    >>> left_alone(config, space_of(config))
    ('a', 'q')
    """
    searched = {each.name for each in space}
    return tuple(
        name
        for name, value in _numbers_of_loss(config).items()
        if name not in (*searched, *GUARDS) and value and not isinstance(value, int)
    )


def named_space(config: "Config", wanted: Sequence[str]) -> tuple[Range, ...]:
    """The numbers that the user wants to search, and no others.

    Args:
        config: the start.
        wanted: ``NAME=LOW:HIGH``, or ``NAME`` for the range that :func:`space_of` gives it, or else a tenth to ten
            times its value (momentum: :data:`MOMENTA`); of hyper-parameters of the loss and of :data:`OF_CONFIGS`.

    Raises:
        ValueError: a number is not known, or the config cannot have an end of its range.

    Example:
        >>> from noiseproof.training import resolve
        >>> for each in named_space(resolve("digits", loss="nce+agce"), ["q=0.5:3", "beta"]):
        ...     print(f"{each.name}: {each.low:.2g} to {each.high:.2g}, from {each.start:g}")
        q: 0.5 to 3, from 1.5
        beta: 0.4 to 40, from 4
    """
    usual = {each.name: each for each in space_of(config)}
    of_loss = _numbers_of_loss(config)
    known = (*of_loss, *(name for name in OF_CONFIGS if name not in of_loss))
    found: dict[str, Range] = {}
    for each in wanted:
        name, says_range, text = (part.strip() for part in each.partition("="))
        if name not in known:
            raise ValueError(checks.unknown("search", name, known))
        if name in found:
            raise ValueError(f"search: {name} is named twice")
        value = of_loss[name] if name in of_loss else getattr(config, name)
        if isinstance(value, int) and name not in usual:
            raise ValueError(
                f"search: {name} is a whole number, which cannot be searched; compare its values in a grid, with "
                "for_each"
            )
        if says_range:
            found[name] = _between(*_ends(each, text), name, float(value), name in of_loss)
        elif name == "momentum" and name not in of_loss:
            found[name] = _between(*MOMENTA, name, float(value), of_loss=False)
        else:
            found[name] = usual.get(name) or _tenfold(name, float(value), name in of_loss)
        _require_both_ends(config, found[name])
    return tuple(found.values())


def _between(low: float, high: float, name: str, value: float, of_loss: bool) -> Range:
    log = low > 0 and high > LARGEST_EVEN_RATIO * low
    return Range(name, low, high, min(high, max(low, value)), log, of_loss)


def _require_both_ends(config: "Config", searched: Range) -> None:
    """Refuse a range that the config cannot have now: a trial would, after others had taken their time."""
    for end in (searched.low, searched.high):
        try:
            with_numbers(config, (searched,), {searched.name: end})
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"search: {searched.name} cannot be searched from {searched.low:g} to {searched.high:g} ({error}); "
                f"give {searched.name}=LOW:HIGH with other limits"
            ) from error


def _numbers_of_loss(config: "Config") -> dict[str, int | float]:
    values = {**record(config.loss).defaults, **config.loss_parameters}
    numbers = {k: v for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    return {k: v for k, v in numbers.items() if k in record(config.loss).defaults}


def _tenfold(name: str, value: float, of_loss: bool) -> Range:
    if value <= 0:
        raise ValueError(f"search: {name} is {value:g}, so it has no range by default; give {name}=LOW:HIGH")
    return Range(name, value / 10, value * 10, value, of_loss=of_loss)


def _ends(said: str, text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise ValueError(f"search: expected NAME=LOW:HIGH, such as cap=0.5:10, got {said[:80]!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"search: expected two numbers, the smaller one first, got {said[:80]!r}")
    return low, high


def _around(name: str, value: float, factor: float) -> Range:
    return Range(name, value / factor, value * factor, value)


def with_numbers(config: "Config", space: tuple[Range, ...], numbers: Mapping[str, float]) -> "Config":
    """A config with the numbers of a trial in the place of its own."""
    from noiseproof.training.config import with_changes

    of_loss = {each.name for each in space if each.of_loss}
    parameters = {**config.loss_parameters, **{k: v for k, v in numbers.items() if k in of_loss}}
    others: dict[str, Any] = {name: value for name, value in numbers.items() if name not in of_loss}
    return with_changes(config, loss_parameters=parameters, **others)
