# SPDX-License-Identifier: Apache-2.0
"""Modules of the user's own that register losses, networks or data sets, for the command line and its processes."""

import importlib
import os
from collections.abc import Sequence

VARIABLE = "NOISEPROOF_IMPORT"
"""Names of modules, separated by commas; processes inherit it."""


def import_plugins(names: Sequence[str] = ()) -> None:
    """Import modules by name, and those that :data:`VARIABLE` names; later processes do, too.

    Raises:
        ValueError: one cannot be imported.
    """
    said = [each.strip() for each in (*os.environ.get(VARIABLE, "").split(","), *names)]
    wanted = list(dict.fromkeys(filter(None, said)))
    for each in wanted:
        try:
            importlib.import_module(each)
        except Exception as error:
            raise ValueError(f"--import {each}: {type(error).__name__}: {error}") from error
    if wanted:
        os.environ[VARIABLE] = ",".join(wanted)
