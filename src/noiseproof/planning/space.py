# SPDX-License-Identifier: Apache-2.0
"""What is searched: ranges around a config's own numbers, which are the paper's where it has some."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noiseproof.losses import record

if TYPE_CHECKING:
    from noiseproof.training.config import Config

WEIGHTS = ("alpha", "beta", "entropy_weight", "bound")
"""Hyper-parameters of losses that may be anything above 0: searched from a tenth to ten times their value."""

OF_LOSSES: Mapping[tuple[str, str], tuple[float, float]] = {
    ("gce", "q"): (0.1, 1.0),
    ("phce", "tau"): (1.5, 20.0),
}
"""Further ones that have ends of their own; what is neither here nor above stays as published."""

SMALLEST_L1 = 1e-7


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


def _around(name: str, value: float, factor: float) -> Range:
    return Range(name, value / factor, value * factor, value)


def with_numbers(config: "Config", space: tuple[Range, ...], numbers: Mapping[str, float]) -> "Config":
    """A config with the numbers of a trial in the place of its own."""
    from noiseproof.training.config import with_changes

    of_loss = {each.name for each in space if each.of_loss}
    parameters = {**config.loss_parameters, **{k: v for k, v in numbers.items() if k in of_loss}}
    others: dict[str, Any] = {name: value for name, value in numbers.items() if name not in of_loss}
    return with_changes(config, loss_parameters=parameters, **others)
