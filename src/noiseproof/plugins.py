# SPDX-License-Identifier: Apache-2.0
"""Modules of the user's own that register losses, noise, networks or data, for commands and their processes."""

import importlib
import os
import shlex
from collections.abc import Sequence
from pathlib import PurePath

VARIABLE = "NOISEPROOF_IMPORT"
"""Names of modules, separated by commas; processes inherit it."""


_NAMED: list[str] = []


def command_name() -> str:
    """``noiseproof``, with the ``--import`` that a command needs to know what this one knows."""
    return shlex.join(["noiseproof", *(word for name in _NAMED for word in ("--import", name))])


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
            importlib.import_module(each)
        except Exception as error:
            raise ValueError(f"--import {each}: {type(error).__name__}: {error}") from error
    _NAMED[:] = [each for each in wanted if each not in before]
    if wanted:
        os.environ[VARIABLE] = ",".join(wanted)
