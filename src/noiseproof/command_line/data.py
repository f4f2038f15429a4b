# SPDX-License-Identifier: Apache-2.0
"""``noiseproof data``: list the data sets, fetch one, check it, look at it."""

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noiseproof.command_line.failures import plain_errors
from noiseproof.command_line.terminal import printable

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from noiseproof.datasets import PrefixSource, Source
    from noiseproof.datasets.check import Report

app = typer.Typer(
    help="List, download, check and view data sets.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog="The cache folder is NOISEPROOF_DATA, or the platform's cache folder if that is not set.\n\n"
    "[bold]Examples[/bold]\n\n"
    "noiseproof data list\n\n"
    "noiseproof data get cifar10\n\n"
    "noiseproof data check cifar10\n\n"
    "noiseproof data show digits --out digits.png",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from noiseproof data list.")]
Root = Annotated[
    Path | None,
    typer.Option("--root", metavar="FOLDER", help="Cache folder, instead of NOISEPROOF_DATA."),
]

ImageSize = Annotated[
    int | None,
    typer.Option(
        "--image-size",
        min=1,
        max=10_000,
        help="Resize your own images and masks to squares of this size, if their sizes differ.",
    ),
]


def _print_table(table: "Table") -> None:
    from rich.console import Console

    Console().print(table)


@app.command(
    "list",
    epilog="[bold]Examples[/bold]\n\nnoiseproof data list\n\nnoiseproof data list cifar100",
)
def list_sets(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Describe this data set: source, what --from takes, licence."),
    ] = None,
    root: Root = None,
) -> None:
    """List the data sets and whether they are in the cache; with NAME, describe one."""
    from rich.table import Table

    from noiseproof import datasets
    from noiseproof.datasets import cache, registry

    with plain_errors():
        if name is not None:
            prefix = name.partition(":")[0]
            for own in datasets.prefix_sources():
                if own.prefix == prefix:
                    _describe_own(own)
                    return
            _describe(registry.find(name), root)
            return
        table = Table(header_style="bold")
        table.add_column("name", overflow="fold", no_wrap=False)
        for heading in ("what it is", "form", "in the cache"):
            table.add_column(heading)
        for source in datasets.sources():
            table.add_row(source.name, source.description, source.form, _state(source, root))
        for own in datasets.prefix_sources():
            table.add_row(own.form, own.description, own.where, "")
        _print_table(table)
        typer.echo(f"Cache folder: {cache.folder_of('any', root).parent}")
        typer.echo("Where a data set comes from, and what --from takes: noiseproof data list NAME")


def _describe(source: "Source", root: Path | None) -> None:
    from rich.table import Table

    from noiseproof.datasets import cache

    table = Table(show_header=False, title=source.name, title_style="bold")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_row("what it is", source.description)
    table.add_row("splits", ", ".join(source.splits))
    table.add_row("form", source.form)
    table.add_row("where", source.where)
    table.add_row("licence", source.licence or "not stated by its authors")
    table.add_row("in the cache", _state(source, root))
    if not source.embedded:
        folder = cache.folder_of(source.name, root)
        table.add_row("folder", _text(str(folder)))
        if cache.is_filled(folder):
            table.add_row("read from", _text(str(cache.manifest_of(folder)["source"])))
    _print_table(table)


def _describe_own(own: "PrefixSource") -> None:
    """What a reader of the user's own data takes, which its module says best."""
    import inspect
    import re
    import sys

    typer.echo(f"{own.form}: {own.description}; {own.where}.\n")
    text = inspect.cleandoc(sys.modules[own.read.__module__].__doc__ or "").partition("\n\n")[2]
    text = re.sub(r":\w+:`", "`", text).replace("``", "`").replace("::\n", ":\n")
    typer.echo(text)


def _text(text: str) -> "Text":
    """Text of which nothing is markup, and nothing steers the terminal: class names may come from anywhere."""
    from rich.text import Text

    return Text("\n".join(map(printable, text.split("\n"))))


def _state(source: "Source", root: Path | None) -> str:
    from noiseproof.datasets import cache

    if source.embedded:
        return "built in"
    folder = cache.folder_of(source.name, root)
    return f"{_megabytes(folder)} MB" if cache.is_filled(folder) else "no"


def _megabytes(folder: Path) -> str:
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return f"{size / 1e6:,.1f}"


@app.command(
    epilog="[bold]Examples[/bold]\n\n"
    "noiseproof data get fashion-mnist\n\n"
    "noiseproof data get cifar10 --from ~/Downloads/cifar-10-python.tar.gz\n\n"
    "noiseproof data get cifar10n --from CIFAR-10_human.pt",
)
def get(
    name: Name,
    origin: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="PATH", help="Read it from this folder or file instead of downloading it."
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Get it again even if it is in the cache.")] = False,
    root: Root = None,
) -> None:
    """Download a data set, or import it from local files; one that is already in the cache is left alone."""
    from noiseproof import datasets
    from noiseproof.datasets import cache, registry

    with plain_errors():
        source = registry.find(name) if ":" not in name else None
        was_here = cache.is_filled(cache.folder_of(name, root)) and origin is None and not again
        folder = datasets.get(name, source_folder=origin, root=root, again=again)
        if source is not None and source.embedded:
            typer.echo(f"{name}: {source.where}")
            return
        state = "already in the cache" if was_here else "ready"
        typer.echo(f"{name}: {state}, {_megabytes(folder)} MB in {folder}")
        if source is not None and source.licence:
            typer.echo(f"Licence: {source.licence}")


@app.command(
    epilog="[bold]Examples[/bold]\n\nnoiseproof data check cifar10\n\nnoiseproof data check folder:photos\n\n"
    "noiseproof data check folder:photos --readable photos.csv\n\nnoiseproof train csv:photos.csv"
)
def check(
    name: Name,
    readable: Annotated[
        Path | None,
        typer.Option(
            "--readable",
            metavar="FILE.csv",
            help="Write a list of the readable images, to use as csv:FILE.csv.",
        ),
    ] = None,
    image_size: ImageSize = None,
    root: Root = None,
) -> None:
    """Check counts, image files, labels, class balance, duplicates and checksums; exit with 1 after a fault."""
    from rich.table import Table

    from noiseproof.datasets.check import check as check_set
    from noiseproof.plugins import command_name

    with plain_errors():
        report = check_set(name, root=root, side=image_size, every_file=readable is not None)
    table = Table("", "what", title=_text(name), title_style="bold", header_style="bold")
    table.add_column("found", overflow="fold")
    signs = {"fine": "[green]✓[/green]", "note": "[yellow]note[/yellow]", "fault": "[red]FAULT[/red]"}
    for finding in report.findings:
        table.add_row(signs[finding.level], _text(finding.subject), _text(finding.text))
    _print_table(table)
    if readable is not None:
        with plain_errors():
            _list_readable(name, report, readable, root, image_size)
    if not report.is_sound:
        typer.secho(f"error: {name} has faults", err=True, fg=typer.colors.RED)
        if (report.unreadable or report.strays) and readable is None:
            again = shlex.join(["data", "check", name, "--readable", "readable.csv"])
            typer.echo(f"To list the images that can be read: {command_name()} {again}", err=True)
        raise typer.Exit(1)


def _list_readable(name: str, report: "Report", path: Path, root: Path | None, side: int | None) -> None:
    """Write the list, and say what of it is not as it was."""
    from noiseproof import datasets
    from noiseproof.audit.files import write_labels
    from noiseproof.datasets.check import load_without_strays, without
    from noiseproof.datasets.errors import shortened
    from noiseproof.plugins import command_name

    splits = []
    left_out = list(report.unreadable)
    for split in ("train", "test", "validation"):
        with suppress(datasets.NoSuchSplitError):
            splits.append(load_without_strays(name, split, left_out, root=root, side=side))
    if any(data.paths is None for data in splits):
        raise datasets.DataError(
            f"--readable: expected a data set of image files, got {name}, which is arrays"
        )
    parts = [without(data, report.unreadable) for data in splits]
    if not len(parts[0]):
        raise datasets.DataError(
            f"--readable: expected readable {parts[0].split} images, found none among {len(splits[0])}"
        )
    write_labels(parts[0], parts[0].labels, path, others=parts[1:])
    train = shlex.join(["train", f"csv:{path}"])
    typer.echo(
        f"{path}: {sum(map(len, parts))} images; {len(left_out)} left out. "
        f"Train on it with: {command_name()} {train}"
    )
    now = datasets.load(f"csv:{path}", parts[0].split).class_names
    if lost := [each for each in parts[0].class_names if each not in now]:
        typer.echo(f"Classes without a readable image are not in it: {shortened(lost, 10)}")


@app.command(
    epilog="[bold]Examples[/bold]\n\n"
    "noiseproof data show digits\n\n"
    "noiseproof data show cifar100 --split test --count 100 --out sheet.png",
)
def show(
    name: Name,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="PNG file to write; by default NAME.png.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split: train, test or validation.")] = "train",
    count: Annotated[int, typer.Option(min=1, max=2000, help="Number of images.")] = 60,
    columns: Annotated[int, typer.Option(min=1, max=50, help="Images per row.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed that selects the images.")] = 0,
    image_size: ImageSize = None,
    root: Root = None,
) -> None:
    """Save a sheet of sample images with their class names as a PNG file."""
    from noiseproof import datasets
    from noiseproof.datasets import cache, sheet

    with plain_errors():
        data = datasets.load(name, split, root=root, side=image_size)
        page = sheet.draw(data, count=count, columns=columns, seed=seed)
        path = out or Path(f"{name.partition(':')[0]}.png")
        with cache.replacing_file(path) as file:
            page.save(file, format="PNG")
        typer.echo(f"{path}: {min(count, len(data))} of {len(data)} images of {name} {split}")
