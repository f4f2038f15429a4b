# SPDX-License-Identifier: Apache-2.0
"""Checks of a grid: every slip is told with its place and the nearest name, before anything is trained."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from noiseproof.losses import available, record
from noiseproof.losses.checks import shown, unknown
from noiseproof.noise import parse_name, short_name
from noiseproof.training.config import Config

if TYPE_CHECKING:
    from noiseproof.grids.grid import Grid, Method

KINDS = ("table", "curves", "marginals", "regularisers", "gradients", "alpha-beta")
"""What a grid is drawn as."""

OF_THE_GRID = ("dataset", "loss", "noise", "seed")
"""Fields of a config that the grid itself fills."""

MOST_CELLS = 20_000
"""Runs of a grid; with more it is taken for a slip, or for a file that means harm."""


def check_grid(grid: "Grid") -> None:
    """Say what does not stand about a grid; the configs themselves are checked when they are made."""
    if grid.kind not in KINDS:
        raise ValueError(unknown(f"kind of grid {grid.name}", grid.kind, KINDS))
    for what in ("methods", "noises", "seeds"):
        if not getattr(grid, what):
            raise ValueError(f"grid {grid.name}: expected at least one of its {what}, got none")
    if (count := len(grid.methods) * len(grid.noises) * len(grid.seeds)) > MOST_CELLS:
        raise ValueError(f"grid {grid.name}: expected at most {MOST_CELLS} runs, got {count}")
    for noise in grid.noises:
        if not isinstance(noise, str):
            raise ValueError(f"grid {grid.name}: expected noises that are texts, got {shown(noise)}")
    for seed in grid.seeds:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ValueError(f"grid {grid.name}: expected seeds that are whole numbers, got {shown(seed)}")
    _no_doubles(grid, "methods", [method.label for method in grid.methods])
    _no_doubles(grid, "noises", [str(parse_name(noise)) for noise in grid.noises])
    _no_files_of_one_name(grid)
    _no_doubles(grid, "seeds", grid.seeds)
    for method in grid.methods:
        place = f"grid {grid.name}, method {method.label!r}"
        if not method.label.strip() or "," in method.label:
            raise ValueError(f"{place}: expected a label without a comma, which parts labels in --methods")
        record(method.loss)
        check_settings(method.settings, place)
    check_settings(grid.settings, f"grid {grid.name}, settings")
    check_settings(grid.overrides, f"grid {grid.name}, settings")
    _no_doubles(grid, "columns", [str(parse_name(noise)) for noise in grid.columns])
    _check_published(grid)


def _check_published(grid: "Grid") -> None:
    from noiseproof.results.published import published_tables

    if grid.published is not None and grid.published not in published_tables():
        raise ValueError(unknown(f"published of grid {grid.name}", grid.published, published_tables()))


def check_settings(settings: Mapping[str, Any], place: str) -> None:
    """Refuse keys that are no fields of a config, and those that the grid fills itself."""
    known = [each.name for each in fields(Config) if each.name not in OF_THE_GRID]
    for key in settings:
        if key in OF_THE_GRID:
            raise ValueError(
                f"{place}: {key} is not a setting; the grid has dataset, methods, noises and seeds"
            )
        if key not in known:
            told = unknown(f"{place}: setting", key, known)
            name = key.removeprefix("loss_parameters.")
            if any(name in record(loss).defaults for loss in available()):
                told += f". A number of the loss is set with loss_parameters = {{ {name} = … }}"
            raise ValueError(told)


def chosen_methods(grid: "Grid", wanted: Iterable[str]) -> "tuple[Method, ...]":
    """Methods by label, or by loss where no label fits; in the grid's order."""
    chosen: set[str] = set()
    for name in wanted:
        found = [each.label for each in grid.methods if each.label.casefold() == name.strip().casefold()]
        if not found:
            try:
                loss = record(name.strip()).name
            except ValueError:
                loss = ""
            found = [each.label for each in grid.methods if record(each.loss).name == loss]
        if not found:
            raise ValueError(_not_there(grid, "methods", name, [method.label for method in grid.methods]))
        chosen.update(found)
    return tuple(method for method in grid.methods if method.label in chosen)


def chosen_noises(grid: "Grid", wanted: Iterable[str]) -> tuple[str, ...]:
    """Noises of the grid by their short names, of files also by their paths; in the grid's order."""
    names = {_shown_as(noise): noise for noise in grid.noises}
    chosen = set()
    for name in wanted:
        if (proper := _shown_as(name)) not in names:
            raise ValueError(_not_there(grid, "noises", name, list(names)))
        chosen.add(names[proper])
    return tuple(noise for noise in grid.noises if noise in chosen)


def chosen_pairs(grid: "Grid", wanted: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Labels of methods and noises, of texts such as ``MAE@dep-0.4``; a loss stands for all methods with it."""
    pairs: set[tuple[str, str]] = set()
    for text in wanted:
        method, at, noise = text.partition("@file:") if "@file:" in text else text.rpartition("@")
        if not (at and method and noise):
            raise ValueError(f"cells: expected METHOD@NOISE, such as ANL-CE@sym-0.8, got {text!r}")
        noise = f"{at[1:]}{noise}"
        pairs |= {
            (chosen.label, each)
            for chosen in chosen_methods(grid, [method])
            for each in chosen_noises(grid, [noise])
        }
    return frozenset(pairs)


def _shown_as(noise: str) -> str:
    return short_name(str(parse_name(noise)))


def _no_files_of_one_name(grid: "Grid") -> None:
    """Two files must be told apart in a table."""
    seen: dict[str, str] = {}
    for noise in grid.noises:
        other = seen.setdefault(_shown_as(noise).casefold(), noise)
        if other != noise:
            raise ValueError(
                f"grid {grid.name}: {other!r} and {noise!r} would both be called {_shown_as(noise)!r} in tables; "
                "give the files different names"
            )


def _not_there(grid: "Grid", what: str, name: str, known: Sequence[str]) -> str:
    """As :func:`noiseproof.losses.checks.unknown`, but finds the nearest label in any case."""
    lower = {each.lower(): each for each in known}
    text = unknown(f"{what} of grid {grid.name}", name, lower)
    head, _, _ = text.partition(" Known: ")
    for each, proper in lower.items():
        head = head.replace(f"did you mean {each!r}", f"did you mean {proper!r}")
    return f"{head} Known: {', '.join(known)}"


def _no_doubles(grid: "Grid", what: str, values: Sequence[object]) -> None:
    seen = set()
    for value in values:
        folded = value.casefold() if isinstance(value, str) else value
        if folded in seen:
            raise ValueError(f"grid {grid.name}: {shown(value)} stands twice among its {what}")
        seen.add(folded)
