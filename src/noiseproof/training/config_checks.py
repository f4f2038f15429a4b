# SPDX-License-Identifier: Apache-2.0
"""What the fields of a config may be; files and flags may put anything anywhere.

Each check raises TypeError or ValueError with the field's name, what was expected and what came.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from noiseproof.losses import checks, create, record
from noiseproof.models import imagenet
from noiseproof.noise.checks import LARGEST_SEED

if TYPE_CHECKING:
    from noiseproof.training.config import Config

OPTIMIZERS = ("sgd", "adam", "adamw")
SCHEDULES = ("constant", "cosine", "exponential", "step", "milestones")
PRECISIONS = ("float32", "tf32", "bf16")

MOST = {"epochs": 1_000_000, "batch_size": 10_000_000, "image_size": 10_000, "schedule_every": 1_000_000}
"""Beyond these a number is taken for a slip: the run would never end, or no memory would hold it."""

DEEPEST_NESTING = 16
"""Of tables and lists in a recipe."""

_KINDS: dict[str, tuple[Any, str]] = {
    str(str): (str, "a text"),
    str(str | None): (str | None, "a text"),
    str(bool): (bool, "true or false"),
    str(Mapping[str, Any]): (Mapping, "a table"),
    str(tuple[float, ...]): (tuple | list, "a list of numbers"),
}
"""Kinds of fields that nothing else checks, by their annotation."""


def check_kinds(config: "Config") -> None:
    """Refuse a field of another kind than stated."""
    for each in fields(config):
        value = getattr(config, each.name)
        kind, words = _KINDS.get(str(each.type), (object, ""))
        if not isinstance(value, kind):
            raise TypeError(
                f"{each.name}: expected {words}, got {checks.shown(value)} of type {type(value).__name__}"
            )
    for share in config.schedule_milestones:
        checks.number("schedule_milestones", share)
    if nesting(config.model_options) > DEEPEST_NESTING:
        raise ValueError(f"model_options: expected at most {DEEPEST_NESTING} levels, got more")


def _augmentations() -> tuple[str, ...]:
    from noiseproof.datasets.augment import recipes

    return ("none", *(recipe.name for recipe in recipes() if recipe.train))


def check_values(config: "Config") -> None:
    """Refuse names that nobody knows, and numbers out of bounds."""
    for name, allowed in (("optimizer", OPTIMIZERS), ("schedule", SCHEDULES), ("precision", PRECISIONS)):
        if getattr(config, name) not in allowed:
            raise ValueError(checks.unknown(name, getattr(config, name), allowed))
    if config.weights == imagenet.NAME:
        imagenet.require_known(config.model)
    if config.freeze and config.weights is None:
        raise ValueError(
            "freeze: only the final layer would learn, on what a network of random weights makes of images; say "
            'which weights to start from, a file or "imagenet"'
        )
    if config.augment is not None and config.augment not in _augmentations():
        raise ValueError(checks.unknown("augment", config.augment, _augmentations()))
    for name in ("epochs", "batch_size", "evaluate_every", "schedule_every"):
        checks.positive_integer(name, getattr(config, name))
    for name in ("train_size", "image_size"):
        if getattr(config, name) is not None:
            checks.positive_integer(name, getattr(config, name))
    for name, largest in MOST.items():
        if (getattr(config, name) or 0) > largest:
            raise ValueError(f"{name}: expected at most {largest}, got {checks.shown(getattr(config, name))}")
    for name, most in (("seed", LARGEST_SEED), ("noise_seed", LARGEST_SEED), ("workers", 1024)):
        value = getattr(config, name)
        if not (name == "noise_seed" and value is None) and not _is_integer_within(value, most):
            raise ValueError(f"{name}: expected an integer from 0 to {most}, got {checks.shown(value)}")
    checks.above("learning_rate", config.learning_rate, 0)
    for name in ("momentum", "weight_decay", "l1", "jacobian", "clip_norm", "ema", "schedule_factor"):
        checks.non_negative(name, getattr(config, name))


def check_loss(config: "Config") -> None:
    """Refuse hyper-parameters that the loss does not take; the loss itself knows which it takes."""
    parameters: dict[str, Any] = dict(config.loss_parameters)
    for key in parameters:
        if key in ("name", "recipe", "noise"):
            raise TypeError(checks.unknown("loss_parameters", key, record(config.loss).defaults))
    create(config.loss, **parameters)
    if type(parameters.get("ignore_index", 0)) is not int:
        raise TypeError(f"ignore_index: expected an integer, got {checks.shown(parameters['ignore_index'])}")


def check_schedule(config: "Config") -> None:
    """Refuse a moving average or a learning rate that would go astray, or grow beyond all numbers."""
    if not 0 <= config.ema < 1:
        raise ValueError(f"ema: expected a decay in [0, 1), got {config.ema!r}")
    if any(not 0 < share < 1 for share in config.schedule_milestones):
        raise ValueError(
            f"schedule_milestones: expected shares of all epochs between 0 and 1, such as [0.5, 0.75], got "
            f"{list(config.schedule_milestones)}"
        )
    try:
        finite = config.learning_rate_at(config.epochs - 1) <= checks.LARGEST_FLOAT
    except OverflowError:
        finite = False
    if not finite:
        raise ValueError(
            f"schedule_factor: expected a learning rate that stays finite over {config.epochs} epochs, got "
            f"{config.schedule_factor!r}; below 1 it falls"
        )


def nesting(value: Any) -> int:
    """How deep tables and lists stand in one another, counted without descending by calls.

    >>> nesting({"a": [1, [2]]}), nesting(5)
    (3, 0)
    """
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, Mapping | list | tuple)]:
        depth += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, Mapping) else each)]
        if depth > DEEPEST_NESTING:
            break
    return depth


def _is_integer_within(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
