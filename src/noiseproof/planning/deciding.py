# SPDX-License-Identifier: Apache-2.0
"""Apply the rules: every field that the user left open is chosen, with its reason and its source."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from noiseproof.losses import record
from noiseproof.planning.choice import Choice
from noiseproof.planning.facts import Facts
from noiseproof.planning.loss_rules import LOSS_RULES
from noiseproof.planning.number_rules import PARAMETER_RULES, REGULARISER_RULES
from noiseproof.planning.photograph_rules import PHOTOGRAPH_RULES
from noiseproof.planning.row_rules import ROW_RULES
from noiseproof.planning.rule import Rule
from noiseproof.planning.table_rules import TABLE_RULES
from noiseproof.planning.training_rules import FIELDS, SPECIAL_RULES, row_field_rules

ORDER = (
    *("row", "loss", "loss_parameters", "l1", "weight_decay"),
    *("model", "weights", "freeze", "augment", "image_size", *FIELDS[1:]),
    "hidden",
)
"""Fields in the order in which they are decided: later ones may look at earlier ones."""

SHOWN_WHERE_UNUSUAL = (
    "model_options",
    "optimizer",
    "momentum",
    "nesterov",
    "schedule",
    "schedule_factor",
    "schedule_milestones",
    "clip_norm",
)
"""Fields that are left out of a plan where they have the value that a config has anyway and that the row has."""


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule of the planner; of those for a field the first that applies decides."""
    return (
        *ROW_RULES,
        *PHOTOGRAPH_RULES,
        *LOSS_RULES,
        *PARAMETER_RULES,
        *REGULARISER_RULES,
        *TABLE_RULES,
        *SPECIAL_RULES,
        *row_field_rules(),
    )


def decide(facts: Facts, said: Mapping[str, Any] | None = None) -> list[Choice]:
    """Choose every field that is open.

    Args:
        facts: what is known of the data.
        said: what the user said, by field; of ``loss_parameters`` it may be some.

    Returns:
        Choices in the order in which they were made; the first is the row of the paper (field ``"row"``).

    Example:
        >>> facts = Facts("folder:photos", samples=2_000, classes=4, form="files", side=480)
        >>> for choice in decide(facts)[:5]:
        ...     print(choice.field, choice.value)
        row cifar10
        loss anl-ce*
        loss_parameters {'alpha': 5.0, 'beta': 5.0, 'entropy_weight': 2.0}
        l1 5e-05
        weight_decay 0.0
    """
    said = {name: value for name, value in (said or {}).items() if value is not None}
    if "loss" in said:
        said["loss"] = record(str(said["loss"])).name
    chosen: dict[str, Any] = dict(said)
    choices = []
    for field in ORDER:
        if field in said and field != "loss_parameters":
            continue
        choice = _chosen_by_rule(field, facts, chosen)
        if choice is None:
            continue
        if field == "loss_parameters":
            choice = _still_open(choice, said.get(field, {}))
            if choice is None:
                continue
        chosen[field] = (
            {**choice.value, **said.get(field, {})} if field == "loss_parameters" else choice.value
        )
        choices.append(choice)
    return [each for each in choices if not _is_usual(each)]


def _chosen_by_rule(field: str, facts: Facts, chosen: Mapping[str, Any]) -> Choice | None:
    for rule in rules():
        if rule.field == field and rule.applies(facts, chosen):
            value, reason = rule.value(facts, chosen), rule.reason(facts, chosen)
            return Choice(field, value, reason, rule.name, rule.source(facts, chosen))
    return None


def _still_open(choice: Choice, said: Mapping[str, Any]) -> Choice | None:
    """What of a loss's parameters the user left open."""
    left = {name: value for name, value in choice.value.items() if name not in said}
    return Choice(choice.field, left, choice.reason, choice.rule, choice.source) if left else None


def _is_usual(choice: Choice) -> bool:
    if choice.field not in SHOWN_WHERE_UNUSUAL or choice.rule in {rule.name for rule in SPECIAL_RULES}:
        return False
    return choice.field in _defaults() and choice.value == _defaults()[choice.field]


@cache
def _defaults() -> dict[str, Any]:
    from noiseproof.training.config import Config

    return {each.name: each.default for each in fields(Config)}
