# SPDX-License-Identifier: Apache-2.0
"""Recipes written as TOML, so that ``noiseproof train DATA --recipe FILE`` reads them back."""

import json
import textwrap
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noiseproof.training.config import Config

WIDTH = 110
OF_A_RUN = (
    "dataset",
    "noise",
    "seed",
    "noise_seed",
    "train_size",
    "device",
    "compile",
    "workers",
    "evaluate_every",
)
"""Fields that belong to one run, not to a recipe."""

ALWAYS = ("loss", "loss_parameters", "l1", "weight_decay", "model", "epochs", "batch_size", "learning_rate")


def recipe_text(config: "Config", remark: str) -> str:
    """A config as a recipe: what is always of interest, and what is not as usual."""
    data = config.as_data()
    usual = {each.name: each.default for each in fields(config)}
    kept = {
        name: value
        for name, value in data.items()
        if name not in OF_A_RUN and (name in ALWAYS or (value or None) != (usual[name] or None))
    }
    kept = {name: value for name, value in kept.items() if value is not None and value not in ({}, [])}
    ordered = [*(name for name in ALWAYS if name in kept), *(name for name in kept if name not in ALWAYS)]
    return "\n".join([*comment(remark), "", *(f"{name} = {toml(kept[name])}" for name in ordered)]) + "\n"


def comment(text: str, start: str = "# ") -> list[str]:
    """Lines of a comment."""
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=start, break_long_words=False)


def toml(value: Any) -> str:
    """A value as TOML writes it.

    >>> toml({"alpha": 5.0, "names": ["a", True, 5e-05]})
    '{ alpha = 5.0, names = ["a", true, 5e-05] }'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return repr(value)


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)
