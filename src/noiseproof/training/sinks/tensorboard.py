# SPDX-License-Identifier: Apache-2.0
"""TensorBoard: one folder of events a run, under ``tensorboard`` in the runs folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseproof.training.sinks import scalars

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardSink:
    """Look at it with ``tensorboard --logdir RUNS/tensorboard``."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter
        self._folder = folder / "tensorboard"
        self._configs: dict[str, Mapping[str, Any]] = {}
        self._writers: dict[str, SummaryWriter] = {}

    def begin(self, run_id: str, config: Mapping[str, Any]) -> None:
        """Remember the config: files are opened with the first epoch, whose number a resumed run knows then."""
        self._configs[run_id] = config

    def epoch(self, run_id: str, epoch: int, metrics: Mapping[str, Any]) -> None:
        """Write every number; an epoch that is repeated after a resumption hides what it had left."""
        writer = self._writers.get(run_id) or self._opened(run_id, epoch)
        for name, value in scalars(metrics).items():
            writer.add_scalar(name, value, epoch)
        writer.flush()

    def end(self, run_id: str, result: Mapping[str, Any] | None) -> None:
        """Write the result as text and close the run's files."""
        writer = self._writers.pop(run_id, None)
        if writer is not None:
            writer.add_text("result", _as_text(result or {"status": "stopped before its time"}))
            writer.close()

    def close(self) -> None:
        """Close the files of runs that were stopped."""
        while self._writers:
            self._writers.popitem()[1].close()

    def _opened(self, run_id: str, epoch: int) -> "SummaryWriter":
        writer = self._writer(str(self._folder / run_id), purge_step=epoch)
        writer.add_text("config", _as_text(self._configs.pop(run_id, {})), epoch)
        self._writers[run_id] = writer
        return writer


def _as_text(values: Mapping[str, Any]) -> str:
    """JSON as a block of code, which is how TensorBoard's Markdown leaves it alone."""
    lines = json.dumps(dict(values), indent=2, ensure_ascii=False, default=str).splitlines()
    return "\n".join(f"    {line}" for line in lines)
