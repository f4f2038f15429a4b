"""The training engine: one loop, for a run alone and for a pack of runs side by side.

A **pack** is a list of runs that share data, network and batch size, and differ in loss, noise, seed and
hyper-parameters. Each run is a generator that yields after every step; a pack takes them in turn on a GPU, and
one after another on a CPU, where taking turns would only spoil the cache.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from noiseproof.training import progress as progress_room
from noiseproof.training import ranks
from noiseproof.training.config import Config
from noiseproof.training.data import TrainingData, label_marginals, load_data
from noiseproof.training.environment import choose_device, describe
from noiseproof.training.interruption import Interrupted, Interruption
from noiseproof.training.processes import train_in_processes
from noiseproof.training.run import Run
from noiseproof.training.run_lock import locked
from noiseproof.training.sinks import Sink, open_sinks
from noiseproof.training.store import RunRecord, Store, default_folder

CHECK_EVERY = 50
"""Steps between looks at whether the loss is still finite on a GPU, where looking costs a wait."""

SHARED_BY_A_PACK = (
    "dataset",
    "model",
    "model_options",
    "batch_size",
    "train_size",
    "image_size",
    "device",
    "precision",
)


class NotFiniteError(RuntimeError):
    """The loss or its gradient became infinite or NaN."""


def train(config: Config, *, folder: Path | None = None, **options: Any) -> RunRecord:
    """Train one config and return its record; goes on where an earlier call was stopped.

    Args:
        config: what to compute; see :func:`noiseproof.training.resolve`.
        folder: where records, checkpoints and weights go; by default ``NOISEPROOF_RUNS`` or ``runs``.
        **options: see :func:`train_pack`.
    """
    return train_pack([config], folder=folder, **options)[0]


def train_pack(
    configs: Sequence[Config],
    *,
    folder: Path | None = None,
    quiet: bool = False,
    sinks: Sequence[str] = (),
    data: TrainingData | None = None,
    processes: int = 1,
) -> list[RunRecord]:
    """Train configs that share data, network and batch size; side by side on a GPU.

    A config that is recorded as finished is not trained again; one that was interrupted goes on.

    Args:
        configs: what to compute.
        folder: where records, checkpoints and weights go.
        quiet: show no progress.
        sinks: where else to send metrics: ``"tensorboard"``, ``"mlflow"``, ``"wandb"``.
        data: data that is loaded already; loaded by the config's name otherwise.
        processes: on a CPU, share the runs out among so many processes of one thread each. The calling script
            must then be importable (``if __name__ == "__main__":``), as :mod:`multiprocessing` asks.
    """
    _check_pack(configs)
    folder = folder or default_folder()
    device = choose_device(configs[0].device)
    ranks.join(device)
    with ExitStack() as stack:
        store = stack.enter_context(Store(folder))
        waiting = [config for config in configs if not store.find(config.hash)]
        if device.type == "cpu" and data is None and ranks.count() == 1:
            processes = min(processes, len(waiting))
            if processes > 1:
                train_in_processes(waiting, folder, processes, quiet, sinks)
                waiting = []
        if waiting:
            for config in waiting:
                if ranks.is_first():
                    stack.enter_context(locked(folder, config.run_id))
            data = data or load_data(waiting[0], device)
            interruption = stack.enter_context(Interruption())
            stack.enter_context(_gpu_arithmetic(configs[0].precision == "tf32"))
            shown = stack.enter_context(progress_room.shown(quiet or not ranks.is_first()))
            opened = open_sinks(sinks, folder) if ranks.is_first() else []
            for sink in opened:
                stack.callback(sink.close)
            runs = [_training(config, data, folder, store, shown, opened, interruption) for config in waiting]
            _take_turns(runs) if device.type == "cuda" and data.images is not None else _one_by_one(runs)
        ranks.wait()
        return [store.get(store.find(config.hash)[0].id) for config in configs]


def _training(
    config: Config,
    data: TrainingData,
    folder: Path,
    store: Store,
    shown: progress_room.Progress,
    sinks: Sequence[Sink],
    interruption: Interruption,
) -> Iterator[None]:
    """Train one run from where it stands to its last epoch, yielding after every step."""
    run = Run(config, data)
    run_id, path = config.run_id, folder / config.run_id
    if (path / "checkpoint.pt").exists():
        run.restore(path / "checkpoint.pt")
    books = _Books(run_id, path, store, shown, sinks, ranks.is_first())
    books.begin(run)
    try:
        started = time.perf_counter()
        while run.epoch < config.epochs:
            run.network.train()
            learning_rate = config.learning_rate_at(run.epoch)
            for step, images, indices in run.batches.epoch(run.epoch, run.step):
                run.step = step
                run.train_step(images, indices, learning_rate)
                run.step = step + 1
                if run.device.type == "cpu" or run.step % CHECK_EVERY == 0:
                    _require_finite(run)
                if ranks.any_says(interruption.requested, run.device):
                    run.meters.sum_over_ranks()
                    books.interrupt(run)
                    raise Interrupted(run_id)
                shown.step(run_id, run.epoch, run.step / run.batches.steps)
                yield
            _require_finite(run)
            metrics = _metrics_of_epoch(run, learning_rate)
            seconds, started = time.perf_counter() - started, time.perf_counter()
            run.epoch, run.step, run.meters = run.epoch + 1, 0, run.fresh_meters()
            books.end_epoch(run, metrics, seconds)
        books.finish(run)
    except (NotFiniteError, torch.cuda.OutOfMemoryError) as error:
        books.fail(str(error))
        raise
    finally:
        run.close()


def _metrics_of_epoch(run: Run, learning_rate: float) -> dict[str, Any]:
    run.meters.sum_over_ranks()
    metrics = run.meters.metrics(run.labels.flipped)
    metrics["learning_rate"] = learning_rate
    last = run.epoch + 1 == run.config.epochs
    if last or (run.epoch + 1) % run.config.evaluate_every == 0:
        metrics["test_accuracy"] = run.test_accuracy()
    return metrics


def _require_finite(run: Run) -> None:
    trouble = run.meters.trouble()
    if trouble is not None:
        raise NotFiniteError(
            f"not a finite number in epoch {run.epoch + 1} {trouble}. The last good checkpoint is kept. Try a "
            f"smaller learning rate (now {run.config.learning_rate_at(run.epoch):g}), clip_norm, or float32."
        )


@contextmanager
def _gpu_arithmetic(tf32: bool) -> Iterator[None]:
    """TF32 or true float32, and cuDNN's search for the fastest convolutions; both global, so given back after."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    matmul.allow_tf32 = cudnn.allow_tf32 = tf32
    cudnn.benchmark = True  # every batch but the last has the same shape, so that the search pays
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before


def _one_by_one(runs: Sequence[Iterator[None]]) -> None:
    for run in runs:
        for _ in run:
            pass


def _take_turns(runs: Sequence[Iterator[None]]) -> None:
    """Let the runs step in turn; when asked to stop, each finishes its step and saves before the first tells."""
    going, stopped = list(runs), None
    while going:
        for run in list(going):
            try:
                next(run)
            except StopIteration:
                going.remove(run)
            except Interrupted as interrupted:
                stopped = stopped or interrupted
                going.remove(run)
    if stopped is not None:
        raise stopped


def _check_pack(configs: Sequence[Config]) -> None:
    if not configs:
        raise ValueError("configs: expected at least one, got none")
    for name in SHARED_BY_A_PACK:
        values = {str(getattr(config, name)) for config in configs}
        if len(values) > 1:
            raise ValueError(f"configs: a pack shares its {name}, got {', '.join(sorted(values))}")
    if len({config.hash for config in configs}) < len(configs):
        raise ValueError("configs: the same config stands twice in the pack")


class _Books:
    """What is written down of a run while it goes: record, checkpoint, weights, progress, sinks."""

    def __init__(
        self,
        run_id: str,
        folder: Path,
        store: Store,
        shown: progress_room.Progress,
        sinks: Sequence[Sink],
        writes: bool,
    ) -> None:
        self.run_id, self.folder, self.store = run_id, folder, store
        self.shown, self.sinks, self.writes = shown, sinks, writes

    def begin(self, run: Run) -> None:
        summary = run.labels.summary | {
            "label_marginals": label_marginals(run.labels.given, run.data.num_classes)
        }
        if self.writes:
            config = run.config.as_data()
            environment = describe(run.device)
            if run.weights_report is not None:
                environment["weights"] = str(run.weights_report)
            self.store.begin(self.run_id, config, run.config.hash, environment, summary)
            for sink in self.sinks:
                sink.begin(self.run_id, config)
        self.shown.begin(self.run_id, run.config.epochs, run.epoch)
        if run.weights_report is not None:
            self.shown.say(f"{self.run_id}: started from {run.weights_report}")

    def end_epoch(self, run: Run, metrics: dict[str, Any], seconds: float) -> None:
        if self.writes:
            # The record first: a run killed in between repeats the epoch and replaces its record.
            self.store.record_epoch(self.run_id, run.epoch - 1, metrics, seconds)
            run.save(self.folder / "checkpoint.pt")
            for sink in self.sinks:
                sink.epoch(self.run_id, run.epoch - 1, metrics)
        self.shown.epoch(self.run_id, run.epoch - 1, metrics)

    def interrupt(self, run: Run) -> None:
        if self.writes:
            run.save(self.folder / "checkpoint.pt")
            self.store.interrupt(self.run_id)
            for sink in self.sinks:
                sink.end(self.run_id, None)
        self.shown.end(self.run_id, f"interrupted; go on with: noiseproof train --resume {self.run_id}")

    def fail(self, error: str) -> None:
        if self.writes:
            self.store.fail(self.run_id, error)
            for sink in self.sinks:
                sink.end(self.run_id, None)
        self.shown.end(self.run_id, "failed")

    def finish(self, run: Run) -> None:
        from noiseproof import models

        if self.writes:
            epochs = self.store.get(self.run_id).epochs
            tested = [
                (m["test_accuracy"], i) for i, m in enumerate(epochs) if m.get("test_accuracy") is not None
            ]
            best, best_epoch = max(tested, key=lambda each: each[0])  # the first of several equal ones
            result = {
                "test_accuracy": epochs[-1]["test_accuracy"],
                "best_test_accuracy": best,
                "best_epoch": best_epoch + 1,
                "held_out": run.data.held_out,
            }
            model = run.average.model if run.average is not None else run.model
            models.save_weights(model, self.folder / "weights.safetensors")
            self._write_description(run)
            self.store.finish(self.run_id, result)
            for sink in self.sinks:
                sink.end(self.run_id, result)
        self.shown.end(self.run_id, "finished")

    def _write_description(self, run: Run) -> None:
        """What a user of the weights must know: classes, normalisation, input size."""
        import json

        from noiseproof.training.predict import fit_as_data

        channels, height, width = run.data.image_shape
        description = {
            "model": run.config.model,
            "model_options": dict(run.config.model_options),
            "class_names": list(run.data.train.class_names),
            "mean": list(run.data.recipe.mean),
            "std": list(run.data.recipe.std),
            "input": {"channels": channels, "height": height, "width": width},
            "fit": fit_as_data(run.data.recipe.test_fit),
            "dataset": run.config.dataset,
        }
        (self.folder / "model.json").write_text(json.dumps(description, indent=2, ensure_ascii=False))
