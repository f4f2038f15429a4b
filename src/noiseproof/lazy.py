# SPDX-License-Identifier: Apache-2.0
"""Packages whose names are imported when they are first used, so that nobody waits for what they do not need."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def names_of(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package from the names that each of its modules holds.

    >>> get, names = names_of("noiseproof.losses", {"catalogue": ("available", "create")})
    >>> get("create")("ce").reduction, names()
    ('mean', ['available', 'create'])
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return __getattr__, lambda: sorted(home_of)
