"""One self-contained HTML page about some runs: no network, works from disk."""

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseproof.report.command import command_of
from noiseproof.report.curves import accuracy_curves

if TYPE_CHECKING:
    from noiseproof.training.store import RunRecord


def write_page(records: "Sequence[RunRecord]", path: Path, title: str, introduction: str = "") -> None:
    """Write the page; all text from configs and data is escaped.

    Args:
        records: finished runs, with their epochs.
        path: file to write, whole or not at all.
        title: heading of the page.
        introduction: a sentence or two below it.
    """
    import jinja2

    template = (resources.files("noiseproof.report") / "templates" / "page.html").read_text()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    text = environment.from_string(template).render(
        title=title,
        introduction=introduction,
        rows=[_row(record) for record in records],
        curves=accuracy_curves(records),
        environment=records[0].environment,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _row(record: "RunRecord") -> dict[str, Any]:
    last = record.epochs[-1]
    result = record.result or {}
    return {
        "loss": record.config["loss"],
        "test": last.get("test_accuracy"),
        "best": result.get("best_test_accuracy"),
        "best_epoch": result.get("best_epoch"),
        "clean": last.get("clean_accuracy"),
        "flipped": last.get("flipped_accuracy"),
        "seconds": record.seconds,
        "parameters": ", ".join(f"{k}={_short(v)}" for k, v in record.config["loss_parameters"].items()),
        "l1": record.config["l1"],
        "weight_decay": record.config["weight_decay"],
        "noise": f"{record.config['noise']} ({100 * record.noise['realised_rate']:.1f}% wrong)",
        "id": record.id,
        "command": command_of(record),
    }


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
