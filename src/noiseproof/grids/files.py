# SPDX-License-Identifier: Apache-2.0
"""Grids as TOML files: the package's own by name, a user's by path."""

import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from noiseproof.grids.checks import MOST_CELLS
from noiseproof.grids.grid import Grid, Method, merged
from noiseproof.losses.checks import shown, unknown

_KEYS = (
    "title",
    "like",
    "dataset",
    "kind",
    "published",
    "columns",
    "recipe",
    "noises",
    "seeds",
    "settings",
    "methods",
    "more_methods",
)
_TAKEN = ("kind", "noises", "seeds", "methods")
"""What a grid takes of the one that it is like, besides settings."""
_TAKEN_ON_SAME_DATA = ("published", "columns", "recipe")
"""What it takes besides, where its data are those of the other one."""
_FOR_EACH = "for_each"
MOST_BYTES = 1 << 20


def names() -> tuple[str, ...]:
    """Grids that come with the package.

    >>> "cifar10-table" in names()
    True
    """
    folder = resources.files("noiseproof.grids") / "shipped"
    return tuple(
        sorted(each.name.removesuffix(".toml") for each in folder.iterdir() if each.name.endswith(".toml"))
    )


def load(name_or_path: str) -> Grid:
    """Read a grid of the package by name, or a TOML file by path; needs no data.

    Args:
        name_or_path: a name of :func:`names`, or a path that ends in ``.toml``.

    Raises:
        ValueError: there is no such grid, or something in it does not stand; the message says what and where.

    Example:
        >>> load("alpha-beta-grid").methods[8].label
        'α=0.5 β=5'
    """
    text = str(name_or_path)
    if text.endswith(".toml"):
        path = Path(text)
        try:
            if path.stat().st_size > MOST_BYTES:
                raise ValueError(f"grid: expected at most {MOST_BYTES} bytes, {text!r} has more")
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"grid: cannot read {text!r}: {reason}") from error
        return parsed(content, path.stem)
    if text not in names():
        hint = "; a file of your own must end in .toml" if Path(text).exists() else ""
        raise ValueError(unknown("grid", text, names()) + hint)
    return parsed(_shipped(text), text)


def _shipped(name: str) -> str:
    return (resources.files("noiseproof.grids") / "shipped" / f"{name}.toml").read_text(encoding="utf-8")


def parsed(content: str, name: str) -> Grid:
    """Make a grid of the text of a TOML file."""
    try:
        values = tomllib.loads(content)
    except (ValueError, RecursionError) as error:  # also a number of too many digits, and lists without end
        raise ValueError(f"grid {name}: not TOML: {error}") from error
    for key in values:
        if key not in _KEYS:
            raise ValueError(unknown(f"key in grid {name}", key, _KEYS))
    if "like" in values:
        values = _completed(values, name)
    elif "more_methods" in values:
        raise ValueError(f"grid {name}: more_methods goes with like; without it, expected [[methods]] only")
    missing = [key for key in ("dataset", "noises", "seeds", "methods") if key not in values]
    if missing:
        raise ValueError(f"grid {name}: expected {', '.join(missing)}, which it does not say")
    for key, kind, words in (
        ("dataset", str, "a text"),
        ("noises", list, "a list"),
        ("seeds", list, "a list"),
        ("methods", list, "a list of tables, [[methods]]"),
        ("more_methods", list, "a list of tables, [[more_methods]]"),
        ("settings", dict, "a table"),
        ("columns", dict, "a table"),
        ("published", str, "a text"),
        ("recipe", str, "a text"),
    ):
        if key in values and not isinstance(values[key], kind):
            raise ValueError(f"grid {name}: expected {key} to be {words}, got {shown(values[key])}")
    for noise, column in values.get("columns", {}).items():
        if not isinstance(column, str):
            raise ValueError(
                f"grid {name}: expected the column of {noise!r} to be a text, got {shown(column)}"
            )
    return Grid(
        name=name,
        title=str(values.get("title", name))[:500],
        dataset=values["dataset"],
        kind=str(values.get("kind", "table")),
        methods=tuple(
            itertools.islice(
                (
                    method
                    for number, each in enumerate(
                        (*values["methods"], *values.get("more_methods", ())), start=1
                    )
                    for method in _methods(each, f"grid {name}, method {number}")
                ),
                MOST_CELLS + 1,  # one more than there may be, which the grid then refuses
            )
        ),
        noises=tuple(values["noises"]),
        seeds=tuple(values["seeds"]),
        settings=values.get("settings", {}),
        published=values.get("published"),
        columns=values.get("columns", {}),
        recipe=values.get("recipe"),
        like=values.get("like"),
    )


def _completed(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a grid says, and the rest of it as in the built-in one that it is like.

    On other data the paper's numbers are not to be compared with, and neither is the precision taken, which is that
    of the other grid's recorded runs.
    """
    like, own = str(values["like"]), values.get("settings", {})
    if like not in names():
        raise ValueError(unknown(f"like in grid {name}", like, names()))
    other = tomllib.loads(_shipped(like))
    if "like" in other:
        other = _completed(other, like)
    other["methods"] = [*other["methods"], *other.get("more_methods", ())]
    same_data = values.get("dataset") == other["dataset"]
    taken = {key: other[key] for key in _TAKEN + _TAKEN_ON_SAME_DATA * same_data if key in other}
    settings = dict(other.get("settings", {}))
    if not same_data:
        settings.pop("precision", None)
    if isinstance(own, Mapping):
        own = merged(settings, own)
    return {**taken, **values, "settings": own}


def _methods(values: Any, place: str) -> Iterator[Method]:
    """The method that a table describes, or one for each combination of the values under ``for_each``."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{place}: expected a table with label and loss, got {shown(values)}")
    settings = dict(values)
    ranges = settings.pop(_FOR_EACH, {})
    for key in ("label", "loss"):
        if not isinstance(settings.get(key), str):
            raise ValueError(f"{place}: expected {key} to be a text, got {shown(settings.get(key))}")
    label, loss = settings.pop("label"), settings.pop("loss")
    paths = list(_flat(ranges, place))
    if (count := math.prod(len(each) for _, each in paths)) > MOST_CELLS:
        raise ValueError(
            f"{place}: expected at most {MOST_CELLS} combinations under {_FOR_EACH}, got {shown(count)}"
        )
    for values_of_one in itertools.product(*(each for _, each in paths)):
        chosen = [(keys, value) for (keys, _), value in zip(paths, values_of_one, strict=True)]
        extra = merged(*(_nested(keys, value) for keys, value in chosen))
        named = {keys[-1]: written(value) for keys, value in chosen}
        yield Method(_filled(label, named, place), loss, merged(settings, extra))


def _flat(
    ranges: Any, place: str, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Every list under ``for_each`` with the keys that lead to it."""
    if not isinstance(ranges, Mapping):
        raise ValueError(f"{place}: expected {_FOR_EACH} to be a table of lists, got {shown(ranges)}")
    for key, value in ranges.items():
        if isinstance(value, list) and value:
            yield (*above, key), value
        else:
            yield from _flat(value, place, (*above, key))


def _nested(keys: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return value  # type: ignore[no-any-return]


def _filled(label: str, named: Mapping[str, str], place: str) -> str:
    def value_of(found: re.Match[str]) -> str:
        if found[1] not in named:
            raise ValueError(unknown(f"{place}: {{…}} in its label", found[1], named))
        return named[found[1]]

    return re.sub(r"\{(\w+)\}", value_of, label)


def written(value: Any) -> str:
    """A number as short as it can be said.

    >>> [written(value) for value in (5e-07, 1e-4, 0.5, 10.0, "cosine")]
    ['5e-7', '1e-4', '0.5', '10', 'cosine']
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) and value.bit_length() > 1000:  # no float holds it
        return shown(value)
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:g}"
    digits, _, exponent = f"{value:e}".partition("e")
    return f"{float(digits):g}e{int(exponent)}"
