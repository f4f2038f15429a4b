# SPDX-License-Identifier: Apache-2.0
"""Weights & Biases: runs of the project ``noiseproof``, unless WANDB_PROJECT says otherwise."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noiseproof.training.sinks import scalars

PROJECT = "noiseproof"


class WandbSink:
    """Where it writes and whether it goes online is wandb's own matter: ``wandb login``, WANDB_MODE."""

    def __init__(self, folder: Path) -> None:
        import wandb

        self._wandb: Any = wandb
        self._folder = folder
        self._runs: dict[str, Any] = {}

    def begin(self, run_id: str, config: Mapping[str, Any]) -> None:
        """Start a run, or go on with the one of this id."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._runs[run_id] = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            id=run_id,
            name=run_id,
            config=dict(config),
            dir=str(self._folder),
            resume="allow",
            reinit="create_new",  # the runs of a pack are open side by side
        )

    def epoch(self, run_id: str, epoch: int, metrics: Mapping[str, Any]) -> None:
        """Log every number; wandb keeps the first value of an epoch that is repeated."""
        self._runs[run_id].log(scalars(metrics), step=epoch)

    def end(self, run_id: str, result: Mapping[str, Any] | None) -> None:
        """Put the result into the summary and end the run."""
        run = self._runs.pop(run_id)
        run.summary.update({f"result/{name}": value for name, value in scalars(result or {}).items()})
        run.finish(exit_code=1 if result is None else 0)

    def close(self) -> None:
        """End the runs that were stopped before their time."""
        for run_id in list(self._runs):
            self.end(run_id, None)
