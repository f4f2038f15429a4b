# SPDX-License-Identifier: Apache-2.0
"""Settings by which runs are found, and told apart in a list."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from noiseproof.command_line.terminal import printable

if TYPE_CHECKING:
    from noiseproof.training.store import RunRecord

NOT_SETTINGS = (
    "dataset",
    "noise",
    "loss",
    "seed",
    "device",
    "workers",
    "compile",
    "evaluate_every",
    "inputs",
)
"""Fields of a config that columns of their own show, or that do not decide a result."""


EXACT = 2**53
"""Whole numbers up to here are floats, too."""


def has_settings(record: "RunRecord", wanted: dict[str, Any]) -> bool:
    """Whether a run has these settings, as :func:`comparable` gives them.

    What is not recorded, such as numbers of its loss, is as by default.
    """
    found = _settings(record, comparable)
    if wanted.keys() - found.keys():
        from noiseproof.losses import record as listed
        from noiseproof.training.config import ADDED

        with suppress(ValueError):  # a loss of the user's own that was not imported
            defaults = listed(str(record.config.get("loss"))).defaults
            found = {key: comparable(value) for key, value in defaults.items()} | found
        found = ADDED | found
    return wanted.items() <= found.items()


def _settings(record: "RunRecord", read: Callable[[Any], Any]) -> dict[str, Any]:
    """All that a config says, the numbers of its loss among the rest."""
    of_loss = record.config.get("loss_parameters")
    found = {**record.config, **(of_loss if isinstance(of_loss, dict) else {})}
    return {key: read(value) for key, value in found.items() if key != "loss_parameters"}


def hashable(value: Any) -> Any:
    """A setting as it is compared: lists and tables by their text."""
    return value if isinstance(value, int | float | str | None) else str(value)


def comparable(value: Any) -> Any:
    """A setting as it is looked for: in lists 1 is 1.0, for configs have floats where people leave out the point.

    >>> comparable([1, 2.5]), comparable(3)
    ('[1.0, 2.5]', 3)
    """
    return hashable(_with_lists_of_floats(value))


def _with_lists_of_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_lists_of_floats(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [
            float(each) if type(each) is int and abs(each) <= EXACT else _with_lists_of_floats(each)
            for each in value
        ]
    return value


def told_apart(records: "list[RunRecord]") -> list[str]:
    """Of each run, the settings in which listed runs with its data and loss differ."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    settings = [_settings(record, hashable) for record in records]
    alike = [tuple(str(each.get(key)) for key in ("dataset", "loss")) for each in settings]
    for group, each in zip(alike, settings, strict=True):
        groups.setdefault(group, []).append(each)
    texts = []
    for group, each in zip(alike, settings, strict=True):
        names = dict.fromkeys(name for other in groups[group] for name in other)
        varied = [
            name
            for name in names
            if name not in (*NOT_SETTINGS, "epochs") and len({other.get(name) for other in groups[group]}) > 1
        ]
        texts.append(", ".join(f"{name}={each[name]}" for name in varied if each.get(name) is not None))
    return [printable(text) for text in texts]
