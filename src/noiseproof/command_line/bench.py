# SPDX-License-Identifier: Apache-2.0
"""``noiseproof bench``: a grid of runs, trained as far as time allows and gone on with at any time."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line.failures import fail
from noiseproof.command_line.initial_weights import remark_on
from noiseproof.command_line.options import (
    KeptIn,
    OnlyMethods,
    OnlyNoises,
    OnlySeeds,
    Quiet,
    read_items,
    read_part,
    read_selection,
    read_setting,
    require_results_files,
)

if TYPE_CHECKING:
    from noiseproof.grids import Cell, Grid
    from noiseproof.grids.display import Display
    from noiseproof.grids.recorded import Recorded
    from noiseproof.grids.runner import Outcome
    from noiseproof.grids.states import CellState

EPILOG = """
[bold]Examples[/bold]

  noiseproof bench

  noiseproof bench digits-table

  noiseproof bench cifar10-table --dry-run

  noiseproof bench cifar10-table --methods anl-ce,apl --noise sym-0.8 --seeds 1 --budget 20m

  noiseproof bench cifar10-table --cells MAE@dep-0.4,FL@real --seeds 2,3

  noiseproof bench cifar10-table --precision float32 --retry-failed

  noiseproof bench my-grid.toml --set epochs=30 --records results/my-grid.jsonl

  noiseproof bench cifar10-parts --records results/cifar10-parts.jsonl --from results/cifar10-table.jsonl

  noiseproof bench cifar100-table --stop-after 3h50m   in a four-hour job; repeat until done

  noiseproof bench my-grid.toml --ray auto
"""


def bench(
    grid: Annotated[
        str | None,
        typer.Argument(
            metavar="GRID", help="Name of a built-in grid, or a TOML file; leave it out to list the grids."
        ),
    ] = None,
    methods: OnlyMethods = None,
    noise: OnlyNoises = None,
    seeds: OnlySeeds = None,
    cells: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD@NOISE,…",
            help="Only these pairs of a method and a noise, such as MAE@dep-0.4,FL@real.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Start only what will finish in this time: 90s, 20m, 1h30m. One seed of every cell comes first.",
        ),
    ] = None,
    stop_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop and save after this time, even in the middle of a run; the same command continues.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the runs and how long they will take; needs no data.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Retry runs that failed before.")
    ] = False,
    precision: Annotated[str | None, typer.Option(help="Numeric precision: float32, tf32 or bf16.")] = None,
    device: Annotated[str | None, typer.Option(help="Device: auto, cpu, cuda or cuda:N.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Config field for all runs, such as epochs=30. May be repeated.",
        ),
    ] = None,
    part: Annotated[
        str | None, typer.Option(metavar="I/N", help="Train only the I-th of N equal parts, for job arrays.")
    ] = None,
    pack: Annotated[int | None, typer.Option(min=1, help="Train at most this many runs together.")] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="On a CPU: number of single-threaded processes; by default one per core."),
    ] = None,
    folder: KeptIn = None,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Add finished runs to this JSON Lines file; runs already in it are not trained again.",
        ),
    ] = None,
    from_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Do not train runs again that are in this results file. May be repeated.",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Train on a Ray cluster: its address, auto or local."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train a grid of runs: every method under every noise with every seed."""
    from noiseproof.datasets import DataError

    if grid is None:
        _list_grids()
        return
    try:
        chosen, runs = _chosen(grid, methods, noise, seeds, cells, precision, device, set_ or [], part)
        options = _Options(
            folder, pack, processes, budget, stop_after, retry_failed, ray, records, from_files or [], quiet
        )
        if dry_run:
            _tell_plan(chosen, runs, options)
            return
        outcome = _train(chosen, runs, options)
    except (ValueError, TypeError, DataError, OSError, ImportError, RuntimeError) as error:
        fail(error)
    except KeyboardInterrupt:
        typer.echo("Stopped at once. Continue with the same command.", err=True)
        raise typer.Exit(130) from None
    _tell_outcome(grid, chosen, outcome, options)


class _Options:
    """How to train, as the user said it."""

    def __init__(
        self,
        folder: Path | None,
        pack: int | None,
        processes: int | None,
        budget: str | None,
        stop_after: str | None,
        retry_failed: bool,
        ray: str | None,
        records: Path | None,
        from_files: list[Path],
        quiet: bool,
    ) -> None:
        from noiseproof.grids.pace import parse_duration
        from noiseproof.training.store import default_folder

        self.folder, self.folder_was_said = folder or default_folder(), folder is not None
        self.pack, self.processes, self.retry_failed = pack, processes, retry_failed
        if budget is not None and stop_after is not None:
            raise ValueError(
                "--budget and --stop-after: expected one of them, got both. --budget starts only what will "
                "finish in time; --stop-after trains until the time is up and saves what is unfinished."
            )
        self.budget = None if budget is None else parse_duration(budget)
        self.stop_after = None if stop_after is None else parse_duration(stop_after, "stop-after")
        self.ray, self.records, self.from_files, self.quiet = ray, records, from_files, quiet
        require_results_files(
            from_files, "leave --from out, or use --records, which creates the file if it is missing"
        )

    @property
    def results_files(self) -> list[Path]:
        """All results files that are there."""
        own = [self.records] if self.records is not None and self.records.exists() else []
        return [*own, *self.from_files]


def _list_grids() -> None:
    from noiseproof import grids

    shipped = [grids.load(name) for name in grids.names()]
    width = max(len(grid.name) for grid in shipped)
    for grid in shipped:
        count = len(grid.methods) * len(grid.noises) * len(grid.seeds)
        typer.echo(f"{grid.name:{width}}  {count:4} runs  {grid.title}")
    typer.echo(
        "\nTrain one: noiseproof bench GRID. See what it would train: noiseproof bench GRID --dry-run."
    )


def _chosen(
    name: str,
    methods: str | None,
    noise: str | None,
    seeds: str | None,
    pairs: str | None,
    precision: str | None,
    device: str | None,
    settings: list[str],
    part: str | None,
) -> "tuple[Grid, list[Cell]]":
    from noiseproof import grids

    said = dict(read_setting(text) for text in settings)
    said |= {key: value for key, value in (("precision", precision), ("device", device)) if value is not None}
    grid = grids.load(name).narrowed(
        *read_selection(methods, noise, seeds),
        said,
        None if pairs is None else read_items(pairs, "--cells"),
    )
    cells = grid.cells()
    if part is not None:
        first, of = read_part(part)
        cells = cells[first - 1 :: of]
        if not cells:
            raise ValueError(f"--part: the grid has fewer than {of} runs, so part {first} of {of} is empty")
    return grid, cells


def _tell_plan(grid: "Grid", cells: "Sequence[Cell]", options: _Options) -> None:
    from noiseproof.grids.pace import Clock, in_words
    from noiseproof.grids.packs import packs_of
    from noiseproof.grids.recorded import Recorded
    from noiseproof.grids.runner import cells_to_train, settled
    from noiseproof.training.store import Store

    largest, processes, hardware = settled(cells, options.pack, options.processes)
    recorded = Recorded(grid, cells, None, options.results_files)
    with Store(options.folder) as store:
        states = recorded.states_of(cells, store)
        clock = Clock(store.runs(), hardware, processes, recorded.lines)
    width, noises = max(len(cell.method.label) for cell in cells), max(len(cell.noise) for cell in cells)
    for state in states:
        cell = state.cell
        typer.echo(
            f"{cell.method.label:{width}}  {cell.noise:{noises}}  seed {cell.seed}  {_in_words(state):24}  "
            f"{cell.config.run_id}"
        )
    waiting = cells_to_train(states, options.retry_failed)
    packs = packs_of(waiting, largest)
    times = [clock.seconds(each) for each in packs]
    known = [each for each in times if each is not None]
    typer.echo(f"\n{grid.title}\n{_counted(states)}.")
    _tell_of_initial_weights(waiting)
    if not waiting:
        typer.echo("Nothing to train.")
    elif len(known) < len(times):
        typer.echo(
            f"{len(waiting)} to train in {_many(len(packs), 'pack')}. No estimate of time: no comparable run "
            "has been recorded on this hardware; --budget 10m, for example, trains a first one to find out."
        )
    else:
        runs = max(pace.runs for state in waiting if (pace := clock.pace(state.cell.config)) is not None)
        typer.echo(
            f"{len(waiting)} to train in {_many(len(packs), 'pack')}: about {in_words(sum(known))} on this "
            f"machine, judging by {_many(runs, 'comparable run')}."
        )


def _tell_of_initial_weights(waiting: "Sequence[CellState]") -> None:
    remark = remark_on((state.cell.config for state in waiting), "--set weights=imagenet")
    if remark:
        typer.echo(remark, err=True)


def _train(grid: "Grid", cells: "Sequence[Cell]", options: _Options) -> "Outcome":
    from noiseproof.grids.display import shown
    from noiseproof.grids.recorded import Recorded
    from noiseproof.grids.runner import cells_to_train
    from noiseproof.training.store import Store

    recorded = Recorded(grid, cells, options.records, options.from_files)
    with Store(options.folder) as store:
        states = recorded.states_of(cells, store)
    _record(states, recorded, options)  # also those that were trained before
    waiting = cells_to_train(states, options.retry_failed)
    if waiting:
        recorded.require_writable()
    if not options.quiet:
        typer.echo(f"{_counted(states)}; {len(waiting)} to train.")
        _tell_of_initial_weights(waiting)
    left = [cell for cell in cells if not recorded.has(cell)]
    with shown(len(waiting), options.quiet) as display:
        outcome = _run(left, recorded, options, display)
    _record(outcome.states, recorded, options)  # also those that another process trained meanwhile
    now = iter(outcome.states)
    outcome.states = [recorded.state_of(cell) if recorded.has(cell) else next(now) for cell in cells]
    return outcome


def _record(states: "Sequence[CellState]", recorded: "Recorded", options: _Options) -> None:
    """Add to the results file what the runs folder has finished."""
    from noiseproof.grids.states import with_status
    from noiseproof.training.store import Store

    with Store(options.folder) as store:
        recorded.add(store.get(state.record.id) for state in with_status(states, "finished") if state.record)


def _run(cells: "Sequence[Cell]", recorded: "Recorded", options: _Options, display: "Display") -> "Outcome":
    """Train cells that no results file has."""
    from noiseproof.grids.runner import Outcome, run_cells

    if not cells:
        return Outcome()
    common: dict[str, Any] = {
        "folder": options.folder,
        "largest_pack": options.pack,
        "retry_failed": options.retry_failed,
        "display": display,
        "finished": recorded.add,
    }
    if options.ray is not None:
        from noiseproof.grids.ray_cluster import run_cells_on_ray

        # On a cluster a budget stops what is running, too.
        limit = options.budget if options.stop_after is None else options.stop_after
        return run_cells_on_ray(cells, address=options.ray, budget=limit, **common)
    common |= {"budget": options.budget, "stop_after": options.stop_after}
    return run_cells(cells, processes=options.processes, timed=recorded.lines, **common)


def _tell_outcome(name: str, grid: "Grid", outcome: "Outcome", options: _Options) -> None:
    from noiseproof.grids.states import with_status

    _tell_table(grid, options)
    for state in with_status(outcome.states, "failed"):
        cell, record = state.cell, state.record
        typer.echo(
            f"Failed: {cell.method.label}, {cell.noise}, seed {cell.seed}: {record.error if record else ''}",
            err=True,
        )
    typer.echo(f"{_counted(outcome.states)}.")
    if outcome.count("failed"):
        typer.echo("Failed runs are kept; --retry-failed tries them again.", err=True)
    typer.echo(_command_for_report(name, grid, options))
    if outcome.stopped == "interrupted":
        typer.echo("Stopped; nothing is lost. Continue with the same command.", err=True)
        raise typer.Exit(130)
    if outcome.stopped == "budget":
        typer.echo("Time is up, or too little is left for another run. Continue with the same command.")
    if outcome.count("failed"):
        raise typer.Exit(1)


def _tell_table(grid: "Grid", options: _Options) -> None:
    from noiseproof.command_line.table import print_table
    from noiseproof.results import gather, table_of

    # Files of other grids, from which runs were taken, hold more than this one asks for.
    gathered = gather(grid, folder=options.folder, files=options.results_files, own_only=True)
    if gathered.results:
        typer.echo()
        print_table(table_of(gathered))
        typer.echo()


def _command_for_report(name: str, grid: "Grid", options: _Options) -> str:
    """How to look at what was trained."""
    from noiseproof.plugins import command_name
    from noiseproof.report.command import options_of

    words = ["report", name, *options_of(grid.overrides)]
    for file in options.results_files:
        words += ["--from", str(file)]
    if options.folder_was_said or options.results_files:
        words += ["--folder", str(options.folder)]
    return f"Report: {command_name()} {shlex.join([*words, '--open'])}"


_STATUS_IN_WORDS = {"begun": "unfinished", "at work": "running elsewhere"}


def _counted(states: "Sequence[CellState]") -> str:
    said = [_many(len(states), "run")]
    for status in ("finished", "failed", "begun", "at work", "new"):
        number = sum(state.status == status for state in states)
        if number:
            said.append(f"{number} {_STATUS_IN_WORDS.get(status, status)}")
    return f"{said[0]}: {', '.join(said[1:])}"


def _in_words(state: "CellState") -> str:
    if state.status == "begun" and state.record is not None:
        return f"unfinished, {state.record.progress.epochs}/{state.cell.config.epochs} epochs"
    if state.status == "finished" and state.record is None:
        return "in a results file"
    return (_STATUS_IN_WORDS | {"new": "to train"}).get(state.status, state.status)


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
