# SPDX-License-Identifier: Apache-2.0
"""``noiseproof runs``: what was trained, with what, and how it ended."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from noiseproof.command_line.failures import plain_errors
from noiseproof.command_line.options import Json, RunsFolder
from noiseproof.command_line.run_settings import comparable, has_settings, told_apart
from noiseproof.command_line.set_option import read_as_trained
from noiseproof.command_line.terminal import as_json, open_console, percent, printable
from noiseproof.durations import duration

if TYPE_CHECKING:
    from noiseproof.results.differences import Difference
    from noiseproof.training.store import RunRecord, Store

LISTED = 30
"""Runs in the table unless --limit says otherwise."""

NO_RUNS = "No runs yet. Start one with: noiseproof train digits --loss anl-ce"

LEGEND = (
    "test: accuracy in percent at the last tested epoch, which is the result; for masks Dice, averaged over the "
    "last ten epochs once a run has finished. best: the best of all epochs, picked on the test set, so for "
    "comparison only."
)

EPILOG = """
The runs folder is NOISEPROOF_RUNS, or runs in the current folder if that is not set.

[bold]Examples[/bold]

  noiseproof runs                                 the newest runs in one table

  noiseproof runs --loss anl-ce --noise sym-0.8   only runs with this loss and noise

  noiseproof runs --loss anl-ce --set beta=1      only runs with this setting

  noiseproof runs cifar10-sym-0.8-anl             one run; the beginning of its name is enough

  noiseproof runs compare RUN OTHER               what differs between two runs

  noiseproof runs delete RUN                      delete its record, checkpoint and weights

  noiseproof runs --json                          all runs as JSON, for programs
"""


class ListOrShow(TyperGroup):
    """A group in which a word that is no sub-command is the name of a run to show."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Read ``runs RUN`` as ``runs show RUN``."""
        if args and args[0] not in self.commands:
            args = ["show", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=ListOrShow,
    invoke_without_command=True,
    subcommand_metavar="[RUN]",
    rich_markup_mode="rich",
    epilog=EPILOG,
)


@app.callback()
def runs(
    context: typer.Context,
    dataset: Annotated[str | None, typer.Option(help="Only runs on this data set.")] = None,
    loss: Annotated[str | None, typer.Option(help="Only runs with this loss.")] = None,
    noise: Annotated[
        str | None, typer.Option(help="Only runs with this noise, such as sym-0.8 or file:noisy.")
    ] = None,
    status: Annotated[
        str | None, typer.Option(help="Only runs with this status: running, finished, interrupted or failed.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Only runs with this setting, such as epochs=30 or, for the loss, beta=1. May be repeated.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help=f"Only this many, newest first; by default the table shows {LISTED}."),
    ] = None,
    folder: RunsFolder = None,
    json: Json = False,
) -> None:
    """List the runs and their results, or show one run in detail."""
    filters = {"dataset": dataset, "loss": loss, "noise": noise, "status": status}
    given: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    with plain_errors():
        given |= _as_recorded(given)
        if set_:
            read = (read_as_trained(text, loss) for text in set_)
            given["settings"] = {key: comparable(value) for key, value in read}
        if context.invoked_subcommand is not None:
            if given or limit is not None:
                raise ValueError("filters apply to the list of runs; leave them out to show one run")
            return
        with _store(folder) as store:
            _list(store, given, limit, json)


@app.command()
def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of a run, or the beginning of it.")],
    folder: RunsFolder = None,
    json: Json = False,
) -> None:
    """Show one run in detail; you can leave out the word show."""
    # Options may stand before the name too.
    before = context.parent.params if context.parent is not None else {}
    with plain_errors(), _store(folder or before.get("folder")) as store:
        record = store.get(run)
        if json or before.get("json"):
            typer.echo(as_json(_as_data(record, store.folder)))
        else:
            from noiseproof.command_line.run_page import print_page

            print_page(record, store.folder, open_console())


@app.command()
def compare(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="A", help="Name of a run, or the beginning of it.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The run to compare it with.")],
    folder: RunsFolder = None,
    json: Json = False,
) -> None:
    """Show what differs between two runs: config, environment and results."""
    before = context.parent.params if context.parent is not None else {}
    with plain_errors(), _store(folder or before.get("folder")) as store:
        from noiseproof.results.differences import differences

        one, other = store.get(first), store.get(second)
        found = differences(one, other)
        if json or before.get("json"):
            typer.echo(
                as_json({"first": one.id, "second": other.id, "differences": [vars(each) for each in found]})
            )
        else:
            _print_differences(one, other, found)


@app.command()
def delete(
    context: typer.Context,
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Names of runs, or beginnings of them.")],
    folder: RunsFolder = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete runs with their records, checkpoints and weights."""
    from noiseproof.training.run_lock import RunIsLocked, locked

    before = context.parent.params if context.parent is not None else {}
    with plain_errors(), _store(folder or before.get("folder")) as store:
        names = list(dict.fromkeys(store.get(run, epochs=False).id for run in runs))
        if not yes:
            typer.echo("\n".join(printable(name) for name in names))
            typer.confirm(
                f"Delete {'this run' if len(names) == 1 else f'these {len(names)} runs'}?", abort=True
            )
        for name in names:
            try:
                with locked(store.folder, name):
                    # Files first: a checkpoint left behind by a kill in between would be gone on from.
                    shutil.rmtree(store.folder / name, ignore_errors=not (store.folder / name).exists())
                    store.delete(name)
            except RunIsLocked as error:
                raise ValueError(str(error)) from None
            typer.echo(f"Deleted {printable(name)}.")


def _print_differences(first: "RunRecord", second: "RunRecord", found: "list[Difference]") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for record in (first, second):
        table.add_column(Text(printable(record.id)), overflow="fold")
    table.add_column("difference", justify="right", no_wrap=True)
    part = ""
    for each in found:
        if each.part != part:
            part = each.part
            table.add_section()
            table.add_row(Text(part, style="bold"), "", "", "")
        table.add_row(
            Text(f"  {printable(each.name)}"),
            Text(_value(each.first)),
            Text(_value(each.second)),
            _change(each.first, each.second),
        )
    console = open_console()
    console.print(table)
    if not any(each.part == "config" for each in found):
        console.print("The configs are the same.", highlight=False)


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return printable(str(value))


def _change(first: Any, second: Any) -> str:
    """Second − first, of numbers."""
    numbers = [v for v in (first, second) if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < 2 or numbers[0] == numbers[1]:
        return ""
    return f"{numbers[1] - numbers[0]:+.4g}"


def _store(folder: Path | None) -> "Store":
    from noiseproof.training.store import Store, default_folder

    return Store(default_folder() if folder is None else folder)


def _list(store: "Store", filters: dict[str, Any], limit: int | None, json: bool) -> None:
    if json:
        records = _selected(store, filters, limit)
        typer.echo(as_json([_as_data(record, store.folder) for record in records]))
        return
    shown = LISTED if limit is None else limit
    records = _selected(store, filters, shown + 1)
    if records:
        _print_table(records[:shown], store.folder)
        if len(records) > shown:
            typer.echo(f"Only the newest {shown} are shown; use --limit for more.")
    elif filters and store.runs(limit=1):
        settings = filters.pop("settings", {})
        asked = ", ".join(f"{name} {value}" for name, value in (filters | settings).items())
        typer.echo(f"No run matches {asked}; {store.folder} has other runs.")
    else:
        typer.echo(NO_RUNS)
        typer.echo(f"(Looked in {store.folder}.)")


def _as_recorded(given: dict[str, Any]) -> dict[str, str]:
    """Loss and noise as ``train`` writes them into a config; what it does not know is looked for as it is."""
    found = {}
    if "loss" in given:
        from noiseproof.losses import record

        with suppress(ValueError):
            found["loss"] = record(given["loss"]).name
    if "noise" in given:
        from noiseproof.noise import parse_name

        with suppress(ValueError):
            found["noise"] = str(parse_name(given["noise"]))
    return found


def _selected(store: "Store", filters: dict[str, Any], limit: int | None) -> "list[RunRecord]":
    """Runs as asked for, where a run whose process is gone counts as interrupted, not as running."""
    others: Any = {name: value for name, value in filters.items() if name not in ("status", "settings")}
    status, settings = filters.get("status"), filters.get("settings", {})
    if status in ("running", "interrupted"):
        records = [each for each in store.runs(**others) if state(each, store.folder) == status]
    elif settings:
        records = store.runs(status=status, **others)
    else:
        return store.runs(status=status, limit=limit, **others)
    return [each for each in records if has_settings(each, settings)][:limit]


def state(record: "RunRecord", folder: Path) -> str:
    """A run's status, seen from outside: one that was killed could not say that it stopped."""
    if record.status == "running" and not _at_work(record, folder):
        return "interrupted"
    return record.status


def _at_work(record: "RunRecord", folder: Path) -> bool:
    from noiseproof.training.run_lock import holder

    return record.status == "running" and holder(folder, record.id) is not None


COLUMNS = (
    "run",
    "data",
    "noise",
    "loss",
    "seed",
    "epochs",
    "test",
    "best (epoch)",
    "status",
    "started (UTC)",
    "time",
)
OWN_DATA = ("folder:", "csv:")
"""How names of the user's own data begin, as in datasets.identity, which imports NumPy."""
AS_GIVEN = "none added"
"""For one's own data, whose labels nobody calls clean."""
RIGHT_ALIGNED = ("seed", "epochs", "test", "best (epoch)", "time")
TOLD_APART = "settings"
LEFT_OUT = (("data", "noise", "loss", "seed"), ("time",), ("started (UTC)",), (TOLD_APART,))
"""Columns that a narrow terminal goes without, least missed first: a run's name says what it was trained on."""


def _print_table(records: "list[RunRecord]", folder: Path) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = [_cells(record, folder) for record in records]
    apart = told_apart(records)
    if any(apart):
        rows = [_with_settings(row, text) for row, text in zip(rows, apart, strict=True)]
    console = open_console()
    columns = fitting(rows, console.width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(
            column,
            style="bold" if column == "run" else "",
            justify="right" if column in RIGHT_ALIGNED else "left",
            overflow="fold",
            no_wrap=column != "run",
        )
    for row in rows:
        table.add_row(*(Text(row[column]) for column in columns))  # Text, not str: nothing in it is markup
    console.print(table)
    console.print(LEGEND, highlight=False)
    console.print("Details of one run: noiseproof runs RUN", highlight=False)


def _cells(record: "RunRecord", folder: Path) -> dict[str, str]:
    from noiseproof.training.run_names import shown_noise

    progress = record.progress
    noise = shown_noise(record.config.get("noise", ""))
    if noise == "clean" and str(record.config.get("dataset", "")).startswith(OWN_DATA):
        noise = AS_GIVEN
    config = {**record.config, "noise": noise}
    cells = (
        record.id,
        *(printable(str(config.get(key, ""))) for key in ("dataset", "noise", "loss", "seed")),
        f"{progress.epochs}/{printable(str(config.get('epochs', '?')))}",
        percent((record.result or {}).get("test_dice", progress.last_accuracy)),
        best(record),
        state(record, folder),
        record.started[:16].replace("T", " "),
        duration(record.seconds),
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _with_settings(row: dict[str, str], text: str) -> dict[str, str]:
    cells = list(row.items())
    after = COLUMNS.index("seed") + 1
    return dict([*cells[:after], (TOLD_APART, text), *cells[after:]])


def fitting(rows: list[dict[str, str]], width: int) -> list[str]:
    """Return the columns that fit into ``width``, more of them the wider it is.

    >>> row = dict.fromkeys(COLUMNS, "x" * 10)
    >>> fitting([row], 200) == list(COLUMNS), fitting([row], 80)
    (True, ['run', 'epochs', 'test', 'best (epoch)', 'status'])
    """
    columns = list(rows[0])
    for group in LEFT_OUT:
        if sum(3 + max(len(column), *(len(row[column]) for row in rows)) for column in columns) <= width:
            break
        columns = [column for column in columns if column not in group]
    return columns


def best(record: "RunRecord") -> str:
    """The best accuracy and its epoch, counted from 1 as people do."""
    progress = record.progress
    if progress.best_accuracy_epoch is None:
        return ""
    return f"{percent(progress.best_accuracy)} ({progress.best_accuracy_epoch + 1})"


def _as_data(record: "RunRecord", folder: Path) -> dict[str, Any]:
    # Not dataclasses.asdict: it copies every value, which a long list would feel.
    return vars(record) | {"progress": vars(record.progress), "at_work": _at_work(record, folder)}
