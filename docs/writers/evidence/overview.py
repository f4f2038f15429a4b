# SPDX-License-Identifier: Apache-2.0
"""What each grid takes: its command, runs, machine and time, measured or expected from similar runs."""

from collections import Counter
from collections.abc import Iterable

from noiseproof.durations import duration
from noiseproof.grids import Grid, load, names
from noiseproof.results import Gathered, Result, table_of
from noiseproof.results.formats import markdown_text


def overview(
    entries: Iterable[tuple[str, str]], gathered: dict[str, Gathered], records: dict[str, list[Result]]
) -> list[str]:
    """One line per grid.

    Args:
        entries: titles, and names of grids.
        gathered: the recorded runs of each grid that has any.
        records: the lines of every results file by its stem, which also tell the pace of grids without runs.
    """
    lines = [
        "| what | command | runs | machine | time for all runs | our results |",
        "|---|---|---|---|---|---|",
    ]
    for title, name in entries:
        if name not in names():
            lines.append(f"| {markdown_text(title)} | – | – | – | – | not available yet |")
            continue
        grid = load(name)
        runs = len(grid.methods) * len(grid.noises) * len(grid.seeds)
        machine, time = expected(grid, gathered.get(name), records)
        lines.append(
            f"| {markdown_text(title)} | `noiseproof bench {name}` | {runs} | {machine} | {time} | "
            f"{_outcome(gathered.get(name))} |"
        )
    return lines


Kind = tuple[str | None, bool]
"""What decides how fast a run is on given data: its precision, and whether it computes a Jacobian."""


def expected(grid: Grid, found: Gathered | None, records: dict[str, list[Result]]) -> tuple[str, str]:
    """Machine and time: measured if the grid was run, else estimated from similar runs, its own or other grids'."""
    if found and not found.missing:
        return _machines(found.results), duration(sum(result.seconds or 0.0 for result in found.results))
    machine = _usual_machine(records, grid.dataset)
    timed: dict[Kind, list[Result]] = {}
    sources: dict[Kind, str] = {}
    for stem in (grid.name, *names()):  # grids only: other records may be from another engine
        for kind, alike in _by_kind(records.get(stem, ()), grid.dataset, machine).items():
            if sources.get(kind) != "its runs so far" and len(alike) > len(timed.get(kind, ())):
                timed[kind] = alike
                sources[kind] = "its runs so far" if stem == grid.name else f"`{stem}.jsonl`"
    seconds, used, untimed = 0.0, dict[Kind, None](), 0
    for cell in grid.cells():
        kind = cell.config.precision, bool(cell.config.jacobian)
        if kind not in timed:
            untimed += 1
            continue
        used[kind] = None
        an_epoch = sum(each.seconds or 0.0 for each in timed[kind]) / sum(map(_epochs, timed[kind]))
        seconds += an_epoch * cell.config.epochs
    if not used:
        return "–", "not measured yet"
    machines = _machines(result for kind in used for result in timed[kind])
    pace = " and ".join(dict.fromkeys(sources[kind] for kind in used))
    text = f"about {duration(seconds)}, at the pace of {pace}"
    return machines, f"{text}; {untimed} more runs are of a kind not timed yet" if untimed else text


def _usual_machine(records: dict[str, list[Result]], dataset: str) -> str | None:
    """What most runs on this data were timed on."""
    counts = Counter(hardware_of(run) for runs in records.values() for run in runs if run.dataset == dataset)
    return counts.most_common(1)[0][0] if counts else None


def _by_kind(results: Iterable[Result], dataset: str, machine: str | None) -> dict[Kind, list[Result]]:
    """Runs on the same data timed on the same machine; those without a config are from the first engine, and say
    nothing of today's."""
    found: dict[Kind, list[Result]] = {}
    for result in results:
        if result.dataset == dataset and result.seconds and result.config and hardware_of(result) == machine:
            kind = result.config.get("precision"), bool(result.config.get("jacobian"))
            found.setdefault(kind, []).append(result)
    return found


def _epochs(result: Result) -> int:
    return int(result.config["epochs"])


def _machines(results: Iterable[Result]) -> str:
    return "; ".join(dict.fromkeys(markdown_text(hardware_of(result)) for result in results))


def hardware_of(result: Result) -> str:
    """What it ran on: the GPU's name, or the processor's if it is on record."""
    environment = result.environment
    known = str(environment.get("hardware", "not on record"))
    return str(environment.get("processor") or known) if environment.get("device") == "cpu" else known


def _outcome(found: Gathered | None) -> str:
    if found is None:
        return "not run yet"
    table = table_of(found)
    recorded = found.expected - found.missing
    text = f"[{recorded} of {found.expected} runs](#{found.grid.name})"
    within, judged = table.verdicts
    return f"{text}; {within} of {judged} cells within the published spread" if judged else text
