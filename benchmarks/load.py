# SPDX-License-Identifier: Apache-2.0
"""Time and memory of what grows with use: a store of many runs, a report of a large grid, noise on many labels.

    python benchmarks/load.py                          everything; a few minutes, 4 GB
    python benchmarks/load.py --only runs --sizes 100,1000,10000
    python benchmarks/load.py --only noise --labels 100000000

Every line is measured in a separate process, so that its peak memory is its own. The runs are made up: one real
record, written again under other names, seeds and accuracies.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from noiseproof import noise
from noiseproof.grids import Grid, Method
from noiseproof.report import write_report
from noiseproof.results import gather
from noiseproof.training import resolve, train
from noiseproof.training.store import Store

EPOCHS = 20
IN_MEMORY = Path("/dev/shm")
"""Where to write the runs: a disk would be waited for after each of their epochs."""

LOSSES = ("ce", "mae", "gce", "sce", "nce+rce", "nce+agce", "anl-ce", "anl-fl", "jal-ce", "phce")
NOISES = (
    "clean",
    "sym-0.2",
    "sym-0.4",
    "sym-0.6",
    "sym-0.8",
    "asym-0.1",
    "asym-0.2",
    "asym-0.3",
    "asym-0.4",
    "asym-0.5",
)


def grid_of(runs: int) -> Grid:
    methods = tuple(Method(name.upper(), name) for name in LOSSES)
    seeds = tuple(range(1, runs // (len(LOSSES) * len(NOISES)) + 1))
    settings = {"epochs": EPOCHS, "model": "mlp"}
    return Grid(
        name="load",
        title="Load",
        dataset="digits",
        kind="table",
        settings=settings,
        methods=methods,
        noises=NOISES,
        seeds=seeds,
    )


def write_store(folder: Path, grid: Grid) -> None:
    """A store in which every cell of the grid is finished."""
    config = resolve("digits", loss="ce", noise="sym-0.4", model="mlp", epochs=EPOCHS)
    record = train(config, folder=folder / "one", quiet=True)
    random = np.random.default_rng(0)
    with Store(folder) as store:
        for cell in grid.cells():
            config, name = cell.config, cell.config.run_id
            store.begin(name, config.as_data(), config.hash, record.environment, record.noise)
            for epoch, metrics in enumerate(record.epochs):
                known = {key: value for key, value in metrics.items() if key not in ("epoch", "seconds")}
                store.record_epoch(name, epoch, known, metrics["seconds"])
            store.finish(name, record.result | {"test_accuracy": float(random.uniform(20, 95))})


def list_runs(folder: Path, grid: Grid) -> str:
    with Store(folder) as store:
        return f"{len(store.runs())} runs listed"


def report_runs(folder: Path, grid: Grid) -> str:
    gathered = gather(grid, folder=folder)
    page = folder / "page.html"
    write_report(gathered, page)
    return f"{len(gathered.results)} runs on a page of {page.stat().st_size / 2**20:.1f} MiB"


def symmetric(labels: int) -> str:
    clean = (np.arange(labels, dtype=np.int64) * 7919) % 1000
    given = noise.symmetric(clean, 0.4, num_classes=1000, seed=1)
    return f"{labels:,} labels, {100 * given.realised_rate:.2f}% wrong"


def asymmetric(labels: int) -> str:
    clean = (np.arange(labels, dtype=np.int64) * 7919) % 10
    given = noise.asymmetric(clean, 0.4, flips="cifar10", num_classes=10, seed=1)
    return f"{labels:,} labels, {100 * given.realised_rate:.2f}% wrong"


def _child(work: Callable[..., str], arguments: tuple, answer: "multiprocessing.Queue") -> None:
    began = time.perf_counter()
    said = work(*arguments)
    seconds = time.perf_counter() - began
    answer.put((said, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))


def measured(name: str, work: Callable[..., str], *arguments: object) -> None:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_child, args=(work, arguments, answer))
    process.start()
    said, seconds, peak = answer.get()
    process.join()
    print(f"{name:20} {seconds:8.2f} s {peak:6.2f} GiB  {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["runs", "noise"])
    parser.add_argument("--sizes", default="100,1000,10000")
    parser.add_argument("--labels", type=int, default=100_000_000)
    args = parser.parse_args()
    if args.only != "noise":
        for size in map(int, args.sizes.split(",")):
            with tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.exists() else None) as folder:
                grid = grid_of(size)
                write_store(Path(folder), grid)
                measured(f"list, {size} runs", list_runs, Path(folder), grid)
                measured(f"report, {size} runs", report_runs, Path(folder), grid)
    if args.only != "runs":
        measured("symmetric noise", symmetric, args.labels)
        measured("asymmetric noise", asymmetric, args.labels)


if __name__ == "__main__":
    main()
