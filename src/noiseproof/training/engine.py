# SPDX-License-Identifier: Apache-2.0
"""The training engine: one loop, for a run alone and for a pack of runs side by side.

A **pack** is a list of runs that share data, network and batch size, and differ in loss, noise, seed and
hyper-parameters. On a GPU they step side by side (:mod:`noiseproof.training.captured`), on a CPU one after another,
where taking turns would only spoil the cache.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from noiseproof.datasets.identity import in_earlier_form, path_of
from noiseproof.models.imagenet import NAME as IMAGENET
from noiseproof.noise import parse_name
from noiseproof.training import progress, ranks
from noiseproof.training.books import Books
from noiseproof.training.captured import SideBySide, can_capture
from noiseproof.training.config import Config, inputs_of, noise_file
from noiseproof.training.data import TrainingData, load_data, remark_on_classes
from noiseproof.training.environment import choose_device
from noiseproof.training.frozen import stepper_for
from noiseproof.training.gpu_memory import free_up, is_out_of_memory
from noiseproof.training.interruption import Interrupted, Interruption
from noiseproof.training.noise_files import require_file, unmarked
from noiseproof.training.own_code import own_code_of, warn_of_other_code
from noiseproof.training.processes import train_in_processes
from noiseproof.training.run import EpochEnd, NotFiniteError, Run
from noiseproof.training.run_lock import locked
from noiseproof.training.sinks import open_sinks
from noiseproof.training.stepwise import Stepwise
from noiseproof.training.store import RunRecord, Store, default_folder

__all__ = ["NotFiniteError", "train", "train_pack"]

WRITE_EVERY = 16
"""Steps between one run's epoch being written down and the next one's: the GPU has them to go on with meanwhile."""

SHARED_BY_A_PACK = (
    "dataset",
    "model",
    "model_options",
    "batch_size",
    "train_size",
    "image_size",
    "augment",
    "freeze",
    "device",
    "precision",
)


def train(config: Config, *, folder: Path | str | None = None, **options: Any) -> RunRecord:
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
    folder: Path | str | None = None,
    quiet: bool = False,
    sinks: Sequence[str] = (),
    data: TrainingData | None = None,
    processes: int = 1,
    keep_going: bool = False,
) -> list[RunRecord]:
    """Train configs that share data, network and batch size; side by side on a GPU.

    A config that is recorded as finished is not trained again; one that was interrupted goes on. A run that fails
    does not stop the others: its error is recorded, and raised when they are done.

    Args:
        configs: what to compute.
        folder: where records, checkpoints and weights go.
        quiet: show no progress.
        sinks: where else to send metrics: ``"tensorboard"``, ``"mlflow"``, ``"wandb"``.
        data: data that is loaded already; loaded by the config's name otherwise.
        processes: on a CPU, share the runs out among so many processes of one thread each. The calling script
            must then be importable (``if __name__ == "__main__":``), as :mod:`multiprocessing` asks.
        keep_going: return the records of runs that failed among the others instead of raising their error.
    """
    _check_pack(configs)
    folder = Path(folder) if folder else default_folder()
    device = choose_device(configs[0].device)
    with ExitStack() as stack:
        stack.enter_context(ranks.plain_errors())
        ranks.join(device)
        store = stack.enter_context(Store(folder))
        waiting = [config for config in configs if not store.find(config.hash)]
        warn_of_other_code(_recorded(configs, folder, store))
        if device.type == "cpu" and data is None and ranks.count() == 1:
            processes = min(processes, len(waiting))
            if processes > 1:
                train_in_processes(waiting, folder, processes, quiet, sinks, keep_going)
                waiting = []
        if waiting:
            for config in waiting:
                if ranks.is_first():
                    stack.enter_context(locked(folder, config.run_id))
            if device.type == "cuda":  # streams and graphs are made on the current device, not the tensors'
                stack.enter_context(torch.cuda.device(device))
            if data is None:
                _check_inputs(waiting)
                data = load_data(_broadest(waiting), device)
            interruption = stack.enter_context(Interruption())
            stack.enter_context(_gpu_arithmetic(configs[0].precision == "tf32"))
            shown = stack.enter_context(progress.shown(quiet or not ranks.is_first()))
            opened = open_sinks(sinks, folder) if ranks.is_first() else []
            for sink in opened:
                stack.callback(sink.close)
            if (remark := remark_on_classes(data)) is not None:
                shown.say(remark)
            books = Books(folder, store, shown, opened)
            stack.callback(books.close)
            try:
                _train_together(waiting, data, books, interruption)
            except Exception as error:
                if len(configs) == 1 and not keep_going:  # of several, whoever called finds out whose it was
                    books.break_off(waiting[0].run_id, error)
                raise
            if books.failed and not keep_going:
                raise next(iter(books.failed.values()))
        ranks.wait()
        return [_record_of(config, store) for config in configs]


def _broadest(configs: Sequence[Config]) -> Config:
    """One whose data are those of all; human labels may leave out pictures, which another noise must not lack."""
    return min(configs, key=lambda config: parse_name(config.noise).kind == "real")


def _recorded(configs: Sequence[Config], folder: Path, store: Store) -> Iterator[tuple[Config, RunRecord]]:
    """Configs that use code of the user's own, and their records, but for runs of which nothing was kept."""
    for config in configs:
        if own_code_of(config):
            with suppress(LookupError):
                record = _record_of(config, store)
                is_kept = record.status == "finished" or _checkpoint(folder, config).exists()
                if record.config_hash == config.hash and is_kept:
                    yield config, record


def _checkpoint(folder: Path, config: Config) -> Path:
    return folder / config.run_id / "checkpoint.pt"


def _check_inputs(configs: Sequence[Config]) -> None:
    """Refuse to go on with a run whose data, weights or noise are no longer those that it was begun with."""
    for config in configs:
        require_file(config)
        now = inputs_of(config.dataset, config.weights, config.noise)
        if config.inputs not in (None, now, unmarked(now)):
            before = in_earlier_form(now, config.dataset)
            if config.inputs in (before, unmarked(before)):
                continue
            own = config.dataset if ":" in config.dataset else None  # sets of the package do not change
            weights = None if config.weights == IMAGENET else config.weights  # nor do those
            for place in (path_of(config.dataset), weights):
                if place is not None and not os.path.exists(place):
                    raise ValueError(
                        f"{config.run_id}: there is no {place} here. A relative path counts from where the command "
                        "is given: give it in the folder where the run was begun, or put the files back"
                    )
            files = " or ".join(each for each in (own, weights, noise_file(config.noise)) if each)
            raise ValueError(
                f"{config.run_id}: {files} has changed since this run was begun, so it cannot go on. Put the files "
                "back, or give the command that began it again: it begins a new run"
            )


def _record_of(config: Config, store: Store) -> RunRecord:
    finished = store.find(config.hash)
    return store.get(finished[0].id if finished else config.run_id)


def _train_together(
    configs: Sequence[Config],
    data: TrainingData,
    books: Books,
    interruption: Interruption,
    captured: bool = True,
) -> None:
    """Train runs from where they stand to their last epochs: side by side if they can be captured.

    Where they take more memory than the GPU has, they go in two halves, one after the other; a run alone, for which
    even that is too much, step by step, without a graph and without features that are kept.
    """
    runs: list[Run] = []
    side_by_side = False
    try:
        runs.append(_opened(configs[0], data, books))
        side_by_side = captured and can_capture(runs)
        if side_by_side:
            for config in configs[1:]:
                runs.append(_opened(config, data, books))
            _train_runs(runs, SideBySide, books, interruption)
            return
        for config in configs:  # one by one, and none is begun before its turn
            if not runs:
                runs.append(_opened(config, data, books))
            with runs[0].threads():
                _train_runs(runs, stepper_for(runs[0]) if captured else Stepwise, books, interruption)
            runs.pop().close()
        return
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        if len(configs) == 1 and not captured:
            books.fail(configs[0].run_id, error)
            return
    finally:
        while runs:  # no name may keep a run's tensors: this frame lives for as long as the halves take
            runs.pop().close()
    data.features.clear()
    free_up()
    books.settle()
    if len(configs) == 1 or not side_by_side:
        waiting = [config for config in configs if not books.is_over(config.run_id)]
        books.shown.say(f"{waiting[0].run_id} needs more memory than the GPU has: step by step, then")
        for config in waiting:
            _train_together([config], data, books, interruption, captured=False)
        return
    half = -(-len(configs) // 2)
    books.shown.say(f"{len(configs)} runs at once need more memory than the GPU has: {half} at a time, then")
    for part in (configs[:half], configs[half:]):
        waiting = [config for config in part if not books.is_over(config.run_id)]
        if waiting:
            _train_together(waiting, data, books, interruption, captured)


def _opened(config: Config, data: TrainingData, books: Books) -> Run:
    run = Run(config, data)
    checkpoint = _checkpoint(books.folder, config)
    goes_on = checkpoint.exists()
    if goes_on:
        run.restore(checkpoint)
    books.begin(run, afresh=not goes_on)
    if run.epoch == config.epochs:  # stopped after its last epoch, before it was called finished
        books.finish(run)
    return run


def _train_runs(
    runs: list[Run],
    stepper: type[SideBySide | Stepwise],
    books: Books,
    interruption: Interruption,
) -> None:
    """Train runs together, an epoch at a time; what an epoch leaves to be written is written during the next."""
    late: deque[EpochEnd] = deque()
    way: SideBySide | Stepwise | None = None
    stepped: list[Run] = []
    while going := [run for run in runs if not books.is_over(run.config.run_id) and not run.is_done]:
        for together in _at_the_same_step(going):
            if way is None or together != stepped:
                way = None  # its graphs and windows go before new ones come
                for run in together:
                    run.forget_the_time()
                way, stepped = stepper(together), together
            try:
                for taken, _ in enumerate(way.epoch(), 1):
                    books.show_step(together)
                    if late and taken % WRITE_EVERY == 0:
                        books.end_epoch(late.popleft())
                    if ranks.any_says(interruption.requested, together[0].device):
                        way.pause()
                        books.interrupt(going, late)
                        raise Interrupted(going[0].config.run_id)
                _write_down(late, books)
                late.extend(way.end_epoch())
            except NotFiniteError as error:  # of a run alone; those side by side are found when written down
                books.fail(together[0].config.run_id, error)
            if not way.works_ahead:
                _write_down(late, books)
    _write_down(late, books)


def _write_down(late: deque[EpochEnd], books: Books) -> None:
    while late:
        books.end_epoch(late.popleft())


def _at_the_same_step(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that can go in lockstep; those that were stopped in mid-epoch first finish that epoch."""
    return [[run for run in runs if run.step == step] for step in sorted({run.step for run in runs})]


@contextmanager
def _gpu_arithmetic(tf32: bool) -> Iterator[None]:
    """TF32 or true float32, and cuDNN's search for the fastest convolutions; both global, so given back after."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.benchmark_limit
    matmul.allow_tf32 = cudnn.allow_tf32 = tf32
    cudnn.benchmark = True  # every batch but the last has the same shape, so that the search pays
    cudnn.benchmark_limit = 0  # and that among all it has
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.benchmark_limit = before


def _check_pack(configs: Sequence[Config]) -> None:
    if not configs:
        raise ValueError("configs: expected at least one, got none")
    for name in SHARED_BY_A_PACK:
        values = {str(getattr(config, name)) for config in configs}
        if len(values) > 1:
            raise ValueError(f"configs: a pack shares its {name}, got {', '.join(sorted(values))}")
    if len({config.hash for config in configs}) < len(configs):
        raise ValueError("configs: the same config stands twice in the pack")
