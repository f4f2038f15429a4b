# SPDX-License-Identifier: Apache-2.0
"""Recorded runs that a grid would have found with other settings, and what those settings are."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noiseproof.grids.checks import OF_THE_GRID
from noiseproof.grids.grid import Cell, Grid, merged
from noiseproof.noise import short_name
from noiseproof.training.config import NOT_PART_OF_THE_RESULT
from noiseproof.training.run_names import shown_noise
from noiseproof.training.run_record import RunRecord
from noiseproof.training.store import Store

MOST_TRIED = 5
"""Different settings that are tried for runs that a grid does not find."""


@dataclass(frozen=True)
class OtherRuns:
    """Finished runs with a grid's data, losses and noises that are none of its cells.

    Attributes:
        count: how many there are.
        settings: what the grid has to be narrowed with to find most of them; empty where no settings do.
        found: how many it finds then.
    """

    count: int
    settings: Mapping[str, Any]
    found: int


def other_runs(grid: Grid, folder: Path) -> OtherRuns:
    """Look for runs that a grid would have found with other settings, such as those of ``bench --set``."""
    by_place: dict[tuple[str, str], list[Cell]] = {}
    cells = grid.cells()
    for cell in cells:
        by_place.setdefault((cell.config.loss, short_name(cell.config.noise)), []).append(cell)
    own = {cell.config.hash for cell in cells}
    with Store(folder) as store:
        runs = [
            run
            for run in store.runs(status="finished", dataset=grid.dataset)
            if _place(run) in by_place and run.config_hash not in own
        ]
    hashes = {run.config_hash for run in runs}
    said: Counter[str] = Counter()
    for run in runs:
        near = by_place[_place(run)]
        said.update({json.dumps(each) for cell in near if (each := _settings_between(cell, run))})
    best = OtherRuns(len(runs), {}, 0)
    for text, _ in said.most_common(MOST_TRIED):
        settings = merged(grid.overrides, json.loads(text))
        try:
            found = len(hashes & {cell.config.hash for cell in grid.narrowed(settings=settings).cells()})
        except (ValueError, TypeError):  # they do not suit every method, or make two of them the same
            continue
        if found > best.found:
            best = OtherRuns(len(runs), settings, found)
    return best


def _place(run: RunRecord) -> tuple[str, str]:
    return str(run.config.get("loss")), str(shown_noise(run.config.get("noise")))


def _settings_between(cell: Cell, run: RunRecord) -> dict[str, Any]:
    """Settings that turn a cell's config into a run's; empty where none can."""
    settings: dict[str, Any] = {}
    for name, own in cell.config.as_data().items():
        value = run.config.get(name)
        if name in NOT_PART_OF_THE_RESULT or value == own:
            continue
        # A file with noise, its path written in another way.
        if name == "noise" and shown_noise(value) == short_name(own):
            continue
        # Another seed, or something that only a grid without it leaves out.
        if name in OF_THE_GRID or value is None:
            return {}
        if isinstance(own, dict) and isinstance(value, dict):
            value = {key: each for key, each in value.items() if own.get(key) != each}
        settings[name] = value
    return settings
