# SPDX-License-Identifier: Apache-2.0
"""A rule of the planner: a condition, a value, a reason, and what supports it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from noiseproof.planning.facts import Facts
from noiseproof.planning.sources import Source

Chosen = Mapping[str, Any]
"""What was said or chosen so far, by field. ``"row"`` is the row of the paper that numbers are taken from."""


@dataclass(frozen=True)
class Rule:
    """One rule. Of the rules for a field, the first that applies decides.

    Attributes:
        name: unique among all rules.
        field: of :class:`~noiseproof.training.Config`, or of the estimator; or ``"row"``.
        when: the condition in words.
        then: the value in words.
        applies: the condition.
        value: makes the value.
        reason: makes the reason that users read.
        sources: all that the rule rests on.
        cites: of these, or derived from them, those that matter in a case; all of them by default.
    """

    name: str
    field: str
    when: str
    then: str
    applies: Callable[[Facts, Chosen], bool]
    value: Callable[[Facts, Chosen], Any]
    reason: Callable[[Facts, Chosen], str]
    sources: tuple[Source, ...]
    cites: Callable[[Facts, Chosen], tuple[Source, ...]] | None = None

    def source(self, facts: Facts, chosen: Chosen) -> str:
        """What supports it in a case, in words."""
        return "; ".join(map(str, self.cites(facts, chosen) if self.cites else self.sources))


def always(value: Any) -> Callable[[Facts, Chosen], Any]:
    """What makes the same value in every case."""
    return lambda facts, chosen: value


def of_the_row(chosen: Chosen, field: str) -> Any:
    """What the recipe of the chosen row says of a field.

    >>> of_the_row({"row": "cifar10"}, "epochs")
    120
    """
    from noiseproof.training.config import read_recipe

    return read_recipe(str(chosen["row"]))[field]
