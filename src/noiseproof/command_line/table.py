# SPDX-License-Identifier: Apache-2.0
"""``noiseproof table``: a grid's recorded runs as a table, beside the paper's numbers."""

import shlex
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    read_selection,
    read_setting,
    require_results_files,
)
from noiseproof.command_line.terminal import open_console, printable

if TYPE_CHECKING:
    from rich.text import Text

    from noiseproof.grids import Grid
    from noiseproof.results import Gathered, ResultTable, TableCell

EPILOG = """
Runs are read from the runs folder (NOISEPROOF_RUNS, or runs in the current folder), or from a results file.

[bold]Examples[/bold]

  noiseproof table cifar10-table

  noiseproof table cifar10-table --from results/cifar10-table.jsonl --format markdown

  noiseproof table cifar10-table --format latex --out table.tex

  noiseproof table digits-table --methods ce,apl,anl-ce --noise sym-0.4,sym-0.6 --format latex

  noiseproof table my-grid.toml --format csv --no-published

  noiseproof table my-grid.toml --set epochs=30 --precision float32   runs trained with these options
"""


class Format(StrEnum):
    """How the table is written."""

    terminal = "terminal"
    markdown = "markdown"
    csv = "csv"
    latex = "latex"


def table(
    grid: GridName,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.terminal,
    from_files: FromFiles = None,
    methods: OnlyMethods = None,
    noise: OnlyNoises = None,
    seeds: OnlySeeds = None,
    published: Annotated[bool, typer.Option(help="Show the paper's numbers, if it has any.")] = True,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write to this file instead of the screen.")
    ] = None,
    set_: OtherSettings = None,
    precision: OtherPrecision = None,
    folder: RunsFolder = None,
) -> None:
    """Print the results of a grid: mean ± standard deviation over seeds, ranks, difference from the paper."""
    from noiseproof.datasets.cache import replacing_file
    from noiseproof.results import TEXT_FORMATS, table_of

    with plain_errors():
        gathered = gather_runs(grid, from_files, folder, set_, precision, (methods, noise, seeds))
        made = table_of(gathered)
        if format is not Format.terminal:
            text = TEXT_FORMATS[format.value](made, published)
            if out is None:
                typer.echo(text, nl=False)
            else:
                out.parent.mkdir(parents=True, exist_ok=True)
                with replacing_file(out) as file:
                    file.write(text.encode())
        elif out is None:
            print_table(made, published)
        else:
            raise ValueError("--out: expected a format for files; add --format markdown, csv or latex")


def gather_runs(
    grid: str,
    files: list[Path] | None,
    folder: Path | None,
    settings: list[str] | None = None,
    precision: str | None = None,
    selection: tuple[str | None, str | None, str | None] = (None, None, None),
) -> "Gathered":
    """Find a grid's runs where the user says: in files, in a folder, or in the usual folder if neither is given.

    Args:
        grid: a grid's name or file.
        files: results files.
        folder: a runs folder.
        settings: what bench was told with ``--set``.
        precision: what it was told with ``--precision``.
        selection: what it was told with ``--methods``, ``--noise`` and ``--seeds``.

    Raises:
        ValueError: none is recorded there.
    """
    from noiseproof.grids import load
    from noiseproof.results import gather
    from noiseproof.training.store import default_folder

    said = dict(read_setting(text) for text in settings or ())
    said |= {} if precision is None else {"precision": precision}
    loaded = load(grid).narrowed(*read_selection(*selection), settings=said)
    write_one = shlex.join(["noiseproof", "bench", grid, "--records", "FILE"])
    require_results_files(files or (), f"{write_one} writes one; without --from, the runs folder is read")
    if not files and folder is None:
        folder = default_folder()
    gathered = gather(loaded, folder=folder, files=files or ())
    # Lines of a file that are no part of what was chosen; without a choice they are shown, too.
    chosen = {
        what: said is not None for what, said in zip(("methods", "noises", "seeds"), selection, strict=True)
    }
    gathered = gathered.only_of_the_grid(**chosen)
    if not gathered.results:
        places = " and ".join(map(str, [*(files or ()), *([folder] if folder is not None else [])]))
        failed = f"; {len(gathered.failures)} failed" if gathered.failures else ""
        other = None if folder is None else _runs_with_other_settings(loaded, folder)
        raise ValueError(
            f"no finished run of {loaded.name} in {places}{failed}; {other or _command_to_train(grid, loaded)}"
        )
    return gathered


def _command_to_train(name: str, grid: "Grid") -> str:
    from noiseproof.report.command import options_of

    return f"train some with: {shlex.join(['noiseproof', 'bench', name, *options_of(grid.overrides)])}"


def _runs_with_other_settings(grid: "Grid", folder: Path) -> str | None:
    """How to find runs that bench trained with settings other than those that were said here; None without any."""
    from noiseproof.grids.other_runs import other_runs
    from noiseproof.report.command import options_of

    other = other_runs(grid, folder)
    if not other.count:
        return None
    has = "1 finished run there has" if other.count == 1 else f"{other.count} finished runs there have"
    told = f"{has} the same data, losses and noises, but other settings or seeds"
    if other.found:
        return f"{told}; {other.found} of them can be read with: {shlex.join(options_of(other.settings))}"
    return f"{told}; let bench write them to a file with --records FILE, and read that with --from FILE"


def print_table(made: "ResultTable", with_published: bool = True) -> None:
    """Print a table as wide as the terminal, in several parts where it is too narrow for all columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = open_console()
    with_published = with_published and made.has_published
    cells = {key: _cell(cell, with_published) for key, cell in made.cells.items()}
    labels = {method: printable(method) for method in made.methods}
    ranks = {method: made.mean_rank(method) for method in made.methods}
    console.print(Text(printable(made.title), style="bold"))
    for noises in _parts(made, cells, console.width):
        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=False)
        shown.add_column("method", style="bold", no_wrap=True)
        for noise in noises:
            shown.add_column(Text(printable(noise)), justify="right", no_wrap=True)
        shown.add_column("rank", justify="right", no_wrap=True)
        for method in made.methods:
            rank = ranks[method]
            shown.add_row(
                Text(labels[method]),
                *(cells[method, noise] for noise in noises),
                "" if rank is None else f"{rank:.1f}",
            )
        console.print(shown)
    if with_published:
        within, judged = made.verdicts
        console.print(
            Text.assemble(
                "Second line: the paper's number and our difference from it, ",
                ("green", "green"),
                " if within the published spread, ",
                ("red!", "red"),
                f" if outside it. {within} of {judged} cells are within it.",
            )
        )
    for rule in made.rules(with_published):
        console.print(Text(rule))


def _parts(
    made: "ResultTable", cells: "dict[tuple[str, str], Text]", width: int
) -> Iterator[tuple[str, ...]]:
    """Columns in parts that fit side by side."""
    left = width - max(len(printable(method)) for method in made.methods) - len("rank") - 6
    part: list[str] = []
    used = 0
    for noise in made.noises:
        lines = [line for method in made.methods for line in cells[method, noise].plain.split("\n")]
        needed = 3 + max(len(line) for line in [noise, *lines])
        if part and used + needed > left:
            yield tuple(part)
            part, used = [], 0
        part.append(noise)
        used += needed
    yield tuple(part)


def _cell(cell: "TableCell", with_published: bool) -> "Text":
    from rich.text import Text

    text = Text("–") if cell.ours is None else Text(str(cell.ours), style="bold" if cell.is_bold else "")
    if with_published and cell.published is not None:
        text.append(f"\n{cell.published.mean:.2f}", style="dim not bold")
        if cell.difference is not None:
            outside = cell.verdict == "outside"  # the mark tells it without colours too
            text.append(
                f" {cell.difference:+.2f}{'!' if outside else ' '}",
                style=f"{'red' if outside else 'green'} not bold",
            )
    return text
