# SPDX-License-Identifier: Apache-2.0
"""A plan for the user's own data, as ``noiseproof train`` makes it, by the rules of :mod:`noiseproof.planning`."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from noiseproof.datasets.errors import NotInCacheError
from noiseproof.datasets.identity import OWN, identity_of
from noiseproof.losses import checks
from noiseproof.planning.choice import Choice
from noiseproof.planning.deciding import decide
from noiseproof.planning.facts import Facts, facts_of
from noiseproof.training.config import Config, resolve
from noiseproof.training.data import load_split

__all__ = ["Choice", "Configs", "config_of", "plan_for"]

PLANNED = "auto"
"""The recipe that stands for a plan."""


NOT_PLANNED: Mapping[str, Any] = {"model": "mlp", "epochs": 1, "learning_rate": 0.1}
"""Stand in where there is no data to plan by; nothing is trained then, and no run has such a config."""


def is_planned(dataset: str, recipe: str | None) -> bool:
    """Whether numbers come from a plan: on request, and for data of the user's own without a recipe.

    >>> is_planned("folder:photos", None), is_planned("folder:photos", "cifar10"), is_planned("digits", "auto")
    (True, False, True)
    """
    return recipe == PLANNED or (recipe is None and dataset.startswith(OWN))


def plan_for(dataset: str, said: Mapping[str, Any]) -> list[Choice]:
    """Choose every field that has no default and that the user did not say; nothing is looked for in the noise.

    Example:
        >>> [choice.field for choice in plan_for("digits", {"loss": "ce"})]
        ['weight_decay', 'model', 'model_options', 'batch_size', 'epochs', 'learning_rate']
    """
    return _decided(_looked_at(dataset, said.get("image_size")), said)


def config_of(
    dataset: str,
    recipe: str | None,
    said: Mapping[str, Any],
    show: Callable[[Choice], None] = lambda choice: None,
    facts: Facts | None = None,
) -> Config:
    """Make the config of a run: by its recipe, or planned where data of the user's own has none.

    Args:
        dataset: data set to train on.
        recipe: name of a recipe, path of a TOML file, or ``"auto"`` for a plan; by default the data set's own.
        said: fields of :class:`Config`, which win.
        show: told of every choice of a plan.
        facts: of the data, where it has been looked at.
    """
    if not is_planned(dataset, recipe):
        return resolve(dataset, recipe=recipe, **said)
    chosen: dict[str, Any] = {}
    for choice in plan_for(dataset, said) if facts is None else _decided(facts, said):
        show(choice)
        chosen[choice.field] = choice.value
    parameters = {**chosen.get("loss_parameters", {}), **said.get("loss_parameters", {})}
    return resolve(dataset, **{**chosen, **said, "loss_parameters": parameters})


class Configs:
    """Makes configs of many runs on one data set, which is looked at once; made without data where it is not there.

    Args:
        dataset: data set to train on.
        recipe: as :func:`config_of` takes it.

    Example:
        >>> configs = Configs("digits", "auto")
        >>> [configs.of({"loss": loss}).weight_decay for loss in ("ce", "anl-ce")]
        [0.0001, 0.0]
    """

    def __init__(self, dataset: str, recipe: str | None) -> None:
        self.dataset, self.recipe = dataset, recipe
        self._facts: dict[int | None, Facts | None] = {}

    def of(self, said: Mapping[str, Any]) -> Config:
        """The config of one run, in which what is said wins."""
        if not is_planned(self.dataset, self.recipe):
            return resolve(self.dataset, recipe=self.recipe, **said)
        if (side := said.get("image_size")) is not None:
            checks.positive_integer("image_size", side)
        if side not in self._facts:
            self._facts[side] = self._look(side)
        facts = self._facts[side]
        if facts is None:
            return resolve(self.dataset, **{**NOT_PLANNED, **said})
        return config_of(self.dataset, self.recipe, said, facts=facts)

    def _look(self, side: int | None) -> Facts | None:
        """Facts of the data; None where it is not there, whose recorded runs are shown all the same."""
        identity = identity_of(self.dataset)
        if identity is not None:
            return _known(self.dataset, side, identity)
        try:
            return None if self.dataset.startswith(OWN) else _looked_at(self.dataset, side)
        except NotInCacheError:
            return None


def _decided(facts: Facts, said: Mapping[str, Any]) -> list[Choice]:
    return [choice for choice in decide(facts, said) if choice.field != "row"]


def _looked_at(dataset: str, side: int | None) -> Facts:
    return facts_of(load_split(dataset, "train", side), dataset)


@functools.lru_cache(maxsize=8)
def _known(dataset: str, side: int | None, identity: str) -> Facts:
    """Facts of the user's own data, which a command asks for several times, and reading which may take minutes."""
    return _looked_at(dataset, side)
