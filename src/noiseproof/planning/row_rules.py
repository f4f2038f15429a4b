# SPDX-License-Identifier: Apache-2.0
"""Rules for the row of the paper that is nearest to the data: numbers of a row go together."""

from noiseproof.planning.facts import Facts
from noiseproof.planning.own_sources import Recorded
from noiseproof.planning.rule import Chosen, Rule
from noiseproof.planning.sources import Cells, Numbers, PictureSize, RecipeField, Source

MANY_CLASSES = 50
"""Above this the paper's row for CIFAR-100 is nearer than the one for CIFAR-10."""

SAMPLES = {
    "cifar10": 50_000,
    "cifar100": 50_000,
    "mnist-like": 60_000,
    "webvision-mini": 66_000,
    "animal10n": 50_000,
    "clothing1m": 1_000_000,
}
"""Training pictures behind each row of the paper."""

SIDES = {
    "cifar10": 32,
    "cifar100": 32,
    "mnist-like": 28,
    "webvision-mini": 224,
    "animal10n": 64,
    "clothing1m": 224,
}
"""The side of the pictures of each row."""

OWN_ROWS = (*SAMPLES, "digits")
"""Recipes that are a data set's own row; data with masks has a rule by itself."""


def own_images(facts: Facts) -> bool:
    """Whether these are images of the user's own, and not a set of the paper."""
    return facts.recipe not in OWN_ROWS and facts.form in ("pictures", "files")


def by_classes(classes: int) -> str:
    """The row of the two that the paper has every loss and noise for.

    >>> by_classes(50), by_classes(51)
    ('cifar10', 'cifar100')
    """
    return "cifar100" if classes > MANY_CLASSES else "cifar10"


def _row(name: str, row: str, when: str, applies: "object", reason: str, *sources: Source) -> Rule:
    condition = applies
    assert callable(condition)
    return Rule(
        name=name,
        field="row",
        when=when,
        then=f"the row `{row}`",
        applies=lambda facts, chosen: bool(condition(facts)),
        value=lambda facts, chosen: row,
        reason=lambda facts, chosen: reason.format(facts=facts),
        sources=sources,
    )


def _half(row: str) -> int:
    return SAMPLES[row] // 2


def _own(facts: Facts, chosen: Chosen) -> tuple[Source, ...]:
    if facts.recipe == "digits":
        return (DIGITS_LEAD,)
    assert facts.recipe is not None
    return (RecipeField(facts.recipe, "model", _MODELS[facts.recipe]),)


_MODELS = {
    "cifar10": "cnn8",
    "cifar100": "resnet34-cifar",
    "mnist-like": "mnist-cnn",
    "webvision-mini": "resnet50",
    "animal10n": "vgg19-bn",
    "clothing1m": "resnet50",
}

DIGITS_LEAD = Recorded(
    "digits, sym-0.6, anl-ce against ce",
    ("897bb94a40cbccf7", "4e7cfb7dcce70edd", "f524b718568529ae"),
    ("3af8638ec76d4934", "565425dfdf64b855", "d83e06343c7c6e79"),
    (94.4, 54.5),
)

ROW_RULES = (
    _row(
        "masks",
        "isic2017",
        "images with masks",
        lambda facts: facts.form == "masks",
        "images with masks: the paper's row for segmentation",
        RecipeField("isic2017", "optimizer", "adam"),
    ),
    Rule(
        name="own-row",
        field="row",
        when="the data set has a recipe of its own",
        then="its own row",
        applies=lambda facts, chosen: facts.recipe in OWN_ROWS,
        value=lambda facts, chosen: facts.recipe,
        reason=lambda facts, chosen: "the data set's own",
        sources=(*(RecipeField(name, "model", model) for name, model in _MODELS.items()), DIGITS_LEAD),
        cites=_own,
    ),
    _row(
        "many-classes-large-pictures",
        "webvision-mini",
        f"at least {MANY_CLASSES} classes and {_half('webvision-mini'):,} images of at least 224 pixels",
        lambda facts: (
            facts.classes >= MANY_CLASSES and facts.side >= 224 and facts.samples >= _half("webvision-mini")
        ),
        "{facts.classes} classes and {facts.samples} images of {facts.side} pixels: WebVision-mini is closest",
        PictureSize("webvision-mini", 224),
        Numbers("anl-ce", "webvision-mini"),
    ),
    _row(
        "many-classes",
        "cifar100",
        f"more than {MANY_CLASSES} classes",
        lambda facts: facts.classes > MANY_CLASSES,
        "{facts.classes} classes: CIFAR-100 is closest",
        Numbers("anl-ce", "cifar100"),
        Cells("cifar100", "sym-0.4", "ANL-CE", "CE"),
    ),
    _row(
        "tables",
        "cifar10",
        f"a table, at most {MANY_CLASSES} classes",
        lambda facts: facts.form == "table",
        "{facts.classes} classes: CIFAR-10 is closest",
        Numbers("anl-ce", "cifar10"),
    ),
    _row(
        "small-grey-pictures",
        "mnist-like",
        "grey images of at most 28 pixels",
        lambda facts: facts.grey and 0 < facts.side <= 28,
        "grey images of {facts.side} pixels: MNIST and the like are closest",
        PictureSize("mnist-like", 28),
        Numbers("anl-ce", "mnist-like"),
    ),
    _row(
        "many-large-pictures",
        "animal10n",
        f"at least {_half('animal10n'):,} images of at least 64 pixels",
        lambda facts: facts.side >= 64 and facts.samples >= _half("animal10n"),
        "{facts.samples} images of {facts.side} pixels: Animal-10N is closest",
        PictureSize("animal10n", 64),
        Cells("animal10n", "test", "ANL-CE", "CE"),
    ),
    _row(
        "few-classes",
        "cifar10",
        "everything else",
        lambda facts: True,
        "{facts.classes} classes: CIFAR-10 is closest, and the row with results for most noises and losses",
        Numbers("anl-ce", "cifar10"),
        Cells("cifar10", "sym-0.4", "ANL-CE", "CE"),
    ),
)
