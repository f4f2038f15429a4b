# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML page about the runs of a grid: no network, works from disk, the same runs give the same
page."""

import base64
import hashlib
import shlex
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from noiseproof.datasets.cache import replacing_file
from noiseproof.durations import duration
from noiseproof.report.command import options_of
from noiseproof.report.figures import draw_all
from noiseproof.report.noise_maps import noise_facts
from noiseproof.report.sections import anchors, cost, losing_runs, machines_of, run_rows, settings_of
from noiseproof.report.words import words_of
from noiseproof.results import Gathered, ResultTable, published_source, table_of


def write_report(
    gathered: Gathered,
    path: Path,
    *,
    title: str | None = None,
    introduction: str = "",
    grid_argument: str | None = None,
    part_of_grid: Sequence[str] = (),
    command: str | None = None,
    price_per_hour: float | None = None,
) -> None:
    """Write the page about a grid's recorded runs; all text from configs, labels and files is escaped.

    Args:
        gathered: the runs.
        path: file to write, whole or not at all.
        title: heading; the grid's title by default.
        introduction: a sentence or two below it.
        grid_argument: how the user names the grid in commands; its name by default.
        part_of_grid: the options that choose a part of it, such as ``--methods ce``.
        command: what repeats all of it, where that is not ``noiseproof bench GRID`` with the grid's overrides.
        price_per_hour: what an hour of the machine costs, to state each run's cost.
    """
    if not gathered.results:
        raise ValueError("results: expected at least one finished run to report on, got none")
    if price_per_hour is not None and not price_per_hour >= 0:
        raise ValueError(f"price_per_hour: expected a number from 0, got {price_per_hour!r}")
    grid = gathered.grid
    words = ["noiseproof", "bench", grid_argument or grid.name, *part_of_grid, *options_of(grid.overrides)]
    bench = None if command else shlex.join(words)
    text = _render(gathered, title or grid.title, introduction, bench, command or bench or "", price_per_hour)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path) as file:
        file.write(text.encode())


def _render(
    gathered: Gathered,
    title: str,
    introduction: str,
    bench: str | None,
    command: str,
    price_per_hour: float | None,
) -> str:
    import jinja2

    table = table_of(gathered)
    places = anchors(table.methods, table.noises)
    machines, letters = machines_of(gathered.results)
    rows = run_rows(gathered, places, letters, bench, command, price_per_hour)
    seconds = sum(result.seconds or 0.0 for result in gathered.results)
    reference = table.reference() if len(table.methods) > 1 else None
    comparisons = table.comparisons(reference) if reference else {}
    script = _resource("report.js")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_resource),
    )
    environment.filters |= {"duration": duration, "signed": signed, "points": points, "shares": shares}
    page = environment.get_template("report.html")
    return page.render(
        title=title,
        introduction=introduction,
        grid=gathered.grid,
        table=table,
        places=places,
        shown_runs={key for key, cell in table.cells.items() if cell.results},
        tiles=_tiles(gathered, table, seconds, price_per_hour),
        reference=reference,
        comparisons=comparisons if any(each.has_interval for each in comparisons.values()) else {},
        losing=losing_runs(gathered.results),
        drawings=draw_all(gathered),
        words=words_of(gathered.results),
        noises=(noises := noise_facts(gathered.results, table.noises)),
        drawn={each.drawn for each in noises if each.drawn},
        settings=settings_of(gathered.results),
        machines=machines,
        rows=rows,
        has_variants=any(row.variant for row in rows),
        has_per_image=any(row.per_image is not None for row in rows),
        failures=gathered.failures,
        missing=gathered.missing,
        price_per_hour=price_per_hour,
        command=command,
        published_source=published_source(),
        style=_resource("report.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _resource(name: str) -> str:
    return (resources.files("noiseproof.report") / "templates" / name).read_text(encoding="utf-8")


def _tiles(
    gathered: Gathered, table: ResultTable, seconds: float, price_per_hour: float | None
) -> list[tuple[str, str]]:
    """The page in a few numbers."""
    tiles: list[tuple[str, Any]] = []
    recorded = gathered.expected - gathered.missing
    tiles.append(
        (f"{recorded} of {gathered.expected}" if gathered.missing else str(recorded), "runs recorded")
    )
    within, judged = table.verdicts
    if judged:
        tiles.append((f"{within} of {judged}", "cells within the published spread"))
    reference = table.reference() if len(table.methods) > 1 else None
    rank = table.mean_rank(reference) if reference else None
    if reference and rank is not None:
        columns = len(table.whole_columns)
        words = "best mean" if columns == 1 else f"best mean rank, {rank:.1f} over {columns} noises"
        tiles.append((reference, words))
    if seconds:
        tiles.append((duration(seconds), "computing time"))
        if price_per_hour is not None:
            words = f"cost at {price_per_hour:g} per hour"
            tiles.append((f"{cost(seconds, price_per_hour):,.2f}", words))
    return tiles


def signed(value: float) -> str:
    """A difference with its sign, and a true minus.

    >>> signed(1.5), signed(-0.25)
    ('+1.50', '−0.25')
    """
    return f"{value:+.2f}".replace("-", "−")


def points(value: float | None, digits: int = 2) -> str:
    """A percentage without its sign, or a dash."""
    return "–" if value is None else f"{value:.{digits}f}"


def shares(lowest_and_highest: tuple[float, float]) -> str:
    """Shares from the lowest to the highest, in percent.

    >>> shares((0.125, 0.125)), shares((0.1, 0.125))
    ('12.50%', '10.00–12.50%')
    """
    lowest, highest = (f"{100 * share:.2f}" for share in lowest_and_highest)
    return f"{lowest}%" if lowest == highest else f"{lowest}–{highest}%"
