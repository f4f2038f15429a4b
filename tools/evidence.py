# SPDX-License-Identifier: Apache-2.0
"""Train the evidence slice by slice, the most important first, and record it in results/.

    python tools/evidence.py --list            what is recorded, and the command for every slice
    python tools/evidence.py --budget 9m       what can be finished in nine minutes; the same command continues
    python tools/evidence.py --stop-after 9m   train for nine minutes and save what is unfinished: for long runs
    python tools/evidence.py --only isic       slices whose names begin with this

A slice is one ``noiseproof bench``. Runs in a results file are not trained again, so a new machine only needs
results/ and the data. Slices whose data is missing are skipped.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from noiseproof.datasets import DataError
from noiseproof.grids import load
from noiseproof.grids.pace import in_words, parse_duration
from noiseproof.grids.runner import require_data
from noiseproof.results import Result, read_records, write_results

sys.path.insert(0, str(Path(__file__).parent))
import isic_winners

LEAST_SECONDS = 45.0
"""With less time left, no slice is started."""

FAILED = 1
"""Exit status of ``noiseproof bench`` where a run failed; after any other than 0 nothing more is started."""


@dataclass(frozen=True)
class Slice:
    """Part of a grid that is worth having whole."""

    name: str
    grid: str
    methods: str = ""
    noises: str = ""
    seeds: str = ""
    cells: str = ""
    others: tuple[str, ...] = ()
    """Grids with some of the same runs."""

    def options(self) -> list[str]:
        """How ``noiseproof bench`` is told of it."""
        said = {
            "--methods": self.methods,
            "--noise": self.noises,
            "--seeds": self.seeds,
            "--cells": self.cells,
        }
        return [word for key, value in said.items() if value for word in (key, value)]

    def hashes(self) -> set[str]:
        """Of the configs of its runs."""
        grid = load(self.grid).narrowed(
            self.methods.split(",") if self.methods else None,
            self.noises.split(",") if self.noises else None,
            [int(seed) for seed in self.seeds.split(",")] if self.seeds else None,
            cells=self.cells.split(",") if self.cells else None,
        )
        return {cell.config.hash for cell in grid.cells()}


REPEATED = "CE,APL,ANL-CE,ANL-FL,ANL-CE*"

OUTSIDE = (
    "SCE@sym-0.6,PHCE@sym-0.6,TCE@sym-0.6,ALF@sym-0.6,MAE@asym-0.2,PHCE@asym-0.2,TCE@asym-0.4,ALF@asym-0.4,"
    "GCE@dep-0.2,PHCE@dep-0.2,MAE@dep-0.4,FL@real,MAE@real,GCE@real"
)
"""Cells of CIFAR-10's table that are outside the published spread with their first seed."""

STILL_OUTSIDE = (
    "CE@dep-0.2-fixed-count,CE@dep-0.2-shared-projection,CE (rotated)@dep-0.2,"
    "ANL-FL@asym-0.4-bernoulli,ANL-FL (true gradient)@asym-0.4"
)
"""Alternatives to those that are outside it with three seeds."""

SLICES = (
    Slice("isic-tuning", "isic-tuning"),
    Slice("isic-1", "isic-table", seeds="1"),
    Slice("cifar10-1", "cifar10-table", seeds="1"),
    Slice("cifar10-2", "cifar10-table", methods=REPEATED, seeds="2"),
    Slice("cifar10-3", "cifar10-table", methods=REPEATED, seeds="3"),
    Slice("cifar100-1", "cifar100-table", "CE,APL,ANL-CE", "clean,sym-0.6,asym-0.4", "1"),
    Slice("gradients", "gradients"),
    Slice("outside", "cifar10-table", seeds="2,3", cells=OUTSIDE),
    Slice("outside-alternatives", "cifar10-alternatives", cells=STILL_OUTSIDE),
    Slice("parts", "cifar10-parts", others=("cifar10-table",)),
    Slice("overfitting", "overfitting-curves", others=("cifar10-table",)),
    Slice("marginals", "marginals", others=("cifar10-table",)),
    Slice("regularisers-anl", "regularisers-anl", others=("cifar10-table",)),
    Slice("regularisers-apl", "regularisers-apl", others=("cifar10-table",)),
    Slice("alpha-beta", "alpha-beta-grid", others=("overfitting-curves",)),
    Slice("beyond-1", "cifar10-beyond", seeds="1"),
    Slice("alternatives", "cifar10-alternatives", seeds="1", others=("cifar10-table",)),
    Slice("lost-classes", "cifar10-lost-classes", "MAE,GCE,PHCE,TCE,ANL-CE"),
    Slice("isic-alternatives", "isic-alternatives", others=("isic-table",)),
    Slice(
        "cifar100-more",
        "cifar100-table",
        "CE,APL,ALF,ANL-CE,ANL-CE*",
        "clean,sym-0.4,sym-0.6,sym-0.8,asym-0.4,real",
        "1",
    ),
    Slice("cifar100-jal", "cifar100-beyond", "JAL-CE", "clean,sym-0.4,sym-0.6,sym-0.8,asym-0.4,real", "1"),
    Slice("cifar10-all", "cifar10-table"),
    Slice("isic-all", "isic-table"),
)


def results_file(results: Path, grid: str) -> Path:
    """Where a grid's runs are kept."""
    return results / f"{Path(grid).stem}.jsonl"


def recorded(results: Path, piece: Slice, grids: Sequence[str] | None = None) -> set[str]:
    """Hashes of a slice's runs that are recorded: in files of these grids, or else of its own and the others'."""
    files = [results_file(results, grid) for grid in grids or (piece.grid, *piece.others)]
    lines = [line for file in files if file.exists() for line in read_records(file)]
    return {line.config_hash for line in lines if has_all(line)} & piece.hashes()


def has_all(line: Result) -> bool:
    """Whether a line has what its grid is about: the first ones of gradients lack the formula's values."""
    pulls = line.pulls
    if pulls is None:
        return True
    return pulls.floored is not None and all(
        floored is not None or trained is None
        for floored, trained in zip(pulls.floored.clean, pulls.clean, strict=True)
    )


def set_aside(file: Path, folder: Path) -> Path | None:
    """A copy of a results file, in this folder, without lines that lack something; None where none does.

    Runs of those lines are trained again there, for in their own folder they count as finished.
    """
    lines = read_records(file) if file.exists() else []
    if all(map(has_all, lines)):
        return None
    aside = folder / file.name
    write_results(aside, filter(has_all, lines))
    return aside


@dataclass(frozen=True)
class Limits:
    """How long to train, and how many runs at a time."""

    seconds: float | None = None
    option: str = "--budget"
    """How ``noiseproof bench`` is told of the time."""
    pack: int | None = None

    def options(self, seconds: float | None) -> list[str]:
        """How ``noiseproof bench`` is told of them, with so much time left."""
        words = [] if self.pack is None else ["--pack", str(self.pack)]
        return words if seconds is None else [*words, self.option, f"{int(seconds)}s"]


def command(piece: Slice, results: Path, folder: Path, records: Path | None = None) -> list[str]:
    """Of a slice, with its results file or another one."""
    records = records or results_file(results, piece.grid)
    words = ["bench", piece.grid, *piece.options(), "--records", str(records)]
    for file in (results_file(results, grid) for grid in piece.others):
        if file.exists():
            words += ["--from", str(file)]
    return [*words, "--folder", str(folder)]


def tell(pieces: Sequence[Slice], results: Path, folder: Path) -> None:
    """Print what is recorded of each slice, and how to train it."""
    for piece in pieces:
        words = shlex.join(["noiseproof", *command(piece, results, folder)])
        print(f"{piece.name:20} {len(recorded(results, piece)):>3} of {len(piece.hashes()):>3}  {words}")


def train(pieces: Sequence[Slice], results: Path, folder: Path, limits: Limits) -> int:
    """Train slices in turn until all are whole or the time is used up; 1 where a run of theirs failed.

    A failed run is left alone until ``noiseproof bench --retry-failed``, so the next slices do not wait for it.
    """
    failed = 0
    deadline = None if limits.seconds is None else time.monotonic() + limits.seconds
    for piece in pieces:
        if piece.hashes() <= recorded(results, piece, [piece.grid]):
            finish(piece, results)
            continue
        missing = piece.hashes() - recorded(results, piece)
        try:
            if missing:  # else they stand in another grid's file, and only have to be written down
                require_data(load(piece.grid).dataset)
        except DataError as error:
            print(f"{piece.name}: skipped, {str(error).splitlines()[0]}")
            continue
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left < LEAST_SECONDS:
            print(f"Stopped before {piece.name}: {in_words(max(0.0, left))} left.")
            return failed
        file = results_file(results, piece.grid)
        aside = set_aside(file, folder / "again")
        words = command(piece, results, aside.parent if aside else folder, aside)
        words += limits.options(left)
        print(
            f"{piece.name}: runs to train: {len(missing)}\n$ {shlex.join(['noiseproof', *words])}", flush=True
        )
        ended = subprocess.run([sys.executable, "-m", "noiseproof", *words], check=False).returncode
        if aside is not None:
            write_results(file, read_records(aside))
        if ended == FAILED:
            print(f"{piece.name}: a run failed; going on with the next slice", flush=True)
            failed = FAILED
        elif ended:
            return ended
        if piece.hashes() <= recorded(results, piece):
            finish(piece, results)
    return failed


def chosen(only: str) -> list[Slice]:
    """Slices whose names begin with one of these, which commas part; all where none is said."""
    starts = [start for text in only.split(",") if (start := text.strip())]
    for start in starts:
        if not any(piece.name.startswith(start) for piece in SLICES):
            raise ValueError(f"no slice begins with {start}; there are {', '.join(p.name for p in SLICES)}")
    return [piece for piece in SLICES if not starts or piece.name.startswith(tuple(starts))]


def finish(piece: Slice, results: Path) -> None:
    """What a slice that is whole decides about the next ones."""
    if piece.grid == "isic-tuning":
        isic_winners.main(results / "isic-tuning.jsonl")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="train nothing")
    parser.add_argument("--only", default="", metavar="NAMES", help="beginnings of slice names, by commas")
    time_limit = parser.add_mutually_exclusive_group()
    time_limit.add_argument(
        "--budget",
        type=parse_duration,
        metavar="TIME",
        help="train what can be finished in this time: 90s, 20m, 1h30m",
    )
    time_limit.add_argument(
        "--stop-after",
        type=parse_duration,
        metavar="TIME",
        help="train for this time; unfinished runs are saved",
    )
    parser.add_argument("--pack", type=int, metavar="N", help="most runs that train together")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    said = parser.parse_args()
    try:
        pieces = chosen(said.only)
    except ValueError as error:
        parser.error(str(error))
    if said.list:
        tell(pieces, said.results, said.folder)
        return 0
    limits = Limits(said.budget, pack=said.pack)
    if said.stop_after is not None:
        limits = Limits(said.stop_after, "--stop-after", said.pack)
    return train(pieces, said.results, said.folder, limits)


if __name__ == "__main__":
    sys.exit(main())
