# SPDX-License-Identifier: Apache-2.0
"""``noiseproof models``: the networks as a table, or one of them explained."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line.failures import fail
from noiseproof.command_line.options import Json
from noiseproof.command_line.terminal import as_json, open_console

if TYPE_CHECKING:
    from rich.console import Console

    from noiseproof.models import ModelRecord

PIPED_WIDTH = 150
"""Columns where there is no terminal to ask."""

NUM_CLASSES = 10
"""Classes for which parameters are counted."""

EPILOG = """
[bold]Examples[/bold]

  noiseproof models                     every network in one table

  noiseproof models resnet34-cifar      one network: structure, options, how to use it

  noiseproof models timm:convnext_tiny  a network from timm, if that is installed

  noiseproof models --json              all networks as JSON, for programs
"""


def models(
    name: Annotated[str | None, typer.Argument(help="The network to explain, e.g. cnn8.")] = None,
    json: Json = False,
) -> None:
    """List the networks, or explain one."""
    from noiseproof.models import available, record

    try:
        records = [record(each) for each in ((name,) if name else (*available(), *available("segmentation")))]
    except (ValueError, ImportError) as error:
        fail(error)
    if json:
        typer.echo(as_json([_as_data(each) for each in records]))
    elif name:
        _explain(records[0], open_console(PIPED_WIDTH))
    else:
        _list(records, open_console(PIPED_WIDTH))


def _list(records: "list[ModelRecord]", console: "Console") -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("made for", no_wrap=True)
    for each in records:
        cells = (each.name, each.title, _parameters(each), expected_input(each))
        table.add_row(*map(escape, cells))
    console.print(table)
    console.print(
        f"Parameters are counted for {NUM_CLASSES} classes. Details: noiseproof models NAME. "
        "If timm is installed, timm:NAME is any of its models."
    )


def _explain(record: "ModelRecord", console: "Console") -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{escape(record.name)}[/bold]: {escape(record.title)}\n")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    for heading, text in (
        ("description", record.description),
        ("made for", expected_input(record)),
        ("task", record.task),
        ("parameters", f"{_parameters(record)} for {NUM_CLASSES} classes"),
        ("initialisation", record.initialization),
        ("options", ", ".join(f"{k}={v}" for k, v in record.options.items())),
        ("paper", record.paper),
    ):
        if text:
            facts.add_row(heading, escape(text))
    console.print(facts)
    console.print("\n[bold]Example[/bold]")
    console.print(escape(example(record)), highlight=False)


def _parameters(record: "ModelRecord") -> str:
    """How many there are; a dash for a network that a missing package would make."""
    try:
        return f"{record.parameters(NUM_CLASSES):,}"
    except ImportError:
        return "–"


def expected_input(record: "ModelRecord") -> str:
    """Height, width and channels of the images a model is made for, in words."""
    channels = "1 channel" if record.in_channels == 1 else f"{record.in_channels} channels"
    tables = " or tables" if "in_features" in record.options else ""
    return f"{record.image_size}x{record.image_size}, {channels}{tables}"


def example(record: "ModelRecord") -> str:
    """Lines of Python that use the model."""
    return "\n".join(
        (
            "  from noiseproof import models",
            f'  model = models.create("{record.name}", num_classes={NUM_CLASSES}, seed=1)',
            "  logits = model(images)",
        )
    )


def _as_data(record: "ModelRecord") -> dict[str, Any]:
    counted = _parameters(record)
    return {
        "name": record.name,
        "title": record.title,
        "description": record.description,
        "paper": record.paper,
        "image_size": record.image_size,
        "in_channels": record.in_channels,
        "initialization": record.initialization,
        "options": record.options,
        "task": record.task,
        "parameters": int(counted.replace(",", "")) if counted != "–" else None,
    }
