# SPDX-License-Identifier: Apache-2.0
"""MLflow: runs of the experiment ``noiseproof`` on the server or in the folder that MLFLOW_TRACKING_URI names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noiseproof.training.sinks import scalars

EXPERIMENT = "noiseproof"
RUN_TAG = "noiseproof.run"
MAX_VALUE = 500
"""Characters of a parameter that every version of MLflow takes."""


class MLflowSink:
    """Speaks to MLflow through its client, which unlike ``mlflow.log_metric`` can serve several runs at a time."""

    def __init__(self, folder: Path) -> None:
        from mlflow import MlflowClient

        self._client: Any = MlflowClient()
        self._experiment: str | None = None
        self._runs: dict[str, str] = {}

    def begin(self, run_id: str, config: Mapping[str, Any]) -> None:
        """Start a run, or go on with the one that MLflow knows by this id."""
        if self._experiment is None:
            known = self._client.get_experiment_by_name(EXPERIMENT)
            self._experiment = known.experiment_id if known else self._client.create_experiment(EXPERIMENT)
        found = self._client.search_runs([self._experiment], f"tags.`{RUN_TAG}` = '{run_id}'", max_results=1)
        if found:
            self._runs[run_id] = found[0].info.run_id
            self._client.update_run(self._runs[run_id], status="RUNNING")
            return
        tags = {RUN_TAG: run_id, "mlflow.runName": run_id}
        run = self._client.create_run(self._experiment, tags=tags)
        self._runs[run_id] = run.info.run_id
        for key, value in config.items():
            self._client.log_param(self._runs[run_id], key, str(value)[:MAX_VALUE])

    def epoch(self, run_id: str, epoch: int, metrics: Mapping[str, Any]) -> None:
        """Log every number."""
        for name, value in scalars(metrics).items():
            self._client.log_metric(self._runs[run_id], name, value, step=epoch)

    def end(self, run_id: str, result: Mapping[str, Any] | None) -> None:
        """Log the result's numbers and end the run."""
        mlflow_id = self._runs.pop(run_id)
        for name, value in scalars(result or {}).items():
            self._client.log_metric(mlflow_id, f"result/{name}", value)
        self._client.set_terminated(mlflow_id, "KILLED" if result is None else "FINISHED")

    def close(self) -> None:
        """End the runs that were stopped before their time."""
        for run_id in list(self._runs):
            self.end(run_id, None)
