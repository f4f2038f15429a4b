# SPDX-License-Identifier: Apache-2.0
"""``noiseproof report``: a grid's recorded runs as one page to look at."""

from pathlib import Path
from typing import Annotated

import typer

from noiseproof.command_line.failures import plain_errors
from noiseproof.command_line.options import (
    FromFiles,
    GridName,
    OnlyMethods,
    OnlyNoises,
    OnlySeeds,
    OtherPrecision,
    OtherSettings,
    RunsFolder,
)
from noiseproof.command_line.table import gather_runs

EPILOG = """
The page is a single file that works offline. Runs are read from the runs folder (NOISEPROOF_RUNS, or runs in the
current folder), or from a results file.

[bold]Examples[/bold]

  noiseproof report cifar10-table --open

  noiseproof report cifar10-table --from results/cifar10-table.jsonl

  noiseproof report cifar10-table --from results/cifar10-table.jsonl --folder runs --price-per-hour 2.5

  noiseproof report my-grid.toml --out pages/mine.html

  noiseproof report my-grid.toml --set epochs=30 --precision float32   runs trained with these options
"""


def report(
    grid: GridName,
    from_files: FromFiles = None,
    methods: OnlyMethods = None,
    noise: OnlyNoises = None,
    seeds: OnlySeeds = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="HTML file to write; by default GRID.html.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    price_per_hour: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="MONEY", help="Price of an hour on the machine, to show what each run cost."
        ),
    ] = None,
    set_: OtherSettings = None,
    precision: OtherPrecision = None,
    folder: RunsFolder = None,
) -> None:
    """Write an HTML page about a grid: results and the paper's, figures, noise, hyperparameters and every run."""
    with plain_errors():
        gathered = gather_runs(grid, from_files, folder, set_, precision, (methods, noise, seeds))
        from noiseproof.report import write_report

        path = out or Path(f"{gathered.grid.name}.html")
        said = (("--methods", methods), ("--noise", noise), ("--seeds", seeds))
        part = [word for option, value in said if value is not None for word in (option, value)]
        write_report(gathered, path, grid_argument=grid, part_of_grid=part, price_per_hour=price_per_hour)
    typer.echo(f"Page: {path}")
    if open_page:
        typer.launch(str(path))
