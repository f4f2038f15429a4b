# SPDX-License-Identifier: Apache-2.0
"""How long runs take, learnt from recorded runs that are like them."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noiseproof.grids.states import CellState
from noiseproof.results import Result
from noiseproof.training.config import Config
from noiseproof.training.run_record import RunRecord

NEWEST = 24
"""Like runs that are looked at: what was measured lately tells more than what was measured once."""

STARTING_SECONDS = 5.0
"""What a pack costs beside its epochs, until one has been measured: data, noise, processes."""

FIRST_ON_A_GPU = 25.0
"""Seconds that the first pack of a process costs beyond that on a GPU: kernels are chosen and steps captured."""

_LIKE = ("dataset", "model", "model_options", "freeze", "train_size", "batch_size", "image_size", "precision")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Pace:
    """Seconds of its device that an epoch of one run takes.

    Attributes:
        seconds: of one epoch; of runs side by side on a GPU each has its share.
        runs: how many recorded runs this was learnt from.
    """

    seconds: float
    runs: int


class Clock:
    """Estimates times of packs on one machine.

    Args:
        records: runs that are recorded, without epochs, newest first.
        hardware: of this machine, as records name it; runs of other machines do not count.
        side_by_side: processes that share a pack out; 1 on a GPU, where a pack is one process.
        results: runs of results files, newest first; where records tell of like runs, these do not count.
    """

    def __init__(
        self,
        records: Iterable[RunRecord],
        hardware: str,
        side_by_side: int = 1,
        results: Iterable[Result] = (),
    ) -> None:
        self.hardware, self.side_by_side = hardware, side_by_side
        self.starting = STARTING_SECONDS
        self._paces: dict[tuple[str, ...], Pace] = {}
        self._learn(
            (result.config, result.environment, result.seconds, len(result.curves.test))
            for result in results
            if result.config and result.seconds is not None
        )
        self.learn(records)

    def learn(self, records: Iterable[RunRecord]) -> None:
        """Take in what is recorded now."""
        self._learn(
            (record.config, record.environment, record.seconds, record.progress.epochs)
            for record in records
            if record.status == "finished"
        )

    def _learn(self, timed: Iterable[tuple[Mapping[str, Any], Mapping[str, Any], float, int]]) -> None:
        like: dict[tuple[str, ...], list[tuple[float, int]]] = {}
        for config, environment, seconds, epochs in timed:
            if environment.get("hardware") == self.hardware:
                like.setdefault(_key(config), []).append((seconds, epochs))
        self._paces |= {key: pace_of(found[:NEWEST]) for key, found in like.items()}

    def pace(self, config: Config) -> Pace | None:
        """The pace of runs like this one, or None where there is no such run."""
        return self._paces.get(_key(config.as_data()))

    def seconds(self, pack: Sequence[CellState]) -> float | None:
        """What a pack takes, or None where no like run is recorded."""
        total = 0.0
        for state in pack:
            pace = self.pace(state.cell.config)
            if pace is None:
                return None
            total += pace.seconds * state.epochs_left
        turns = math.ceil(len(pack) / self.side_by_side)
        return self.starting + total * turns / len(pack)

    def measured(self, pack: Sequence[CellState], wall: float) -> None:
        """Learn what starting a pack costs from one that is done."""
        expected = self.seconds(pack)
        if expected is not None:
            self.starting = max(1.0, wall - (expected - self.starting))


def pace_of(runs: Sequence[tuple[float, int]]) -> Pace:
    """The pace of like runs, of which seconds and epochs are known.

    >>> pace_of([(1200.0, 120), (600.0, 60)])
    Pace(seconds=10.0, runs=2)
    """
    epochs = sum(max(1, number) for _, number in runs)
    return Pace(sum(seconds for seconds, _ in runs) / epochs, len(runs))


def parse_duration(text: str, option: str = "budget") -> float:
    """Read a duration in seconds; an error names the option that it is for.

    >>> parse_duration("20m"), parse_duration("1h30m"), parse_duration("0.5h")
    (1200.0, 5400.0, 1800.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text.strip().lower())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip().lower():
        raise ValueError(f"{option}: expected a time such as 90s, 20m, 1h30m or 2d, got {text!r}")
    seconds = float(sum(float(number) * _UNITS[unit] for number, unit in parts))
    if seconds <= 0:
        raise ValueError(f"{option}: expected more than no time, got {text!r}")
    return seconds


def in_words(seconds: float) -> str:
    """A duration as people say it.

    >>> in_words(42), in_words(90), in_words(5400), in_words(200_000)
    ('42 s', '2 min', '1 h 30 min', '2 d 8 h')
    """
    if seconds < 60:
        return f"{math.ceil(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min".replace(" 00 min", "")
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h".replace(" 0 h", "")


def _key(config: Mapping[str, Any]) -> tuple[str, ...]:
    costs_more = bool(config.get("jacobian")), bool(config.get("gradient_quantiles"))
    return (*(str(config.get(name)) for name in _LIKE), str(costs_more))
