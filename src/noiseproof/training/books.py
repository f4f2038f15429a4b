# SPDX-License-Identifier: Apache-2.0
"""What is written down of runs while they go: records, checkpoints, weights, progress."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from noiseproof import models
from noiseproof.datasets.cache import replacing_file
from noiseproof.plugins import command_name, explained
from noiseproof.training import checkpoint, ranks
from noiseproof.training.checkpoint_writer import CheckpointWriter
from noiseproof.training.data import label_marginals
from noiseproof.training.environment import describe
from noiseproof.training.examples import FILE_NAME, choose_examples
from noiseproof.training.gpu_memory import forget_frames
from noiseproof.training.interruption import Interrupted
from noiseproof.training.label_noise import shortfall_of
from noiseproof.training.noise_files import place_of
from noiseproof.training.outcome import result_of
from noiseproof.training.own_code import FIELD, own_code_of
from noiseproof.training.predict import checksum_of, fit_as_data
from noiseproof.training.processes import is_of_memory
from noiseproof.training.progress import Progress
from noiseproof.training.run import EpochEnd, NotFiniteError, Run
from noiseproof.training.sinks import Sink
from noiseproof.training.store import Store, StoreError


class Books:
    """Writes down what happens to the runs of one call; of several processes only the first writes.

    Attributes:
        failed: runs that failed, and why.
    """

    def __init__(self, folder: Path, store: Store, shown: Progress, sinks: Sequence[Sink]) -> None:
        self.folder, self.store, self.shown, self.sinks = folder, store, shown, sinks
        self.writes = ranks.is_first()
        self.failed: dict[str, Exception] = {}
        self._finished: set[str] = set()
        self._writer = CheckpointWriter()

    def settle(self) -> None:
        """Wait until no checkpoint is being written: someone is about to read them."""
        self._writer.flush()

    def close(self) -> None:
        """Wait until all is written."""
        self._writer.close()

    def is_over(self, run_id: str) -> bool:
        """Whether a run has finished or failed."""
        return run_id in self.failed or run_id in self._finished

    def begin(self, run: Run, *, afresh: bool) -> None:
        """Note a run that begins, or goes on from a checkpoint."""
        run_id = run.config.run_id
        summary = run.labels.summary | {
            "label_marginals": label_marginals(run.labels.given, run.data.num_classes)
        }
        if self.writes:
            config = run.config.as_data()
            environment = describe(run.device) | place_of(run.config.noise)
            if own_code := own_code_of(run.config):
                environment[FIELD] = own_code
            if run.weights_report is not None:
                environment["weights"] = str(run.weights_report)
            self._require_records(run)
            self.store.begin(run_id, config, run.config.hash, environment, summary, afresh=afresh)
            for sink in self.sinks:
                sink.begin(run_id, config)
        self.shown.begin(run_id, run.config.epochs, run.epoch)
        if run.weights_report is not None:
            self.shown.say(f"{run_id}: started from {run.weights_report}")
        if (shortfall := shortfall_of(run.config.noise, summary["realised_rate"])) is not None:
            self.shown.say(f"{run_id}: {shortfall}")

    def _require_records(self, run: Run) -> None:
        """Refuse to go on from a checkpoint whose epochs are not on record: the result would lack them."""
        run_id = run.config.run_id
        try:
            record = self.store.get(run_id, epochs=False)
            recorded = record.progress.epochs if record.id == run_id else 0
        except LookupError:
            recorded = 0
        if recorded < run.epoch:
            raise StoreError(
                f"run {run_id}: its checkpoint stands after epoch {run.epoch}, and {self.store.path} knows of "
                f"{recorded} epochs: records were lost. Put that file back, or, to train the run from its first "
                f"epoch, remove {self._checkpoint_of(run_id)}"
            )

    def show_step(self, runs: Sequence[Run]) -> None:
        """Show how far the runs are in their epochs, or in what comes before the first."""
        for run in runs:
            if run.prepared is not None:
                self.shown.prepare(run.config.run_id, run.prepared)
                continue
            self.shown.step(run.config.run_id, run.epoch, run.step / run.batches.steps)

    def end_epoch(self, end: EpochEnd, *, save: bool = True) -> None:
        """Write down a finished epoch, and the run's end if it was the last; of a run that failed, nothing.

        Args:
            end: the epoch's end.
            save: keep its checkpoint, too; not where a newer one follows at once.
        """
        end.wait()
        run_id = end.run.config.run_id
        if run_id in self.failed:
            return
        try:
            end.require_finite()
        except NotFiniteError as error:
            self.fail(run_id, error)
            return
        metrics = end.metrics()
        if self.writes:
            # The record first: a run killed in between repeats the epoch and replaces its record.
            self.store.record_epoch(run_id, end.epoch - 1, metrics, end.seconds)
            if save:
                self._save(end)
            for sink in self.sinks:
                sink.epoch(run_id, end.epoch - 1, metrics)
        self.shown.epoch(run_id, end.epoch - 1, metrics)
        if end.epoch == end.run.config.epochs:
            self.finish(end.run)

    def _save(self, end: EpochEnd) -> None:
        """Write a checkpoint, if one is due: at once, or from a state that is nobody else's."""
        if end.state is None:
            return
        path = self._checkpoint_of(end.run.config.run_id)
        if not end.is_apart:
            self._writer.forget(path)
            checkpoint.save(path, end.state)
        elif end.epoch < end.run.config.epochs:  # after the last epoch the weights are kept, which is as good
            self._writer.put(path, end.state)

    def _checkpoint_of(self, run_id: str) -> Path:
        return self.folder / run_id / "checkpoint.pt"

    def interrupt(self, runs: Sequence[Run], late: Iterable[EpochEnd] = ()) -> None:
        """Save runs in the middle of an epoch; one that cannot be saved does not cost the others their steps.

        Args:
            runs: those that are stopped.
            late: ends of earlier epochs that are not written down yet.
        """
        unsaved: list[Exception] = []
        for end in late:
            try:
                self.end_epoch(end, save=False)
            except (OSError, StoreError) as error:
                unsaved.append(error)
        for run in runs:
            run_id = run.config.run_id
            if self.is_over(run_id):
                continue
            try:
                run.require_finite()
            except NotFiniteError as error:  # the last good checkpoint stays
                self.fail(run_id, error)
                continue
            if self.writes:
                self._writer.forget(self._checkpoint_of(run_id))
                try:
                    checkpoint.save(self._checkpoint_of(run_id), run.state())
                    self.store.interrupt(run_id)
                except (OSError, StoreError) as error:
                    unsaved.append(error)
                    continue
                for sink in self.sinks:
                    sink.end(run_id, None)
            self.shown.end(run_id, f"interrupted; resume with: {command_name()} train --resume {run_id}")
        if unsaved:
            raise unsaved[0]

    def fail(self, run_id: str, error: Exception) -> None:
        """Note why a run failed; its last checkpoint stays."""
        forget_frames(error)  # it is kept until all runs are over; the failed one's tensors need not be
        self.failed[run_id] = error
        if self.writes:
            self.store.fail(run_id, explained(error))
            for sink in self.sinks:
                sink.end(run_id, None)
        self.shown.end(run_id, "failed")

    def break_off(self, run_id: str, error: Exception) -> None:
        """Note an error that nobody expected, as of a loss of the user's own; want of disk or memory is none."""
        if isinstance(error, Interrupted | OSError | MemoryError | StoreError) or is_of_memory(error):
            return
        if self.writes:
            with suppress(StoreError):  # it had not begun
                self.store.fail(run_id, explained(error))

    def finish(self, run: Run) -> None:
        """Keep the weights of a finished run, and call it finished."""
        run_id = run.config.run_id
        if self.writes:
            (self.folder / run_id).mkdir(parents=True, exist_ok=True)
            result = result_of(self.store.get(run_id).epochs)
            result |= {"held_out": run.data.held_out, "test_samples": len(run.data.test)}
            with _plain_errors(run_id):
                models.save_weights(run.tested_model, self.folder / run_id / "weights.safetensors")
                self._write_description(run)
                if run.data.has_masks:
                    choose_examples(run).save(self.folder / run_id / FILE_NAME)
            self._writer.forget(self._checkpoint_of(run_id))
            self.store.finish(run_id, result)
            for sink in self.sinks:
                sink.end(run_id, result)
        self._finished.add(run_id)  # not before: a run that fails in here must not pass for finished
        self.shown.end(run_id, "finished")

    def _write_description(self, run: Run) -> None:
        """What a user of the weights must know: classes, normalisation, input size."""
        channels, height, width = run.data.image_shape
        description: dict[str, Any] = {
            "model": run.config.model,
            "model_options": dict(run.config.model_options),
            "class_names": list(run.data.train.class_names),
            "mean": list(run.data.recipe.mean),
            "std": list(run.data.recipe.std),
            "input": {"channels": channels, "height": height, "width": width},
            # Arrays were fitted when they were read in: a picture is brought to the size they have.
            "fit": None if run.data.has_masks else fit_as_data(run.data.recipe.test_fit),
            "task": "segmentation" if run.data.has_masks else "classification",
            "dataset": run.config.dataset,
        }
        ignored = run.meters.ignored
        if run.data.has_masks and ignored is not None and ignored < run.data.num_classes:
            # Nothing was learnt of it: it has no Dice elsewhere, either.
            description["ignored_class"] = ignored
        description["checksum"] = checksum_of(description)
        with replacing_file(self.folder / run.config.run_id / "model.json") as file:
            file.write(json.dumps(description, indent=2, ensure_ascii=False).encode())


@contextmanager
def _plain_errors(run_id: str) -> Iterator[None]:
    """Say what to do where the disk does not take what a finished run leaves."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot keep the weights of {run_id} ({error.strerror or error}); its epochs are recorded. Make room, "
            f"or make the folder writable, then resume with: {command_name()} train --resume {run_id}",
        ) from error
