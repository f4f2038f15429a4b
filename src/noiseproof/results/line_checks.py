# SPDX-License-Identifier: Apache-2.0
"""Checks of a line of a results file: figures and pages are made of it, and it may come from anywhere.

What a line may lack it may lack; what it has must be of the kind and size that :func:`result_of_record` writes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

SLACK = 0.01
"""How far beyond 0 and 100 percent rounding may lead."""

DEEPEST = 16


def check_line(line: Mapping[str, Any]) -> None:
    """Refuse a line of which no table or figure could be made.

    Raises:
        ValueError: something in it is of another kind or size; the message says what.
    """
    _check_nesting(line)
    for key in ("dataset", "loss", "noise", "config_hash"):
        if not isinstance(line[key], str):
            raise ValueError(f"{key}: expected a text, got {shown(line[key])}")
    if isinstance(line["seed"], bool) or not isinstance(line["seed"], int):
        raise ValueError(f"seed: expected a whole number, got {shown(line['seed'])}")
    for key in ("config", "noise_facts", "environment", "epochs"):
        if not isinstance(line.get(key) or {}, Mapping):
            raise ValueError(f"{key}: expected an object, got a {type(line[key]).__name__}")
    for key, most in _MOST.items():
        _check_number(key, line.get(key), most)
    config, environment = line.get("config") or {}, line.get("environment") or {}
    if config and not (config.keys() >= _NEEDED and isinstance(config["loss_parameters"], Mapping)):
        raise ValueError(
            f"config: expected {', '.join(sorted(_NEEDED))}, of which loss_parameters is an object"
        )
    for key in ("dataset", "loss", "noise"):
        if not isinstance(config.get(key, ""), str):
            raise ValueError(f"config.{key}: expected a text, got {shown(config[key])}")
    if not isinstance(environment.get("versions") or {}, Mapping):
        raise ValueError(f"versions: expected an object, got {shown(environment['versions'])}")
    _check_epochs(line.get("epochs") or {})
    _check_noise(line.get("noise_facts") or {}, line.get("predicted_marginals"))


_MOST = {
    "test_accuracy": 100,
    "test_dice": 100,
    "test_dice_per_image": 100,
    "realised_rate": 1,
    "seconds": 1e12,
}
_NEEDED = frozenset({"dataset", "loss", "noise", "seed", "loss_parameters"})


def _check_nesting(value: Any) -> None:
    level, depth = [value], 0
    while level:
        for each in level:
            if isinstance(each, int) and each.bit_length() > 1000:
                raise ValueError(f"expected numbers that can be computed with, found {shown(each)}")
        level = [each for each in level if isinstance(each, dict | list)]
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"expected at most {DEEPEST} levels of objects and lists, found more")


def _check_number(key: str, value: Any, most: float) -> None:
    """Numbers must lie in range; other kinds count as not measured."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return
    if not -SLACK <= value <= most + SLACK:
        raise ValueError(f"{key}: expected a number from 0 to {most:g}, got {shown(value)}")


def _check_epochs(epochs: Mapping[str, Any]) -> None:
    for which in ("test", "clean", "flipped"):
        for value in _listed(f"epochs.{which}", epochs.get(which)):
            _check_number(f"epochs.{which}", value, 100)
    pulls = epochs.get("strongest_pull")
    if not pulls:
        return
    if not isinstance(pulls, Mapping):
        raise ValueError(f"strongest_pull: expected an object, got {shown(pulls)}")
    levels = numbers("strongest_pull.quantiles", pulls.get("quantiles"))
    count = _check_pulls("strongest_pull", pulls, len(levels))
    if (floored := pulls.get("floored")) is not None:
        if (
            not isinstance(floored, Mapping)
            or not {"clean", "flipped"} <= floored.keys()
            or "floored" in floored
        ):
            raise ValueError(
                f"strongest_pull.floored: expected an object with clean and flipped, got {shown(floored)}"
            )
        if (found := _check_pulls("strongest_pull.floored", floored, len(levels))) != count:
            raise ValueError(f"strongest_pull.floored: expected {count} epochs, got {found}")


def _check_pulls(key: str, pulls: Mapping[str, Any], levels: int) -> int:
    """So many quantiles for each epoch, of clean and of flipped samples; and means, if there are any.

    Returns the number of epochs.
    """
    parts = {part: _listed(f"{key}.{part}", pulls.get(part)) for part in ("clean", "flipped")}
    if len(parts["clean"]) != len(parts["flipped"]):
        raise ValueError(
            f"{key}: expected as many epochs of clean samples as of flipped ones, got "
            f"{len(parts['clean'])} and {len(parts['flipped'])}"
        )
    for part, rows in parts.items():
        means = _listed(f"{key}.{part}_mean", pulls.get(f"{part}_mean"))
        if means and len(means) != len(rows):
            raise ValueError(f"{key}.{part}_mean: expected {len(rows)} epochs, got {len(means)}")
        if measured := [mean for mean in means if mean is not None]:
            numbers(f"{key}.{part}_mean", measured)
        for row in rows:
            if row is not None and len(numbers(f"{key}.{part}", row)) != levels:
                raise ValueError(f"{key}.{part}: expected {levels} numbers an epoch, got {len(row)}")
    return len(parts["clean"])


def _check_noise(facts: Mapping[str, Any], predicted: Any) -> None:
    counts: dict[str, int] = {}
    names = _listed("class_names", facts.get("class_names"))
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"class_names: expected a list of texts, got {shown(names)}")
    counts["class_names"] = len(names)
    for key, values in (
        ("class_rates", facts.get("class_rates")),
        ("label_marginals", facts.get("label_marginals")),
        ("predicted_marginals", predicted),
    ):
        if values is not None:
            counts[key] = len(numbers(key, values, most=1))
    transition = _listed("transition", facts.get("transition"))
    for row in transition:
        if len(numbers("transition", row, most=1)) != len(transition):
            raise ValueError("transition: expected a square of numbers, classes by classes")
    counts["transition"] = len(transition)
    found = {key: count for key, count in counts.items() if count}
    if len(set(found.values())) > 1:
        raise ValueError(f"noise_facts: expected one number of classes, got {found}")


def numbers(key: str, values: Any, most: float = math.inf) -> Sequence[float]:
    """A list of one or more finite numbers, none above ``most``."""
    listed = _listed(key, values)
    if not listed:
        raise ValueError(f"{key}: expected a list of numbers, got {shown(values)}")
    for value in listed:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
            raise ValueError(f"{key}: expected a list of numbers, got {shown(value)} in it")
        if most < math.inf:
            _check_number(key, value, most)
    return listed


_LARGEST = 1e300


def _listed(key: str, values: Any) -> Sequence[Any]:
    if values is None:
        return ()
    if not isinstance(values, list | tuple):
        raise ValueError(f"{key}: expected a list, got {shown(values)}")
    return values


def shown(value: Any) -> str:
    """A value in a message, cut where it is long."""
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"an integer of {value.bit_length()} bits"
    return f"{value!r:.100}"
