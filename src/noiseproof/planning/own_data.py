# SPDX-License-Identifier: Apache-2.0
"""A plan for the user's own data, as ``noiseproof train`` makes it, by the rules of :mod:`noiseproof.planning`."""

from collections.abc import Callable, Mapping
from typing import Any

from noiseproof.datasets.identity import OWN
from noiseproof.planning.choice import Choice
from noiseproof.planning.deciding import decide
from noiseproof.planning.facts import facts_of
from noiseproof.training.config import Config, resolve
from noiseproof.training.data import load_split

__all__ = ["Choice", "config_of", "plan_for"]

PLANNED = "auto"
"""The recipe that stands for a plan."""


def plan_for(dataset: str, said: Mapping[str, Any]) -> list[Choice]:
    """Choose every field that has no default and that the user did not say; nothing is looked for in the noise.

    Example:
        >>> [choice.field for choice in plan_for("digits", {"loss": "ce"})]
        ['weight_decay', 'model', 'model_options', 'batch_size', 'epochs', 'learning_rate']
    """
    facts = facts_of(load_split(dataset, "train", said.get("image_size")), dataset)
    return [choice for choice in decide(facts, said) if choice.field != "row"]


def config_of(
    dataset: str,
    recipe: str | None,
    said: Mapping[str, Any],
    show: Callable[[Choice], None] = lambda choice: None,
) -> Config:
    """Make the config of a run: by its recipe, or planned where data of the user's own has none.

    Args:
        dataset: data set to train on.
        recipe: name of a recipe, path of a TOML file, or ``"auto"`` for a plan; by default the data set's own.
        said: fields of :class:`Config`, which win.
        show: told of every choice of a plan.
    """
    if recipe != PLANNED and (recipe is not None or not dataset.startswith(OWN)):
        return resolve(dataset, recipe=recipe, **said)
    chosen: dict[str, Any] = {}
    for choice in plan_for(dataset, said):
        show(choice)
        chosen[choice.field] = choice.value
    parameters = {**chosen.get("loss_parameters", {}), **said.get("loss_parameters", {})}
    return resolve(dataset, **{**chosen, **said, "loss_parameters": parameters})
