# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share, and how the texts that they are given are read."""

import difflib
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

KeptIn = Annotated[
    Path | None, typer.Option("--folder", help="Runs folder; by default NOISEPROOF_RUNS, or ./runs.")
]
RunsFolder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="FOLDER", help="Runs folder; by default NOISEPROOF_RUNS, or ./runs."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for use by programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.")]

GridName = Annotated[
    str,
    typer.Argument(metavar="GRID", help="A built-in grid (noiseproof bench lists them) or a TOML file."),
]
FromFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Read this results file instead of the runs folder; with --folder, read both.",
    ),
]
OnlyMethods = Annotated[
    str | None, typer.Option("--methods", help="Only these methods: labels or losses, separated by commas.")
]
OnlyNoises = Annotated[
    str | None, typer.Option("--noise", help="Only these noises, such as sym-0.4, separated by commas.")
]
OnlySeeds = Annotated[
    str | None, typer.Option("--seeds", help="These seeds instead of the grid's, such as 1,2,3 or 4-8.")
]
OtherSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Read runs that bench trained with this setting, such as epochs=30. May be repeated.",
    ),
]
OtherPrecision = Annotated[
    str | None,
    typer.Option("--precision", help="Read runs that bench trained in float32, tf32 or bf16."),
]

MOST_SEEDS = 10_000
"""Beyond these a range is taken for a slip: no one trains so many runs, and the list of them would fill memory."""


def read_items(text: str, option: str) -> list[str]:
    """Names separated by commas.

    >>> read_items("anl-ce, gce", "--methods")
    ['anl-ce', 'gce']
    """
    items = [each.strip() for each in text.split(",") if each.strip()]
    if not items:
        raise ValueError(f"{option}: expected names separated by commas, got {text!r}")
    return items


def read_seeds(text: str) -> list[int]:
    """Seeds and ranges of seeds, each once.

    >>> read_seeds("1,4-6,5")
    [1, 4, 5, 6]
    """
    seeds: list[int] = []
    for each in read_items(text, "--seeds"):
        found = re.fullmatch(r"(\d{1,20})(?:-(\d{1,20}))?", each)
        if found is None:
            raise ValueError(f"--seeds: expected whole numbers such as 1,2,3 or 4-8, got {text[:60]!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        if last - first >= MOST_SEEDS:
            raise ValueError(f"--seeds: expected at most {MOST_SEEDS} of them, got {each[:60]}")
        seeds.extend(range(first, last + 1))
    if not seeds:
        raise ValueError(f"--seeds: expected a range that goes up, got {text!r}")
    return list(dict.fromkeys(seeds))


def read_selection(
    methods: str | None, noises: str | None, seeds: str | None
) -> tuple[list[str] | None, list[str] | None, list[int] | None]:
    """What ``--methods``, ``--noise`` and ``--seeds`` choose of a grid; None is all of it.

    >>> read_selection("ce,anl-ce", None, "1-3")
    (['ce', 'anl-ce'], None, [1, 2, 3])
    """
    return (
        None if methods is None else read_items(methods, "--methods"),
        None if noises is None else read_items(noises, "--noise"),
        None if seeds is None else read_seeds(seeds),
    )


def require_results_files(files: Sequence[Path], advice: str) -> None:
    """Say which file of ``--from`` is not there, and the nearest that is.

    Args:
        files: as the user named them.
        advice: what to do where there is no nearest.

    Raises:
        ValueError: one is missing, or is a folder.
    """
    for file in files:
        if file.is_dir():
            found, folder = "a folder", file
        elif file.exists():
            continue
        else:
            found, folder = "nothing", file.parent
        there = sorted(each.name for each in folder.glob("*.jsonl")) if folder.is_dir() else []
        near = difflib.get_close_matches(file.name, there, n=1) or there[:1] * (len(there) == 1)
        hint = f"did you mean {folder / near[0]}?" if near else advice
        raise ValueError(f"--from: expected a results file, found {found} at {file}; {hint}")


def read_part(text: str) -> tuple[int, int]:
    """Which part of how many.

    >>> read_part("2/8")
    (2, 8)
    """
    number, _, of = text.partition("/")
    readable = number.isdecimal() and of.isdecimal() and len(text) < 40
    if not (readable and 1 <= int(number) <= int(of)):
        raise ValueError(f"--part: expected I/N with 1 <= I <= N, such as 2/8, got {text[:60]!r}")
    return int(number), int(of)


def read_setting(text: str) -> tuple[str, Any]:
    """A field and its value, written as in TOML, or True or False; a value that is neither is a text.

    >>> read_setting("epochs=30"), read_setting("model=cnn8"), read_setting("nesterov=False")
    (('epochs', 30), ('model', 'cnn8'), ('nesterov', False))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"--set: expected KEY=VALUE such as epochs=30, got {text!r}")
    if value.strip() in ("True", "False"):  # as we print them
        return key.strip(), value.strip() == "True"
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value
    except (ValueError, RecursionError):  # a number of too many digits, or lists in lists without end
        raise ValueError(f"--set: expected a value for {key.strip()}, got {value[:60]}…") from None
