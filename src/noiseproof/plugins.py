# SPDX-License-Identifier: Apache-2.0
"""Modules of the user's own that register losses, noise, networks or data, for commands and their processes."""

import importlib
import linecache
import os
import shlex
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath

VARIABLE = "NOISEPROOF_IMPORT"
"""Names of modules, separated by commas; processes inherit it."""


_NAMED: list[str] = []
_IMPORTED: set[str] = set()
_PLACE = "raised_in_own_code"


def command_name() -> str:
    """``noiseproof``, with the ``--import`` that a command needs to know what this one knows."""
    return shlex.join(["noiseproof", *(word for name in _NAMED for word in ("--import", name))])


def explained(error: BaseException) -> str:
    """An error's message; of one that was raised in a module of the user's own, also its kind and the line."""
    message = str(error)
    if place := own_place(error):
        return f"{type(error).__name__}{': ' if message else ''}{message} (in {place})"
    return message or type(error).__name__


def own_place(error: BaseException) -> str:
    """Where in an imported module an error was raised, and kept with it when it is sent to another process."""
    found: str = getattr(error, _PLACE, "")
    for frame, line in [] if found else traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _IMPORTED:
            path = frame.f_code.co_filename
            code = linecache.getline(path, line).strip()
            found = f"{PurePath(path).name}, line {line}{': ' if code else ''}{code}"
    if found:
        with suppress(AttributeError):  # some kinds take no attributes
            setattr(error, _PLACE, found)
    return found


def import_plugins(names: Sequence[str] = ()) -> None:
    """Import modules by name, and those that :data:`VARIABLE` names; later processes do, too.

    Raises:
        ValueError: one cannot be imported.
    """
    before = [each.strip() for each in os.environ.get(VARIABLE, "").split(",")]
    wanted = list(dict.fromkeys(filter(None, (*before, *(each.strip() for each in names)))))
    for each in wanted:
        if each.endswith(".py") or "/" in each or "\\" in each:
            name = PurePath(each.replace("\\", "/")).stem
            raise ValueError(
                f"--import: expected the name of a module in the current folder, {name}, got {each}"
            )
        try:
            _IMPORTED.add(each.partition(".")[0])
            importlib.import_module(each)
        except Exception as error:
            place = f" (in {found})" if (found := own_place(error)) else ""
            raise ValueError(f"--import {each}: {type(error).__name__}: {error}{place}") from error
    _NAMED[:] = [each for each in wanted if each not in before]
    if wanted:
        os.environ[VARIABLE] = ",".join(wanted)
