# SPDX-License-Identifier: Apache-2.0
"""One number of a plan, with its reason and what supports it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Choice:
    """One field of a config or of an estimator, and why it has this value.

    Attributes:
        field: its name.
        value: what was chosen.
        reason: why, in words.
        rule: name of the rule that chose it (``docs/plan.md`` lists them); empty where the user said it.
        source: rows of the paper and recorded runs that support the rule.
    """

    field: str
    value: Any
    reason: str
    rule: str = ""
    source: str = ""
