# SPDX-License-Identifier: Apache-2.0
"""Training: one readable engine, from the embedded demo to the paper's recipes.

>>> from noiseproof.training import resolve
>>> resolve("cifar10", loss="anl-ce", noise="sym-0.8", seed=1).run_id[:-8]
'cifar10-sym-0.8-anl-ce-s1-'
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noiseproof.training.config import Config, recipe_names, resolve
    from noiseproof.training.engine import NotFiniteError, train, train_pack
    from noiseproof.training.interruption import Interrupted

__all__ = ["Config", "Interrupted", "NotFiniteError", "recipe_names", "resolve", "train", "train_pack"]

_HOMES = {
    "Config": "config",
    "recipe_names": "config",
    "resolve": "config",
    "NotFiniteError": "engine",
    "train": "engine",
    "train_pack": "engine",
    "Interrupted": "interruption",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: reading records of runs must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
