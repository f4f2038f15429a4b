# SPDX-License-Identifier: Apache-2.0
"""The paper's numbers, as printed in its tables."""

import json
from functools import cache
from importlib import resources
from typing import Any

from noiseproof.results.statistics import Summary


@cache
def _file() -> dict[str, Any]:
    text = (resources.files("noiseproof.results") / "published.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def published_tables() -> tuple[str, ...]:
    """Names of the tables.

    >>> "cifar10" in published_tables()
    True
    """
    return tuple(_file()["tables"])


def published_source() -> str:
    """What they were printed in."""
    return str(_file()["source"])


def published(table: str | None, method: str, column: str) -> Summary | None:
    """Return a number of the paper, or None where it has none.

    Args:
        table: a name of :func:`published_tables`, or None.
        method: a row's label, in any case.
        column: a noise, or ``"test"`` and the like where the data's labels are wrong as they are.

    >>> print(published("cifar10", "ANL-CE", "sym-0.8"))
    61.27 ± 0.55 (3)
    >>> print(published("animal10n", "CE", "test"))
    78.92 ± 0.76 (3)
    """
    rows = _file()["tables"].get(table, {})
    row = next((row for label, row in rows.items() if label.casefold() == method.casefold()), None)
    if row is None:
        return None
    cell = row.get(column)
    if cell is None:
        return None
    return Summary(float(cell["mean"]), cell.get("std"), len(_file()["seeds"]))
