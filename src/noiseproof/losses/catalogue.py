# SPDX-License-Identifier: Apache-2.0
"""The catalogue: losses by name, with everything that a user or a test wants to know about them."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.module import Options, RobustLoss, no_label_smoothing
from noiseproof.losses.recipes import PUBLISHED, Recipe, recipe_name


@dataclass(frozen=True)
class LossRecord:
    """What the catalogue knows of one loss.

    Args:
        name: its name, the paper's, in lower case.
        title: its name in words.
        formula: the loss of one sample, in plain text.
        range: smallest and largest value, in plain text.
        symmetric: whether the sum over all labels is the same for every prediction.
        paper: where it was published.
        module: the Module class.
        function: the pure function.
        aliases: other names it goes by.
        needs: what it asks of the user beyond logits and labels.
        whole_images: whether it looks at whole images, so that it takes logits (N, K, height, width) only and has
            one value an image; see :class:`~noiseproof.losses.ImageLoss`.
    """

    name: str
    title: str
    formula: str
    range: str
    symmetric: bool
    paper: str
    module: type[RobustLoss]
    function: Callable[..., Tensor]
    aliases: tuple[str, ...] = ()
    needs: str = ""
    whole_images: bool = False

    @property
    def defaults(self) -> dict[str, Any]:
        """Hyper-parameters and their defaults, read from the Module's signature."""
        return dict(self._defaults)

    @functools.cached_property
    def _defaults(self) -> dict[str, Any]:
        # Read once: reading a signature takes longer than all else that making a loss does.
        parameters = inspect.signature(self.module).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is not p.VAR_KEYWORD}

    @property
    def recipes(self) -> Mapping[str, Recipe]:
        """Published hyper-parameters by data set."""
        return PUBLISHED.get(self.name, {})


_RECORDS: dict[str, LossRecord] = {}
_ALIASES: dict[str, str] = {}


def register(record: LossRecord) -> None:
    """Add a loss to the catalogue, so that ``create`` and the command line know it.

    >>> from dataclasses import replace
    >>> register(replace(record("ce"), title="Another one"))
    Traceback (most recent call last):
    ValueError: name: 'ce' is in the catalogue already; choose another name
    """
    module = record.module
    if not (isinstance(module, type) and issubclass(module, RobustLoss)):
        raise TypeError(
            f"module: expected a class that extends noiseproof.losses.RobustLoss, got {checks.shown(module)}; "
            "extend it, and if it has a forward of its own, call super().__init__(None, **options)"
        )
    if needed := [name for name, default in record.defaults.items() if default is inspect.Parameter.empty]:
        raise TypeError(
            f"module: expected a default for every hyper-parameter of {module.__name__}, got none for "
            f"{', '.join(needed)}: a loss is made by its name alone"
        )
    for name in (record.name, *record.aliases):
        if name in _RECORDS or name in _ALIASES:
            raise ValueError(f"name: {name!r} is in the catalogue already; choose another name")
        if name != name.lower():
            raise ValueError(f"name: expected lower case, got {name!r}")
    _RECORDS[record.name] = record
    _ALIASES.update(dict.fromkeys(record.aliases, record.name))


def available(*, whole_images: bool = False) -> tuple[str, ...]:
    """Names of all losses of labels, in the order of the catalogue (aliases left out).

    Args:
        whole_images: name the losses of whole images instead, which are for segmentation only.

    Example:
        >>> "anl-ce" in available()
        True
        >>> available(whole_images=True)
        ('t-loss', 'dice', 'ce+dice')
    """
    return tuple(name for name, each in _RECORDS.items() if each.whole_images == whole_images)


def record(name: str) -> LossRecord:
    """Look a loss up by name or alias; an unknown name fails with the nearest one.

    >>> record("apl").formula
    'α·NCE + β·RCE'
    """
    if not isinstance(name, str):
        raise TypeError(f"loss: expected a text, got {checks.shown(name)} of type {type(name).__name__}")
    key = name.lower()
    key = _ALIASES.get(key, key)
    if key not in _RECORDS:
        raise ValueError(checks.unknown("loss", name, (*_RECORDS, *_ALIASES)))
    return _RECORDS[key]


def create(name: str, *, recipe: str | None = None, noise: str | None = None, **arguments: Any) -> RobustLoss:
    """Make a loss by name.

    Args:
        name: a name or alias of the catalogue, e.g. ``"anl-ce"``.
        recipe: a data set of the paper, e.g. ``"cifar100"``, whose published hyper-parameters to use. Where
            none were published for this loss, its defaults hold.
        noise: such as ``"sym-0.8"``, for the few recipes that depend on it.
        **arguments: hyper-parameters, which win over the recipe's, and the options of every loss (weight,
            ignore_index, reduction, check_labels). ``weight`` may be a list of numbers, one a class.

    Example:
        >>> create("anl-fl", alpha=5.0, beta=5.0, gamma=0.5).reduction
        'mean'
        >>> create("logitclip-ce", recipe="cifar10", noise="asym-0.4").bound
        2.5
    """
    found = record(name)
    _check_arguments(found, arguments)
    if arguments.get("weight") is not None:
        arguments["weight"] = _class_weights(arguments["weight"])
    published = published_recipe(found.name, recipe)
    return found.module(**(published.for_noise(noise) | arguments))


def _class_weights(weight: object) -> Tensor:
    if isinstance(weight, Tensor):
        return weight
    if not isinstance(weight, list | tuple) or not weight:
        raise TypeError(
            f"weight: expected numbers, one a class, such as [1.0, 2.0], got {checks.shown(weight)} of type "
            f"{type(weight).__name__}"
        )
    return torch.tensor([checks.non_negative("weight", each) for each in weight])


def published_recipe(name: str, recipe: str | None) -> Recipe:
    """What was published for a loss on a data set; empty where nothing was.

    >>> published_recipe("anl-ce", "cifar100").hyperparameters
    {'alpha': 10.0, 'beta': 1.0}
    """
    if recipe is None:
        return Recipe()
    return record(name).recipes.get(recipe_name(recipe), Recipe())


def _check_arguments(found: LossRecord, arguments: Mapping[str, Any]) -> None:
    known = (*found.defaults, *Options.__annotations__)
    for argument in arguments:
        if argument == "label_smoothing":
            raise TypeError(no_label_smoothing(f"loss {found.name!r}"))
        if argument not in known:
            raise TypeError(checks.unknown(f"argument of loss {found.name!r}", argument, known))
