# SPDX-License-Identifier: Apache-2.0
"""What differs between two runs: in what was asked for, where it ran, and how it came out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noiseproof.training.run_record import RunRecord


@dataclass(frozen=True)
class Difference:
    """One thing that two runs do not share; None where a run does not have it.

    Attributes:
        part: ``"config"``, ``"environment"`` or ``"outcome"``.
        name: what it is, with dots between levels.
        first: the first run's.
        second: the second run's.
    """

    part: str
    name: str
    first: Any
    second: Any


def differences(first: "RunRecord", second: "RunRecord") -> list[Difference]:
    """Return what two runs do not share: config and environment field by field, then status, noise and accuracies.

    Accuracies and seconds are outcomes and are always there, so that a reader sees them even where they agree.
    """
    found = _different("config", first.config, second.config)
    found += _different("environment", first.environment, second.environment)
    one, other = _outcome(first), _outcome(second)
    for name in dict.fromkeys([*one, *other]):
        if one.get(name) is not None or other.get(name) is not None:
            found.append(Difference("outcome", name, one.get(name), other.get(name)))
    return found


def _different(part: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    one, other = flat(first), flat(second)
    return [
        Difference(part, name, one.get(name), other.get(name))
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name)
    ]


def flat(value: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dots between the levels.

    >>> flat({"loss": "anl-ce", "loss_parameters": {"alpha": 5.0}})
    {'loss': 'anl-ce', 'loss_parameters.alpha': 5.0}
    """
    found: dict[str, Any] = {}
    for key, each in value.items():
        if isinstance(each, Mapping):
            found |= flat(each, f"{above}{key}.")
        else:
            found[f"{above}{key}"] = each
    return found


def _outcome(record: "RunRecord") -> dict[str, Any]:
    progress = record.progress
    last = record.epochs[-1] if record.epochs else {}
    score = "Dice" if any("test_dice" in metrics for metrics in record.epochs) else "accuracy"
    return {
        "status": record.status,
        "epochs": progress.epochs,
        "realised noise rate": record.noise.get("realised_rate"),
        "test Dice, the result": (record.result or {}).get("test_dice"),
        f"test {score}, last epoch": progress.last_accuracy,
        f"best test {score}": progress.best_accuracy,
        "best epoch": None if progress.best_accuracy_epoch is None else progress.best_accuracy_epoch + 1,
        "training accuracy, right labels": last.get("clean_accuracy"),
        "training accuracy, wrong labels": last.get("flipped_accuracy"),
        "seconds": record.seconds,
        "error": record.error,
    }
