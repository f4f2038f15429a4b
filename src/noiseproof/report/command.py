# SPDX-License-Identifier: Apache-2.0
"""The command that repeats a run: its data, and whatever differs from what that data and loss have by default."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

ALWAYS = ("noise", "loss", "seed")
SWITCHES = ("compile", "freeze", "sync_batch_norm", "gradient_quantiles")
OTHER_NAMES = {"learning_rate": "--lr"}
WITHOUT_A_FLAG = (
    "model_options",
    "momentum",
    "nesterov",
    "schedule_factor",
    "schedule_every",
    "schedule_milestones",
)
"""What only a recipe file can say."""
PLAIN_TEXT = re.compile(r"(?!(true|false|inf|nan)$)[A-Za-z][\w.-]*")
"""A text that needs no quotation marks to be told from other values."""
PLANNED = ("batch_size", "l1", "weight_decay")
"""What has a default, but is planned for data of the user's own, and so has to be said."""


def command_of(config: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, from its resolved config.

    Fields that have no flag are named at its end, as a shell comment: they belong into a recipe file.
    """
    from noiseproof.models.imagenet import NETWORK

    usual = _usual(config)
    words = ["noiseproof", "train", str(config["dataset"])]
    for name, value in config.items():
        if name in ("dataset", "device", "workers", "evaluate_every", "loss_parameters", "inputs"):
            continue
        if name in WITHOUT_A_FLAG or (name not in ALWAYS and value == usual.get(name)):
            continue
        if name in SWITCHES:
            words += [_flag(name)] if value else []
        elif value is not None:
            words += [_flag(name), str(value)]
    if (config.get("weights") or config["model"] == NETWORK) and not config.get("freeze"):
        words += ["--no-freeze"]  # a plan for such weights or this network may freeze
    for name, value in config["loss_parameters"].items():
        if usual.get("loss_parameters", {}).get(name) != value:
            words += ["--set", f"{name}={value}"]
    command = shlex.join(words)
    in_a_file = [f"{name} = {config[name]}" for name in _without_a_flag(config, usual)]
    return f"{command}  # and in a recipe file: {'; '.join(in_a_file)}" if in_a_file else command


def needs_a_file(config: Mapping[str, Any]) -> bool:
    """Whether flags alone cannot repeat a run.

    >>> from noiseproof.training import resolve
    >>> needs_a_file(resolve("digits", seed=7).as_data()), needs_a_file(resolve("digits", momentum=0.5).as_data())
    (False, True)
    """
    return bool(_without_a_flag(config, _usual(config)))


def _without_a_flag(config: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    return [name for name in config if name in WITHOUT_A_FLAG and config[name] != usual.get(name)]


def options_of(settings: Mapping[str, Any]) -> list[str]:
    """Settings in place of a grid's own, as ``bench``, ``table`` and ``report`` take them.

    >>> options_of({"epochs": 30, "precision": "float32", "loss_parameters": {"alpha": 2.0}})
    ['--set', 'epochs=30', '--precision', 'float32', '--set', 'loss_parameters={ alpha = 2.0 }']
    """
    from noiseproof.planning.recipe_file import toml
    from noiseproof.training.config import NOT_PART_OF_THE_RESULT

    words = []
    for name, value in settings.items():
        if name == "precision":
            words += ["--precision", str(value)]
        elif name not in NOT_PART_OF_THE_RESULT:
            is_plain = isinstance(value, str) and PLAIN_TEXT.fullmatch(value)
            words += ["--set", f"{name}={value if is_plain else toml(value)}"]
    return words


def _usual(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the run's data, loss and noise have by default."""
    from noiseproof.datasets import DataError
    from noiseproof.training import Config, resolve

    said = {name: config[name] for name in ALWAYS}
    try:
        return resolve(config["dataset"], **said).as_data()
    except (ValueError, TypeError, DataError):  # data without a recipe, or a loss that is not registered here
        return {
            each.name: each.default
            for each in fields(Config)
            if each.default is not MISSING and each.name not in PLANNED
        }


def _flag(name: str) -> str:
    return OTHER_NAMES.get(name, "--" + name.replace("_", "-"))
