# SPDX-License-Identifier: Apache-2.0
"""``noiseproof losses``: the catalogue as a table, or one loss explained."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line.failures import fail
from noiseproof.command_line.options import Json
from noiseproof.command_line.terminal import as_json, open_console

if TYPE_CHECKING:
    from rich.console import Console

    from noiseproof.losses import LossRecord

PIPED_WIDTH = 150
"""Columns where there is no terminal to ask."""

CONSTANTS = ("p_min", "p_floor", "label_floor", "detach_modulator", "across_ranks", "published")
"""Arguments that hardly anyone changes: left out of the table, shown with the loss itself."""

EPILOG = """
[bold]Examples[/bold]

  noiseproof losses                 every loss in one table

  noiseproof losses anl-ce          one loss: formula, published hyperparameters, how to use it

  noiseproof losses anl-ce --check  measure it: gradient, range, symmetry, effect of noise

  noiseproof --import mine losses nsquare --check   measure a loss of your own

  noiseproof losses --json          all losses as JSON, for programs
"""


def losses(
    name: Annotated[str | None, typer.Argument(help="The loss to explain, e.g. anl-ce.")] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Measure the loss: gradient, range, symmetry, effect of noise, options."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """List the losses, explain one, or measure how it behaves."""
    from noiseproof.losses import available, record

    try:
        names = (name,) if name else (*available(), *available(whole_images=True))
        records = [record(each) for each in names]
        if check:
            _check(records, json)
            return
    except (ValueError, TypeError) as error:
        fail(error)
    if json:
        typer.echo(as_json([_as_data(each) for each in records]))
    elif name:
        _explain(records[0], open_console(PIPED_WIDTH))
    else:
        _list(records, open_console(PIPED_WIDTH))


def _check(records: "list[LossRecord]", json: bool) -> None:
    """Print what was found of a loss; the exit status is 1 where something is wrong."""
    from dataclasses import asdict

    from rich.markup import escape
    from rich.table import Table

    from noiseproof.losses import check_loss

    if len(records) != 1:
        raise ValueError("--check: expected the name of a loss, as in noiseproof losses anl-ce --check")
    found = check_loss(records[0])
    if json:
        typer.echo(as_json([asdict(each) for each in found.findings]))
    else:
        console = open_console(PIPED_WIDTH)
        table = Table.grid(padding=(0, 2))
        table.add_column()
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        colours = {"fine": "green", "note": "yellow", "wrong": "bold red"}
        for each in found.findings:
            verdict = f"[{colours[each.verdict]}]{each.verdict}[/]"
            table.add_row(verdict, each.subject, escape(each.text))
        console.print(f"[bold]{escape(records[0].name)}[/bold]: {escape(records[0].title)}\n")
        console.print(table)
    if not found.is_fine:
        raise typer.Exit(1)


def _list(records: "list[LossRecord]", console: "Console") -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    for heading in ("formula", "range", "symmetric", "paper", "defaults"):
        table.add_column(heading, overflow="fold")
    for each in records:
        cells = (
            "\n".join((each.name, *(f"= {alias}" for alias in each.aliases))),
            each.formula,
            each.range,
            "yes" if each.symmetric else "no",
            short_citation(each.paper),
            assignments({k: v for k, v in each.defaults.items() if k not in CONSTANTS}),
        )
        table.add_row(*map(escape, cells))
    console.print(table)
    console.print(
        "p = softmax(logits), y is the given label, K the number of classes. Details: noiseproof losses NAME"
    )


def _explain(record: "LossRecord", console: "Console") -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{escape(record.name)}[/bold]: {escape(record.title)}\n")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold")
    facts.add_column(overflow="fold")
    for heading, text in (
        ("formula", record.formula),
        ("range", record.range),
        ("symmetric", "yes: the sum over all labels is constant" if record.symmetric else "no"),
        ("paper", record.paper),
        ("also called", ", ".join(record.aliases)),
        ("for", "masks only: it looks at whole images" if record.whole_images else ""),
        ("needs", record.needs),
        ("class", f"{_home(record)}.{record.module.__name__}"),
        ("function", f"{_home(record)}.{record.function.__name__}"),
        ("defaults", assignments(record.defaults) or "none"),
    ):
        if text:
            facts.add_row(heading, escape(text))
    console.print(facts)
    if record.recipes:
        console.print("\n[bold]Published hyperparameters[/bold]")
        recipes = Table.grid(padding=(0, 2))
        for recipe in record.recipes:
            recipes.add_row("", recipe, escape(recipe_text(record, recipe)))
        console.print(recipes)
    console.print("\n[bold]Example[/bold]")
    console.print(escape(example(record)), highlight=False)


def _home(record: "LossRecord") -> str:
    """The module to import a loss from: ours, or the user's own."""
    module = record.module.__module__
    return "noiseproof.losses" if module.startswith("noiseproof.") else module


def example(record: "LossRecord") -> str:
    """Lines of Python that use the loss."""
    weights = {k: v for k, v in record.defaults.items() if isinstance(v, float) and v >= 1e-3}
    home = _home(record)
    lines = [
        *([f"  import {home}  # registers it"] if home != "noiseproof.losses" else []),
        "  from noiseproof.losses import create",
        f'  loss = create("{record.name}"{"".join(f", {k}={v:g}" for k, v in weights.items())})',
    ]
    if record.recipes:
        recipe = next(iter(record.recipes))
        lines.append(f'  loss = create("{record.name}", recipe="{recipe}")     # as published')
    lines.append("  loss(model(images), labels).backward()")
    return "\n".join(lines)


def recipe_text(record: "LossRecord", recipe: str) -> str:
    """Everything that was published for a loss on a data set, on one line."""
    entry = record.recipes[recipe]
    parts = [assignments(entry.hyperparameters) or "as by default"]
    if entry.l1:
        parts.append(f"L1 δ={entry.l1:g}")
    if entry.weight_decay is not None:
        parts.append(f"weight decay {entry.weight_decay:g}")
    for other in entry.by_noise:
        rates = "" if (other.least_rate, other.below_rate) == (0.0, 1.01) else f" from {other.least_rate:g}"
        parts.append(f"{other.kind}{rates}: {assignments(other.hyperparameters)}")
    if entry.note:
        parts.append(f"({entry.note})")
    return "; ".join(parts)


def assignments(values: Any) -> str:
    """``a=1, b=2`` of a mapping."""
    return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in values.items())


def short_citation(paper: str) -> str:
    """Authors and year of a citation, or all of it where it has none."""
    authors, _, rest = paper.partition(",")
    venue = rest.rpartition(",")[2].strip()
    return f"{authors}, {venue}" if rest and venue[-4:].isdigit() else authors


def _as_data(record: "LossRecord") -> dict[str, Any]:
    return {
        "name": record.name,
        "aliases": list(record.aliases),
        "title": record.title,
        "formula": record.formula,
        "range": record.range,
        "symmetric": record.symmetric,
        "paper": record.paper,
        "class": record.module.__name__,
        "function": record.function.__name__,
        "defaults": record.defaults,
        "recipes": {
            name: {
                "hyperparameters": dict(entry.hyperparameters),
                "l1": entry.l1,
                "weight_decay": entry.weight_decay,
                "by_noise": [
                    {
                        "kind": other.kind,
                        "least_rate": other.least_rate,
                        "below_rate": min(other.below_rate, 1.0),
                        "hyperparameters": dict(other.hyperparameters),
                    }
                    for other in entry.by_noise
                ],
                "note": entry.note,
            }
            for name, entry in record.recipes.items()
        },
    }
