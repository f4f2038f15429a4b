# SPDX-License-Identifier: Apache-2.0
"""One run on one page: config, noise, environment, result, epochs, and what to do next."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseproof.command_line.runs import LEGEND, best, state
from noiseproof.command_line.terminal import mean_over, percent, printable
from noiseproof.durations import duration
from noiseproof.results import result_of_record
from noiseproof.results.lost_classes import lost_classes, named

if TYPE_CHECKING:
    from rich.console import Console

    from noiseproof.training.store import RunRecord

SHOWN_EPOCHS = 24
"""Rows of the epoch table, about a screen; all epochs are in --json."""

SHOWN_VALUES = 8
"""Values of a list that are written out."""

COLUMNS = {
    "test_accuracy": "test",
    "test_dice": "Dice",
    "test_dice_per_image": "per image",
    "train_accuracy": "train",
    "clean_accuracy": "on right labels",
    "flipped_accuracy": "on wrong labels",
    "loss": "loss",
    "gradient_norm": "gradient norm",
    "learning_rate": "learning rate",
    "seconds": "seconds",
}
"""Metrics in the epoch table, as far as a run has them."""

GIVEN = "on given labels"
"""In place of right labels, where no label is known to be wrong: nobody knows then that the others are right."""

FILES = {"weights": "weights.safetensors", "checkpoint": "checkpoint.pt"}


def print_page(record: "RunRecord", folder: Path, console: "Console") -> None:
    """Print everything about one run."""
    from rich.text import Text

    now = state(record, folder)
    console.print(Text.assemble((record.id, "bold"), f": {now}"))
    _print_facts("", _overview(record), console)
    for title, values in (
        ("Config", record.config),
        ("Noise as drawn", record.noise),
        ("Environment", record.environment),
        ("Result", record.result or {}),
    ):
        _print_facts(title, {key: readable(value) for key, value in values.items()}, console)
    if record.error is not None:
        console.print("\n[bold]Error[/bold]")
        console.print(Text("\n".join(f"  {printable(line)}" for line in record.error.splitlines())))
    _print_epochs(record, console)
    _print_facts("Files", _files(record, folder), console)
    _print_next_step(record, now, folder, console)


def _overview(record: "RunRecord") -> dict[str, str]:
    progress = record.progress
    overview = {
        "started": record.started,
        "ended": record.ended or "",
        "training": duration(record.seconds),
        "epochs": f"{progress.epochs} of {readable(record.config.get('epochs', '?'))}",
        "test": _tested(record),
        "best (epoch)": best(record),
        "classes lost": _lost(record),
        "config hash": record.config_hash,
    }
    return {key: text for key, text in overview.items() if text}


def _tested(record: "RunRecord") -> str:
    """The result; of a run that has none yet, what its last tested epoch came to."""
    progress, result = record.progress, record.result or {}
    if "test_dice" in result:
        return f"{percent(result['test_dice'])} % Dice, {mean_over(result['averaged_epochs'])}"
    if progress.last_accuracy_epoch is None:
        return ""
    dice = " Dice" if any("test_dice" in metrics for metrics in record.epochs) else ""
    return f"{percent(progress.last_accuracy)} %{dice} at epoch {progress.last_accuracy_epoch + 1}"


def _lost(record: "RunRecord") -> str:
    """Classes that a finished run hardly ever predicts."""
    if record.status != "finished" or not record.epochs:
        return ""
    return printable(named(lost_classes(result_of_record(record))))


def _print_facts(title: str, facts: Mapping[str, str], console: "Console") -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if not facts:
        return
    if title:
        console.print(f"\n[bold]{title}[/bold]")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for key, text in facts.items():
        table.add_row(Text(printable(key)), Text(text))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def readable(value: Any) -> str:
    """A value of a record on one line; long lists are cut short.

    >>> readable({"alpha": 5.0, "rates": [0.25] * 100, "name": "anl-ce"})
    'alpha=5.0, rates=[0.25, 0.25, 0.25, … 100 values], name=anl-ce'
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{printable(str(key))}={readable(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        short = len(value) <= SHOWN_VALUES
        texts = [readable(each) for each in (value if short else value[:3])]
        return f"[{', '.join(texts)}]" if short else f"[{', '.join(texts)}, … {len(value)} values]"
    return "none" if value is None else printable(str(value))


def _print_epochs(record: "RunRecord", console: "Console") -> None:
    from rich import box
    from rich.table import Table

    epochs = record.epochs
    if not epochs:
        return
    columns = [key for key in COLUMNS if any(key in metrics for metrics in epochs)]
    known = any(metrics.get("flipped_accuracy") is not None for metrics in epochs)
    headings = COLUMNS if known else COLUMNS | {"clean_accuracy": GIVEN}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("epoch", *(headings[key] for key in columns)):
        table.add_column(heading, justify="right")
    table.add_column("")
    chosen = record.progress.best_accuracy_epoch
    best_place = next((place for place, each in enumerate(epochs) if each["epoch"] == chosen), None)
    for place in thinned(len(epochs), SHOWN_EPOCHS, best_place):
        metrics = epochs[place]
        cells = [_cell(key, metrics.get(key)) for key in columns]
        table.add_row(str(metrics["epoch"] + 1), *cells, "best" if place == best_place else "")
    cut = "" if len(epochs) <= SHOWN_EPOCHS else f", {table.row_count} of {len(epochs)} (--json has all)"
    console.print(f"\n[bold]Epochs[/bold]{cut}", highlight=False)
    console.print(table)
    console.print(LEGEND, highlight=False)


def thinned(count: int, most: int, also: int | None = None) -> Sequence[int]:
    """At most ``most`` places of ``count``, evenly spread, with the first, the last and ``also`` among them.

    >>> thinned(100, 5, also=60)
    [0, 33, 60, 66, 99]
    >>> list(thinned(3, 5))
    [0, 1, 2]
    """
    if count <= most:
        return range(count)
    even = most - (also is not None)
    places = {round(step * (count - 1) / (even - 1)) for step in range(even)}
    return sorted(places | ({also} if also is not None else set()))


def _cell(key: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return ""
    if key.endswith("accuracy") or key.startswith("test_dice"):
        return percent(value)
    return f"{value:.1f}" if key == "seconds" else f"{value:.4g}"


def _files(record: "RunRecord", folder: Path) -> dict[str, str]:
    found = {what: folder / record.id / name for what, name in FILES.items()}
    return {what: printable(str(path)) for what, path in found.items() if path.is_file()}


def _print_next_step(record: "RunRecord", now: str, folder: Path, console: "Console") -> None:
    from rich.text import Text

    from noiseproof.plugins import command_name
    from noiseproof.training.run_lock import holder
    from noiseproof.training.store import default_folder

    place = "" if folder == default_folder() else f" --folder {shlex.quote(str(folder))}"
    resume = f"{printable(command_name())} train --resume {record.id}{printable(place)}"
    if now == "running":
        text = f"Being trained by {holder(folder, record.id) or 'a process that has just ended'}."
    elif record.status == "running":
        text = f"Its process ended unexpectedly, as if killed. Resume from the last checkpoint with: {resume}"
    elif now == "interrupted":
        text = f"Resume where it stopped with: {resume}"
    elif now == "failed":
        text = f"Resume from the last good checkpoint with: {resume}"
    else:
        return
    console.print()
    console.print(Text(text), soft_wrap=True)
