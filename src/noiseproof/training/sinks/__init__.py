# SPDX-License-Identifier: Apache-2.0
"""Where metrics go besides the run store: TensorBoard, MLflow, Weights & Biases.

Each is imported when it is asked for, and none is needed. The store holds the record; a sink that fails during
training says so once, gets nothing more, and training goes on.

>>> open_sinks(["tensorbord"], Path("runs"))
Traceback (most recent call last):
ValueError: sink: unknown 'tensorbord'; did you mean 'tensorboard'? There are tensorboard, mlflow, wandb
"""

import contextlib
import difflib
import importlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

SINKS = {
    "tensorboard": ("TensorBoardSink", "pip install 'noiseproof[tensorboard]'"),
    "mlflow": ("MLflowSink", "pip install mlflow"),
    "wandb": ("WandbSink", "pip install wandb"),
}
"""By name: the class, in the module of that name, and how to install what it needs."""


class Sink(Protocol):
    """What takes metrics. One sink serves several runs at a time, each known by its id."""

    def begin(self, run_id: str, config: Mapping[str, Any]) -> None:
        """Take note of a run that starts, or goes on."""

    def epoch(self, run_id: str, epoch: int, metrics: Mapping[str, Any]) -> None:
        """Take the metrics of an epoch, counted from 0."""

    def end(self, run_id: str, result: Mapping[str, Any] | None) -> None:
        """Take note of a run that ended; without a result, before its time."""

    def close(self) -> None:
        """Let go of everything; runs that were not ended stopped before their time."""


class MissingSinkError(ImportError):
    """A sink was asked for whose package is not installed."""


def open_sinks(names: Sequence[str], folder: Path) -> list[Sink]:
    """Return the sinks of these names, guarded: none of them can stop training.

    Args:
        names: of :data:`SINKS`, each once.
        folder: the runs folder, for sinks that write files.

    Raises:
        MissingSinkError: a package is not installed. That is said now, before any time is spent.
        ValueError: there is no sink of that name.
    """
    return [_Guarded(name, _made(name, Path(folder))) for name in dict.fromkeys(names)]


def scalars(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers among ``values``, those of inner mappings as ``outer/inner``; the rest is for the store.

    >>> scalars({"loss": 0.5, "parts": {"nce": 0.25}, "marginals": [0.1, 0.9], "note": "warm"})
    {'loss': 0.5, 'parts/nce': 0.25}
    """
    found: dict[str, float] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= scalars(value, f"{prefix}{key}/")
        elif isinstance(value, int | float):
            found[prefix + key] = float(value)
    return found


def _made(name: str, folder: Path) -> Sink:
    if name not in SINKS:
        nearest = difflib.get_close_matches(name, SINKS, n=1)
        hint = f" did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(f"sink: unknown {name!r};{hint} There are {', '.join(SINKS)}")
    kind, install = SINKS[name]
    try:
        sink: Sink = getattr(importlib.import_module(f"noiseproof.training.sinks.{name}"), kind)(folder)
    except ImportError as error:
        raise MissingSinkError(
            f"the sink {name!r} needs a package that cannot be imported ({error}); install it with: {install}"
        ) from error
    return sink


class _Guarded:
    """A sink that is dropped, with a warning, the first time it fails."""

    def __init__(self, name: str, sink: Sink) -> None:
        self._name = name
        self._sink: Sink | None = sink

    def begin(self, run_id: str, config: Mapping[str, Any]) -> None:
        self._try("begin", run_id, config)

    def epoch(self, run_id: str, epoch: int, metrics: Mapping[str, Any]) -> None:
        self._try("epoch", run_id, epoch, metrics)

    def end(self, run_id: str, result: Mapping[str, Any] | None) -> None:
        self._try("end", run_id, result)

    def close(self) -> None:
        self._try("close")
        self._sink = None

    def _try(self, step: str, *arguments: Any) -> None:
        sink = self._sink
        if sink is None:
            return
        try:
            getattr(sink, step)(*arguments)
        except Exception as error:
            self._sink = None
            with contextlib.suppress(Exception):
                sink.close()
            warnings.warn(
                f"the sink {self._name!r} failed ({type(error).__name__}: {error}) and gets nothing more; training "
                "goes on, and the run store has everything",
                RuntimeWarning,
                stacklevel=3,
            )
