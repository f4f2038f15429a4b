# SPDX-License-Identifier: Apache-2.0
"""What a rule of the planner may rest on: cells and recipes of the paper. Runs of our own are in ``own_sources``.

Every source knows how to say itself and how to check itself: ``trouble(root)`` looks the source up, in the package
or in the checkout at ``root``, and says what is wrong with it. The tests ask every source of every rule.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from noiseproof.losses import Recipe, published_recipe, record

TITLES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mnist-like": "MNIST-like",
    "webvision-mini": "WebVision-mini",
    "animal10n": "Animal-10N",
    "clothing1m": "Clothing-1M",
    "isic2017": "ISIC-2017",
    "isic2017-dice": "ISIC-2017",
    "digits": "the digits",
}
"""What recipes and tables are called in words."""

LEFT_OPEN_BY_THE_PAPER = {
    "animal10n": ("momentum", "clip_norm"),
    "clothing1m": ("clip_norm",),
    "isic2017": ("clip_norm",),
}
"""Fields that the paper does not state and our recipes decide."""

ONLY_IN_CONFIGURATIONS = ("mnist-like",)
"""Recipes that come from published configurations: the paper itself does not have these data."""


def whose(recipe: str, field: str) -> str:
    """Who states a field of a recipe.

    Example:
        >>> whose("cifar10", "momentum"), whose("mnist-like", "momentum")
        ("the paper's", "the published configurations'")
        >>> whose("animal10n", "momentum")
        'our choice, left open by the paper,'
    """
    if field in LEFT_OPEN_BY_THE_PAPER.get(recipe, ()):
        return "our choice, left open by the paper,"
    return "the published configurations'" if recipe in ONLY_IN_CONFIGURATIONS else "the paper's"


def choice_for(recipe: str, field: str) -> str:
    """Who chose a field of a recipe, and for which data.

    Example:
        >>> choice_for("cifar10", "momentum")
        "the paper's choice for CIFAR-10"
        >>> choice_for("animal10n", "momentum")
        'our choice, left open by the paper, for Animal-10N'
    """
    chosen = "" if field in LEFT_OPEN_BY_THE_PAPER.get(recipe, ()) else " choice"
    return f"{whose(recipe, field)}{chosen} for {TITLES[recipe]}"


class Source(Protocol):
    """Something that supports a rule."""

    def __str__(self) -> str:
        """The source in words, with its numbers."""

    def trouble(self, root: Path) -> str | None:
        """What is wrong with it: it is not there, or says something else; ``None`` where all is well."""


@dataclass(frozen=True)
class Cells:
    """Two cells of a column of the paper's tables, of which the first is better.

    Example:
        >>> print(Cells("cifar10", "asym-0.4", "ANL-CE*", "ANL-CE"))
        the paper, CIFAR-10, asym-0.4: ANL-CE* 81.47, ANL-CE 77.63
    """

    table: str
    column: str
    better: str
    worse: str

    def __str__(self) -> str:
        numbers = ", ".join(f"{each} {self._mean(each):.2f}" for each in (self.better, self.worse))
        return f"the paper, {TITLES[self.table]}, {self.column}: {numbers}"

    def trouble(self, root: Path) -> str | None:
        """See whether both cells exist and the first is the better one."""
        from noiseproof.results import published

        for method in (self.better, self.worse):
            if published(self.table, method, self.column) is None:
                return f"the paper has no {method} in {self.column} of {self.table}"
        return None if self._mean(self.better) > self._mean(self.worse) else f"not so: {self}"

    def _mean(self, method: str) -> float:
        from noiseproof.results import published

        found = published(self.table, method, self.column)
        return float("nan") if found is None else found.mean


@dataclass(frozen=True)
class RecipeField:
    """A field of the recipe for a data set of the paper.

    Example:
        >>> print(RecipeField("cifar10", "epochs", 120))
        the paper's recipe for CIFAR-10: epochs 120
        >>> print(RecipeField("animal10n", "clip_norm", 5.0))
        our choice, left open by the paper, for Animal-10N: clip_norm 5.0
    """

    recipe: str
    field: str
    value: Any

    def __str__(self) -> str:
        recipe = "" if self.field in LEFT_OPEN_BY_THE_PAPER.get(self.recipe, ()) else " recipe"
        return (
            f"{whose(self.recipe, self.field)}{recipe} for {TITLES[self.recipe]}: {self.field} {self.value}"
        )

    def trouble(self, root: Path) -> str | None:
        """See whether the recipe says so."""
        from noiseproof.training.config import read_recipe

        said = read_recipe(self.recipe).get(self.field)
        return None if said == self.value else f"{self.recipe}: {self.field} is {said!r}, not {self.value!r}"


@dataclass(frozen=True)
class Numbers:
    """What was published for a loss on a data set.

    Example:
        >>> print(Numbers("anl-ce", "cifar100"))
        published for anl-ce on CIFAR-100: α 10, β 1, δ 5e-07
    """

    loss: str
    recipe: str

    def __str__(self) -> str:
        found = published_recipe(self.loss, self.recipe)
        return f"published for {self.loss} on {TITLES[self.recipe]}: {_in_greek(found)}"

    def trouble(self, root: Path) -> str | None:
        """See whether anything was published for them."""
        found = published_recipe(self.loss, self.recipe)
        known = found.hyperparameters or found.l1 or found.weight_decay is not None
        return None if known else f"nothing was published for {self.loss} on {self.recipe}"


@dataclass(frozen=True)
class StatedNumbers:
    """What our recipe for a data set states for a loss for which nothing was published.

    Example:
        >>> print(StatedNumbers("anl-ce", "isic2017"))
        our recipe for ISIC-2017 and anl-ce: α 1, β 1, δ 1e-07
    """

    loss: str
    recipe: str

    def __str__(self) -> str:
        found = stated_numbers(self.recipe, self.loss) or Recipe()
        return f"our recipe for {TITLES[self.recipe]} and {self.loss}: {_in_greek(found)}"

    def trouble(self, root: Path) -> str | None:
        """See whether the recipe states anything for the loss."""
        stated = stated_numbers(self.recipe, self.loss)
        return None if stated is not None else f"the recipe {self.recipe} states nothing for {self.loss}"


def stated_numbers(recipe: str, loss: str) -> Recipe | None:
    """What a recipe states for one loss under ``for_loss``, if anything.

    >>> stated_numbers("isic2017", "gce"), stated_numbers("isic2017", "ce")
    (Recipe(hyperparameters={'q': 0.3}, l1=0.0, weight_decay=None, by_noise=(), note=''), None)
    """
    from noiseproof.training.config import read_recipe

    for name, stated in read_recipe(recipe).get("for_loss", {}).items():
        if record(name).name == loss:
            return Recipe(
                stated.get("loss_parameters", {}), stated.get("l1", 0.0), stated.get("weight_decay")
            )
    return None


def _in_greek(numbers: Recipe) -> str:
    greek = {"alpha": "α", "beta": "β", "entropy_weight": "λ", "gamma": "γ"}
    said = [
        (name if value else f"not {name}")
        if isinstance(value, bool)
        else f"{greek.get(name, name)} {value:g}"
        for name, value in numbers.hyperparameters.items()
    ]
    said += [f"δ {numbers.l1:g}"] if numbers.l1 else []
    said += [f"weight decay {numbers.weight_decay:g}"] if numbers.weight_decay else []
    return ", ".join(said)


@dataclass(frozen=True)
class PictureSize:
    """Side of the pictures that a recipe of the paper is for.

    Example:
        >>> print(PictureSize("animal10n", 64))
        the paper's images of Animal-10N: 64 x 64
    """

    recipe: str
    side: int

    def __str__(self) -> str:
        return f"the paper's images of {TITLES[self.recipe]}: {self.side} x {self.side}"

    def trouble(self, root: Path) -> str | None:
        """See whether the data set's pictures are brought to this size, or have it."""
        from noiseproof.datasets.augment import recipe_for
        from noiseproof.datasets.registry import find

        dataset = "fashion-mnist" if self.recipe == "mnist-like" else self.recipe
        fit = recipe_for(dataset).train_fit
        facts = find(dataset).facts
        shape = fit.shape if fit is not None else facts[0].image_shape if facts else None
        return (
            None
            if shape is not None and shape[0] == self.side
            else f"{self.recipe}: {shape}, not {self.side}"
        )


@dataclass(frozen=True)
class ModelSize:
    """Side of the pictures that a network of the catalogue is made for.

    Example:
        >>> print(ModelSize("efficientnet-lite0", 224))
        EfficientNet-Lite0 is made for 224 x 224
    """

    model: str
    side: int

    def __str__(self) -> str:
        from noiseproof.models import record

        return f"{record(self.model).title} is made for {self.side} x {self.side}"

    def trouble(self, root: Path) -> str | None:
        """See whether the catalogue says so."""
        from noiseproof.models import record

        size = record(self.model).image_size
        return None if size == self.side else f"{self.model}: {size}, not {self.side}"
