# SPDX-License-Identifier: Apache-2.0
"""What a page says of runs besides its table and figures: hyper-parameters, machines, and each run by itself."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noiseproof.report.command import command_of, needs_a_file
from noiseproof.results import Gathered, Result
from noiseproof.results.lost_classes import lost_classes, named

NOT_SETTINGS = ("dataset", "noise", "seed", "device", "workers", "compile", "evaluate_every")
"""Fields of a config that are columns and rows of the table, or say how and not what was computed."""

UNUSED_BY_SCHEDULE = {
    "constant": ("schedule_factor", "schedule_every", "schedule_milestones"),
    "cosine": ("schedule_factor", "schedule_every", "schedule_milestones"),
    "exponential": ("schedule_every", "schedule_milestones"),
    "step": ("schedule_milestones",),
    "milestones": ("schedule_every",),
}
"""Fields that a schedule does not read."""

UNSET: tuple[Any, ...] = (None, 0, 0.0, False, [], {}, "")
"""Values that say nothing where every run has them."""

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters: what all runs share, and what sets methods apart.

    Attributes:
        shared: field and value.
        fields: names of those that differ.
        rows: method, then its value of each; several where it depends on the noise.
        unknown: runs whose config is not on record.
        has_defaults: whether some are the defaults of a loss, which its run does not state.
    """

    shared: tuple[tuple[str, str], ...]
    fields: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    unknown: int
    has_defaults: bool = False


def settings_of(results: Sequence[Result]) -> Settings:
    """Collect the hyper-parameters of runs."""
    known = [(result, _flat(result.config)) for result in results if result.config]
    names = list(dict.fromkeys(name for _, config in known for name in config))
    values = {name: {_short(config.get(name)) for _, config in known} for name in names}
    shared = tuple(
        (name, _short(known[0][1].get(name)))
        for name in names
        if len(values[name]) == 1 and known[0][1].get(name) not in UNSET
    )
    varying = tuple(name for name in names if len(values[name]) > 1)
    rows = []
    for method in dict.fromkeys(result.method for result, _ in known):
        own = [(result, config) for result, config in known if result.method == method]
        rows.append((method, tuple(_values(own, name) for name in varying)))
    has_defaults = any(
        _defaults(result.config).keys() - result.config["loss_parameters"].keys() for result, _ in known
    )
    return Settings(shared, varying, tuple(rows), len(results) - len(known), has_defaults)


def _values(own: Sequence[tuple[Result, Mapping[str, Any]]], name: str) -> str:
    """A method's value of a field; with the noises where it has several."""
    by_value: dict[str, list[str]] = {}
    for result, config in own:
        noises = by_value.setdefault(_short(config.get(name)), [])
        if result.noise not in noises:
            noises.append(result.noise)
    if len(by_value) == 1:
        return next(iter(by_value))
    return "; ".join(f"{value} ({', '.join(noises)})" for value, noises in by_value.items())


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    unused = UNUSED_BY_SCHEDULE.get(str(config.get("schedule")), ())
    for name, value in config.items():
        if name == "loss_parameters":
            effective = _defaults(config) | dict(value)
            found |= {parameter.replace("_", " "): each for parameter, each in effective.items()}
        elif name not in NOT_SETTINGS and name not in unused:
            found[name.replace("_", " ")] = value
    return found


def _defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a config's loss is called with where nothing is said."""
    from noiseproof.losses import record

    try:
        return record(config["loss"]).defaults
    except ValueError:  # a loss that is not registered here
        return {}


def _short(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Machine:
    """Where runs were computed: a letter that each run refers to, and the facts."""

    letter: str
    hardware: str
    device: str
    versions: str
    commit: str
    runs: int
    seconds: float


@dataclass(frozen=True)
class RunRow:
    """One run in the list of runs."""

    anchor: str
    method: str
    noise: str
    seed: int
    name: str
    test: float
    per_image: float | None
    best: tuple[float, int] | None
    clean: float | None
    flipped: float | None
    rate: float | None
    seconds: float | None
    cost: float | None
    machine: str
    hash: str
    variant: str
    command: str


def losing_runs(results: Sequence[Result]) -> list[tuple[Result, str]]:
    """Runs that lost classes, each with the names of these."""
    return [(result, named(lost)) for result in results if (lost := lost_classes(result))]


def machines_of(results: Sequence[Result]) -> tuple[list[Machine], dict[int, str]]:
    """Return the machines and software that runs were computed with, and the letter of each run by its place."""
    groups: dict[str, list[int]] = {}
    for place, result in enumerate(results):
        groups.setdefault(json.dumps(_machine_facts(result), sort_keys=True), []).append(place)
    machines: list[Machine] = []
    letters: dict[int, str] = {}
    for number, (text, places) in enumerate(groups.items()):
        facts = json.loads(text)
        letter = _letter(number)
        letters |= dict.fromkeys(places, letter)
        count = facts["threads"]
        threads = f", {count} thread{'s' * (count != 1)}" if count else ""
        machines.append(
            Machine(
                letter,
                facts["hardware"],
                f"{facts['device']}{threads}",
                ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
                facts["commit"][:12],
                len(places),
                sum(results[place].seconds or 0.0 for place in places),
            )
        )
    return machines, letters


def _machine_facts(result: Result) -> dict[str, Any]:
    said = result.environment
    return {
        "hardware": str(said.get("hardware") or "not recorded"),
        "device": str(said.get("device") or "not recorded"),
        "threads": said.get("threads") if said.get("device") == "cpu" else None,
        "versions": {str(k): str(v) for k, v in (said.get("versions") or {}).items()},
        "commit": str(said.get("commit") or ""),
    }


def _letter(number: int) -> str:
    """A, B, …, Z, AA, AB, …"""
    text = ""
    while True:
        text = chr(ord("A") + number % 26) + text
        number = number // 26 - 1
        if number < 0:
            return text


def anchors(methods: Sequence[str], noises: Sequence[str]) -> dict[tuple[str, str], str]:
    """Where the runs of each cell of the table stand in the list."""
    return {
        (method, noise): f"runs-{row}-{column}"
        for row, method in enumerate(methods)
        for column, noise in enumerate(noises)
    }


def run_rows(
    gathered: Gathered,
    places: Mapping[tuple[str, str], str],
    letters: Mapping[int, str],
    bench: str | None,
    command: str,
    price_per_hour: float | None,
) -> list[RunRow]:
    """Return one row a run; the first of each cell carries its anchor.

    Args:
        gathered: the runs.
        places: anchors of the table's cells.
        letters: machine of each run.
        bench: what trains the grid, and with ``--methods`` and so on a part of it; None where no grid file has it.
        command: what repeats all of it.
        price_per_hour: what an hour costs.
    """
    rows, seen = [], set()
    cells = {cell.config.hash for cell in gathered.grid.cells()}
    for place, result in enumerate(gathered.results):
        key = result.method, result.noise
        seconds = result.seconds
        rows.append(
            RunRow(
                anchor="" if key in seen else places[key],
                method=result.method,
                noise=result.noise,
                seed=result.seed,
                name=result.name,
                test=result.score,
                per_image=result.per_image,
                best=result.best,
                clean=_last(result.curves.clean),
                flipped=_last(result.curves.flipped),
                rate=result.realised_rate,
                seconds=seconds,
                cost=None if price_per_hour is None or seconds is None else cost(seconds, price_per_hour),
                machine=letters[place],
                hash=result.config_hash,
                variant=result.variant or "",
                command=_command(result, result.config_hash in cells, bench, command),
            )
        )
        seen.add(key)
    return rows


def cost(seconds: float, price_per_hour: float) -> float:
    """What so much time costs."""
    return seconds / SECONDS_PER_HOUR * price_per_hour


def _command(result: Result, is_cell: bool, bench: str | None, command: str) -> str:
    """The command that repeats a run: by its own config, or through the grid where flags cannot say all of that."""
    if result.config and not (is_cell and needs_a_file(result.config)):
        return command_of(result.config)
    if bench is None:
        return command
    words = ["--methods", result.method, "--noise", result.noise, "--seeds", str(result.seed)]
    return f"{bench} {shlex.join(words)}"


def _last(values: Sequence[float | None]) -> float | None:
    return values[-1] if values else None
