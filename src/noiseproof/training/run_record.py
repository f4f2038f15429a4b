# SPDX-License-Identifier: Apache-2.0
"""What is known of one run, and how it is written down as JSON that loses nothing."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Status = Literal["running", "finished", "interrupted", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)

_FLOAT = "$float"


@dataclass(frozen=True)
class Progress:
    """How far a run has come: kept beside the record, so that a list of runs need not read their epochs.

    The last accuracy is the result; the best was picked by looking at the test set and is shown for comparison
    only. Epochs that were not tested, or whose accuracy is not a number, count as epochs but not here.
    """

    epochs: int = 0
    last_accuracy: float | None = None
    last_accuracy_epoch: int | None = None
    best_accuracy: float | None = None
    best_accuracy_epoch: int | None = None


@dataclass(frozen=True)
class RunRecord:
    """What is known of one run.

    Attributes:
        id: its name, also that of its files.
        config: everything that decides what it computes.
        config_hash: hash of the decisive part of ``config``.
        status: ``"running"``, ``"finished"``, ``"interrupted"`` or ``"failed"``. A process that is killed cannot
            say so: its run stays ``"running"`` until it is resumed; :func:`noiseproof.training.run_lock.holder`
            tells whether anyone is at work on it.
        started: when it began first, ISO 8601 in UTC.
        ended: when it ended, or None while it runs.
        seconds: what the epochs on record took, over all resumptions.
        environment: versions, device, commit. Where a resumption ran in another one, that is added to the list
            under ``"resumed_in"``.
        noise: what the label noise came out as.
        result: what it ended with; None unless it finished.
        error: why it failed; None unless it did.
        epochs: metrics of each finished epoch, in order, each with its number under ``"epoch"`` and what it took
            under ``"seconds"``; empty in lists of runs.
        progress: the epochs in short; also in lists.
    """

    id: str
    config: dict[str, Any]
    config_hash: str
    status: Status
    started: str
    ended: str | None
    seconds: float
    environment: dict[str, Any]
    noise: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None
    epochs: tuple[dict[str, Any], ...] = ()
    progress: Progress = field(default_factory=Progress)


def encoded(value: Any, what: str) -> str:
    """Write ``value`` as strict JSON.

    JSON knows no NaN and no infinity: they become ``{"$float": "nan"}``, which :func:`decoded` turns back, so
    that a diverged run is told from one that was not measured. Tuples come back as lists, paths as text, and
    scalars and arrays of NumPy and torch as numbers and lists. Anything else fails, naming its place.

    >>> encoded({"loss": float("inf"), "accuracy": 93.4}, "metrics")
    '{"loss": {"$float": "inf"}, "accuracy": 93.4}'
    >>> encoded({"classes": {3, 5}}, "metrics")
    Traceback (most recent call last):
    TypeError: metrics.classes: expected what JSON can hold, got a set
    """
    return json.dumps(_plain(value, what), allow_nan=False)


def decoded(text: str) -> Any:
    """Read what :func:`encoded` wrote.

    >>> decoded('{"loss": {"$float": "-inf"}}')
    {'loss': -inf}
    """
    # The hook is called for every object, which a long list of runs would feel: only where there is one to find.
    return json.loads(text, object_hook=_revived if _FLOAT in text else None)


def _plain(value: Any, what: str) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_FLOAT: str(float(value))}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == _FLOAT:
                raise TypeError(f"{what}: expected keys that are text and not {_FLOAT!r}, got {key!r}")
        return {key: _plain(each, f"{what}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, f"{what}[{place}]") for place, each in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if callable(tolist := getattr(value, "tolist", None)):
        return _plain(tolist(), what)
    raise TypeError(f"{what}: expected what JSON can hold, got a {type(value).__name__}")


def _revived(found: dict[str, Any]) -> Any:
    return float(found[_FLOAT]) if found.keys() == {_FLOAT} else found
