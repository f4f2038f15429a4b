# SPDX-License-Identifier: Apache-2.0
"""How ``--set`` of a run is read: as a field of its config, or as a number of its loss."""

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from noiseproof.command_line.options import read_setting

OPTIONS_OF_WORDS = {"dataset": "DATASET, the first word", "noise": "--noise", "loss": "--loss"}
"""How fields are said that decide what the others mean."""


def is_field(name: str) -> bool:
    """Whether a config has such a field that ``--set`` may say."""
    import dataclasses

    from noiseproof.training import Config

    not_said = (*OPTIONS_OF_WORDS, "loss_parameters", "inputs")
    return name in {each.name for each in dataclasses.fields(Config)}.difference(not_said)


def numbers_of(loss: str | None) -> Collection[str]:
    """Hyper-parameters of a named loss; one of the user's own may call them as a config calls its fields."""
    from noiseproof.losses import record

    if loss is None:
        return ()
    with suppress(ValueError):  # an unknown name is told where the config is made
        return record(loss).defaults.keys()
    return ()


def read_as_trained(text: str, loss: str | None) -> tuple[str, Any]:
    """A setting as ``train --set`` reads it, and as TOML what that would refuse.

    >>> read_as_trained("alpha=5", "anl-ce"), read_as_trained("weight=1,2", None), read_as_trained("epochs=9", None)
    (('alpha', 5), ('weight', [1, 2]), ('epochs', 9))
    """
    key, value = read_setting(text)
    if key in numbers_of(loss) or not is_field(key):
        with suppress(ValueError):
            return key, parameter_of(text)[1]
    return key, value


def parameter_of(text: str) -> tuple[str, Any]:
    """A loss's own setting, ``NAME=VALUE``: a number, several with commas between them, true or false."""
    name, _, value = text.partition("=")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    try:
        if "," in value:
            return name, [_number(each) for each in value.strip("[]").split(",")]
        return name, _number(value)
    except ValueError:
        raise ValueError(
            "--set: expected NAME=VALUE, such as alpha=5, weight=1,2,3 (one number per class) or published=true, "
            f"got {text!r}"
        ) from None


def _number(text: str) -> float:
    text = text.strip()
    return int(text) if text.removeprefix("-").isdecimal() else float(text)
