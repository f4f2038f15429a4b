# SPDX-License-Identifier: Apache-2.0
"""Rules for a loss's hyperparameters α, β, λ, …, and for the regulariser that goes with it."""

from noiseproof.losses import Recipe, published_recipe, record
from noiseproof.losses.recipes import RECIPE_NAMES
from noiseproof.planning.facts import Facts
from noiseproof.planning.own_sources import LittleData, PageRow
from noiseproof.planning.row_rules import by_classes
from noiseproof.planning.rule import Chosen, Rule
from noiseproof.planning.sources import (
    TITLES,
    Numbers,
    RecipeField,
    Source,
    StatedNumbers,
    choice_for,
    stated_numbers,
)

L1_AT_ONE_SAMPLE = 0.03
FEWEST_MEASURED = 100
"""Tables of fewer samples take the L1 strength of this many: nothing smaller was measured."""


CLASSES_MEASURED = 10
"""Up to so many classes the strength is as it is; a sample's pull on its class falls with their number."""


def _less_for_many_classes(facts: Facts) -> float:
    return min(1.0, CLASSES_MEASURED / facts.classes) ** 2


def numbers_of(facts: Facts, chosen: Chosen) -> tuple[Recipe, str | None]:
    """What the row itself states for the loss, or was published on it, or on the row of the two that have all."""
    from noiseproof.training.config import read_recipe

    loss, row = record(str(chosen["loss"])).name, str(chosen["row"])
    if (stated := stated_numbers(row, loss)) is not None:
        return stated, row
    own = row if row in RECIPE_NAMES else str(read_recipe(row).get("published_for", ""))
    for name in (own, by_classes(facts.classes)):
        if own and name in record(loss).recipes:
            return published_recipe(loss, name), name
    return Recipe(), None


def _entropy_weight_is_missing(facts: Facts, chosen: Chosen) -> bool:
    row = str(chosen["row"])
    return (
        record(str(chosen["loss"])).name == "anl-ce*"
        and row in record("anl-ce").recipes
        and (row not in record("anl-ce*").recipes)
    )


def _with_entropy_weight(facts: Facts, chosen: Chosen) -> dict[str, float]:
    """λ of the nearest row that has one, weighed against α and β as it is there."""
    near = published_recipe("anl-ce*", by_classes(facts.classes)).hyperparameters
    own = published_recipe("anl-ce", str(chosen["row"])).hyperparameters
    share = (own["alpha"] + own["beta"]) / (near["alpha"] + near["beta"])
    return {**own, "entropy_weight": round(near["entropy_weight"] * share, 4)}


def _published_numbers(facts: Facts, chosen: Chosen) -> dict[str, float]:
    return numbers_of(facts, chosen)[0].for_noise(facts.noise.name if facts.noise else None)


def _is_published(facts: Facts, chosen: Chosen) -> bool:
    return numbers_of(facts, chosen)[1] is not None


def _cited_numbers(facts: Facts, chosen: Chosen) -> tuple[Source, ...]:
    _, name = numbers_of(facts, chosen)
    loss = record(str(chosen["loss"])).name
    if name is None:
        return ()
    return (StatedNumbers(loss, name) if stated_numbers(name, loss) is not None else Numbers(loss, name),)


def _why_numbers(facts: Facts, chosen: Chosen) -> str:
    _, name = numbers_of(facts, chosen)
    loss = record(str(chosen["loss"])).name
    if stated_numbers(str(name), loss) is not None:
        return f"our values for {TITLES[str(name)]} and {loss}; none are published"
    return f"{facts.classes} classes: published for {TITLES[str(name)]} and {loss}"


ALL_NUMBERS: tuple[Source, ...] = (
    *(Numbers(loss, row) for loss in ("anl-ce", "anl-fl", "anl-ce*") for row in record(loss).recipes),
    StatedNumbers("anl-ce", "isic2017"),
)

IN_PROPORTION = (
    LittleData("digits 500", "anl-ce*", "lambda 0.4", "lambda 2", (80.5, 70.6)),
    LittleData("digits 1000", "anl-ce*", "lambda 0.4", "lambda 2", (88.4, 79.7)),
    LittleData("fashion14 3000", "anl-ce*", "lambda 0.4", "lambda 2", (70.9, 69.6)),
)
"""λ beside α = β = 1: CIFAR-10's 2 is published beside 5 and 5."""

PARAMETER_RULES = (
    Rule(
        "numbers-with-lambda",
        "loss_parameters",
        when="`anl-ce*` on a row for which no λ was published",
        then="α and β of ANL-CE on the row; λ of CIFAR-10 (above 50 classes: CIFAR-100), in proportion to α + β",
        applies=_entropy_weight_is_missing,
        value=_with_entropy_weight,
        reason=lambda facts, chosen: (
            f"α and β are published for {TITLES[str(chosen['row'])]} and anl-ce; λ is that of "
            f"{TITLES[by_classes(facts.classes)]}, in proportion to α + β, since no closer one is published"
        ),
        sources=(
            Numbers("anl-ce", "mnist-like"),
            Numbers("anl-ce", "animal10n"),
            Numbers("anl-ce*", "cifar10"),
            Numbers("anl-ce*", "cifar100"),
            *IN_PROPORTION,
        ),
        cites=lambda facts, chosen: (
            Numbers("anl-ce", str(chosen["row"])),
            Numbers("anl-ce*", by_classes(facts.classes)),
            *IN_PROPORTION,
        ),
    ),
    Rule(
        "numbers-of-the-row",
        "loss_parameters",
        when="hyperparameters were published for the loss, or the row's recipe states some",
        then="those of the row; if the loss has none there, those of CIFAR-10 (above 50 classes: CIFAR-100)",
        applies=lambda facts, chosen: (
            _is_published(facts, chosen) and bool(_published_numbers(facts, chosen))
        ),
        value=_published_numbers,
        reason=_why_numbers,
        sources=ALL_NUMBERS,
        cites=_cited_numbers,
    ),
)

REGULARISER_RULES = (
    Rule(
        "l1-of-tables",
        "l1",
        when="a table, the estimator's perceptron, and a loss published with L1",
        then="0.03/√n, at most 0.003; for K > 10 classes times (10/K)²",
        applies=lambda facts, chosen: (
            facts.form == "table" and not facts.own_network and numbers_of(facts, chosen)[0].l1 > 0
        ),
        value=lambda facts, chosen: (
            L1_AT_ONE_SAMPLE / max(facts.samples, FEWEST_MEASURED) ** 0.5 * _less_for_many_classes(facts)
        ),
        reason=lambda facts, chosen: (
            f"0.03/√n for a table of {max(facts.samples, FEWEST_MEASURED)} samples"
            + (f", times (10/{facts.classes})²" if facts.classes > CLASSES_MEASURED else "")
        ),
        sources=(
            PageRow("no L1", (80.4, 63.8)),
            PageRow("L1 / 3", (81.4, 64.7)),
            PageRow("L1 x 3", (80.7, 62.9)),
        ),
    ),
    Rule(
        "l1-lambda",
        "l1",
        when="`anl-ce*` on a row for which no λ was published",
        then="δ of ANL-CE on the row",
        applies=_entropy_weight_is_missing,
        value=lambda facts, chosen: published_recipe("anl-ce", str(chosen["row"])).l1,
        reason=lambda facts, chosen: f"published for {TITLES[str(chosen['row'])]} and anl-ce",
        sources=(Numbers("anl-ce", "mnist-like"), Numbers("anl-ce", "animal10n")),
        cites=lambda facts, chosen: (Numbers("anl-ce", str(chosen["row"])),),
    ),
    Rule(
        "l1-of-the-row",
        "l1",
        when="a loss published with L1",
        then="the row's δ",
        applies=lambda facts, chosen: numbers_of(facts, chosen)[0].l1 > 0,
        value=lambda facts, chosen: numbers_of(facts, chosen)[0].l1,
        reason=lambda facts, chosen: f"{_why_numbers(facts, chosen)}, instead of weight decay",
        sources=ALL_NUMBERS,
        cites=_cited_numbers,
    ),
    Rule(
        "weight-decay-of-the-loss",
        "weight_decay",
        when="a loss published with its own weight decay, which is 0 for most losses with L1",
        then="that value",
        applies=lambda facts, chosen: (
            _entropy_weight_is_missing(facts, chosen) or numbers_of(facts, chosen)[0].weight_decay is not None
        ),
        value=lambda facts, chosen: numbers_of(facts, chosen)[0].weight_decay or 0.0,
        reason=lambda facts, chosen: (
            "L1 is used instead"
            if not numbers_of(facts, chosen)[0].weight_decay
            else _why_numbers(facts, chosen)
        ),
        sources=(*ALL_NUMBERS, Numbers("gce", "animal10n")),
        cites=_cited_numbers,
    ),
    Rule(
        "weight-decay-of-the-row",
        "weight_decay",
        when="every other loss",
        then="the row's",
        applies=lambda facts, chosen: True,
        value=lambda facts, chosen: _row_decay(chosen),
        reason=lambda facts, chosen: (
            f"{choice_for(_paper_row(chosen), 'weight_decay')} and losses without L1"
        ),
        sources=(
            RecipeField("cifar10", "weight_decay", 1e-4),
            RecipeField("cifar100", "weight_decay", 1e-5),
            RecipeField("mnist-like", "weight_decay", 1e-3),
            RecipeField("webvision-mini", "weight_decay", 3e-5),
            RecipeField("animal10n", "weight_decay", 1e-3),
            RecipeField("clothing1m", "weight_decay", 1e-3),
            RecipeField("isic2017", "weight_decay", 5e-6),
        ),
        cites=lambda facts, chosen: (RecipeField(_paper_row(chosen), "weight_decay", _row_decay(chosen)),),
    ),
)


def _paper_row(chosen: Chosen) -> str:
    return "cifar10" if chosen["row"] == "digits" else str(chosen["row"])


def _row_decay(chosen: Chosen) -> float:
    from noiseproof.training.config import read_recipe

    return float(read_recipe(_paper_row(chosen))["weight_decay"])
