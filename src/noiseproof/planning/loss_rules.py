# SPDX-License-Identifier: Apache-2.0
"""Rules for the loss, its hyper-parameters α, β, λ, …, and the regulariser that goes with it."""

from typing import Any

from noiseproof.losses import Recipe, published_recipe, record
from noiseproof.losses.recipes import RECIPE_NAMES
from noiseproof.planning.facts import Facts
from noiseproof.planning.row_rules import MANY_CLASSES, OWN_ROWS, by_classes
from noiseproof.planning.rule import Chosen, Rule
from noiseproof.planning.sources import (
    TITLES,
    Cells,
    LittleData,
    LittleDataLosses,
    Measured,
    Numbers,
    PageRow,
    RecipeField,
    Source,
    StatedNumbers,
    choice_for,
    stated_numbers,
)

CONFUSED = ("asym", "dep", "real", "confused")
BALANCED = 0.3
"""Down to this share of the commonest class's samples in the rarest one, ANL-CE* was ahead of ANL-CE."""

NO_NOISE = 0.01
"""Where the lines between the paper's cells for no noise and 20% cross, of CE and ANL-CE on CIFAR-100: at 0.8%."""

FEW_GREY_IMAGES = 10_000
"""Up to here GCE was ahead of ANL-CE, whose published numbers for such images are for 60,000 of them."""

FEW_IMAGES = 3_000
"""Up to here ANL-CE* was ahead of ANL-CE under symmetric noise as well."""

EVEN_LABELS = 0.7
"""Share of the commonest class's labels that the rarest one has, down to which that was so."""

L1_AT_ONE_SAMPLE = 0.03
FEWEST_MEASURED = 100
"""Tables of fewer samples take the L1 strength of this many: nothing smaller was measured."""


def _noise_is(facts: Facts, *kinds: str) -> bool:
    return facts.noise is not None and facts.noise.kind in kinds


def _balanced_confusion(facts: Facts) -> bool:
    return _noise_is(facts, *CONFUSED) and facts.balance >= BALANCED


def _own_images(facts: Facts) -> bool:
    return facts.recipe not in OWN_ROWS and facts.form in ("pictures", "files")


def _few_grey_images(facts: Facts, chosen: Chosen) -> bool:
    return _own_images(facts) and chosen["row"] == "mnist-like" and facts.samples <= FEW_GREY_IMAGES


def _even_images(facts: Facts, chosen: Chosen) -> bool:
    return _own_images(facts) and chosen["row"] == "cifar10" and facts.balance >= EVEN_LABELS


def _noise_is_unknown(facts: Facts) -> bool:
    return facts.noise is None or facts.noise.kind is None


def _simple(loss: str) -> Any:
    return lambda facts, chosen: loss


LOSS_RULES = (
    Rule(
        "loss-masks",
        "loss",
        when="images with masks",
        then="`anl-ce`",
        applies=lambda facts, chosen: facts.form == "masks",
        value=_simple("anl-ce"),
        reason=lambda facts, chosen: (
            "the best loss in all but one noisy cell of the paper's table for ISIC-2017"
        ),
        sources=(
            Cells("isic2017-dice", "alpha-0.7-beta-0.7", "ANL-CE", "T-Loss"),
            Cells("isic2017-dice", "alpha-0.3-beta-0.5", "ANL-CE", "T-Loss"),
            Cells("isic2017-dice", "alpha-0.7-beta-0.7", "ANL-CE", "GCE"),
        ),
    ),
    Rule(
        "loss-no-noise",
        "loss",
        when=f"more than {MANY_CLASSES} classes, and at most {NO_NOISE:.0%} of the labels are wrong",
        then="`ce`",
        applies=lambda facts, chosen: (
            facts.classes > MANY_CLASSES and facts.noise is not None and facts.noise.rate <= NO_NOISE
        ),
        value=_simple("ce"),
        reason=lambda facts, chosen: (
            f"{facts.classes} classes and almost no wrong labels: nothing to protect against"
        ),
        sources=(Cells("cifar100", "clean", "CE", "ANL-CE"),),
    ),
    Rule(
        "loss-few-images-no-noise",
        "loss",
        when=f"at most {FEW_GREY_IMAGES:,} images of your own and at most {NO_NOISE:.0%} of the labels wrong",
        then="`ce`",
        applies=lambda facts, chosen: (
            _own_images(facts)
            and facts.samples <= FEW_GREY_IMAGES
            and facts.noise is not None
            and facts.noise.rate <= NO_NOISE
        ),
        value=_simple("ce"),
        reason=lambda facts, chosen: f"{facts.samples} images with hardly a wrong label: nothing to resist",
        sources=(
            LittleDataLosses("fashion14-clean 1000", "ce", "gce", (79.8, 77.8)),
            LittleDataLosses("fashion14-clean 3000", "ce", "gce", (84.7, 83.2)),
            LittleDataLosses("cifar10-small-clean 3000", "ce", "anl-ce*", (53.1, 52.1)),
        ),
    ),
    Rule(
        "loss-few-grey-images",
        "loss",
        when=f"your own grey images of at most 28 pixels, at most {FEW_GREY_IMAGES:,} of them",
        then="`gce`",
        applies=_few_grey_images,
        value=_simple("gce"),
        reason=lambda facts, chosen: (
            f"{facts.samples} small grey images: with values published for 60,000, ANL losses learn too slowly"
        ),
        sources=(
            LittleDataLosses("digits 500", "gce", "anl-ce", (89.8, 85.8)),
            LittleDataLosses("digits 1000", "gce", "anl-ce", (94.2, 89.0)),
            LittleDataLosses("fashion14 500", "gce", "anl-ce", (70.6, 65.0)),
            LittleDataLosses("fashion14 1000", "gce", "anl-ce", (75.1, 66.8)),
            LittleDataLosses("fashion14 3000", "gce", "anl-ce", (81.2, 69.1)),
            LittleDataLosses("fashion14 10000", "gce", "anl-ce", (84.5, 66.0)),
            LittleDataLosses("fashion 1000", "gce", "anl-ce", (76.2, 69.2)),
            LittleDataLosses("fashion14-sym-0.6 3000", "gce", "anl-ce", (77.2, 67.2)),
            LittleDataLosses("fashion14-asym-0.4 1000", "gce", "anl-ce*", (65.2, 63.8)),
            LittleDataLosses("fashion14-asym-0.4 3000", "gce", "anl-ce*", (74.3, 66.1)),
            LittleDataLosses("fashion14-clean 1000", "gce", "anl-ce", (77.8, 69.3)),
        ),
    ),
    Rule(
        "loss-confused",
        "loss",
        when=(
            f"classes are confused with one another, or labels contain human mistakes; at most {MANY_CLASSES} "
            f"classes; the rarest class has at least {BALANCED:.0%} as many samples as the commonest"
        ),
        then="`anl-ce*`",
        applies=lambda facts, chosen: facts.classes <= MANY_CLASSES and _balanced_confusion(facts),
        value=_simple("anl-ce*"),
        reason=lambda facts, chosen: "classes are confused with one another, and about equally frequent",
        sources=(
            Cells("cifar10", "asym-0.4", "ANL-CE*", "ANL-CE"),
            Cells("cifar10", "dep-0.4", "ANL-CE*", "ANL-CE"),
            Cells("cifar10", "real", "ANL-CE*", "ANL-CE"),
            Measured("balance 0.3", "anl-ce*", "anl-ce", (84.1, 81.4)),
            Measured("balance 0.2", "anl-ce", "anl-ce*", (82.5, 79.1)),
        ),
    ),
    Rule(
        "loss-confused-many-classes",
        "loss",
        when=(
            f"more than {MANY_CLASSES} classes; asymmetric noise of at least 30% in the affected classes, or human "
            "mistakes; balance as above"
        ),
        then="`anl-ce*`",
        applies=lambda facts, chosen: (
            facts.classes > MANY_CLASSES
            and _balanced_confusion(facts)
            and not _noise_is(facts, "dep")
            and facts.noise is not None
            and (facts.noise.kind == "real" or facts.noise.class_rate >= 0.3)
        ),
        value=_simple("anl-ce*"),
        reason=lambda facts, chosen: (
            "classes are often confused with one another, and about equally frequent"
        ),
        sources=(
            Cells("cifar100", "asym-0.4", "ANL-CE*", "ANL-CE"),
            Cells("cifar100", "real", "ANL-CE*", "ANL-CE"),
            Cells("cifar100", "asym-0.2", "ANL-CE", "ANL-CE*"),
        ),
    ),
    Rule(
        "loss-few-images",
        "loss",
        when=(
            f"at most {FEW_IMAGES:,} of your own images, on the row `cifar10`; the rarest class has at least "
            f"{EVEN_LABELS:.0%} as many labels as the commonest"
        ),
        then="`anl-ce*`",
        applies=lambda facts, chosen: _even_images(facts, chosen) and facts.samples <= FEW_IMAGES,
        value=_simple("anl-ce*"),
        reason=lambda facts, chosen: (
            f"{facts.samples} images of about equally frequent classes: its entropy term keeps every class in play"
        ),
        sources=(
            LittleDataLosses("cifar10-small 1000", "anl-ce*", "anl-ce", (35.4, 32.0)),
            LittleDataLosses("cifar10-small 3000", "anl-ce*", "anl-ce", (44.3, 42.7)),
            LittleDataLosses("cifar10-small 3000", "anl-ce*", "gce", (44.3, 39.0)),
            LittleDataLosses("cifar10-small-asym-0.4 3000", "anl-ce*", "ce", (49.9, 45.8)),
            LittleDataLosses("cifar10-uneven 3000", "anl-ce*", "anl-ce", (41.5, 40.9)),
        ),
    ),
    Rule(
        "loss-unknown-noise",
        "loss",
        when=(
            "your own images with unknown noise, on the row `cifar10`; the rarest class has at least "
            f"{EVEN_LABELS:.0%} as many labels as the commonest"
        ),
        then="`anl-ce*`",
        applies=lambda facts, chosen: _even_images(facts, chosen) and _noise_is_unknown(facts),
        value=_simple("anl-ce*"),
        reason=lambda facts, chosen: (
            "the noise is unknown: this loss gains much where classes are confused and loses little elsewhere"
        ),
        sources=(
            Cells("cifar10", "real", "ANL-CE*", "ANL-CE"),
            Cells("cifar10", "asym-0.4", "ANL-CE*", "ANL-CE"),
            Cells("cifar10", "dep-0.4", "ANL-CE*", "ANL-CE"),
            Cells("cifar10", "sym-0.4", "ANL-CE", "ANL-CE*"),
            Cells("cifar10", "clean", "ANL-CE", "ANL-CE*"),
        ),
    ),
    Rule(
        "loss-default",
        "loss",
        when="everything else, including unknown noise",
        then="`anl-ce`",
        applies=lambda facts, chosen: True,
        value=_simple("anl-ce"),
        reason=lambda facts, chosen: "the best loss, or close to it, under every noise in the paper's tables",
        sources=(
            Cells("cifar10", "clean", "ANL-CE", "CE"),
            Cells("cifar10", "sym-0.4", "ANL-CE", "APL"),
            Cells("cifar10", "sym-0.8", "ANL-CE", "GCE"),
            Cells("cifar100", "sym-0.4", "ANL-CE", "APL"),
        ),
    ),
)


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
        then="0.03/√n, at most 0.003",
        applies=lambda facts, chosen: (
            facts.form == "table" and not facts.own_network and numbers_of(facts, chosen)[0].l1 > 0
        ),
        value=lambda facts, chosen: L1_AT_ONE_SAMPLE / max(facts.samples, FEWEST_MEASURED) ** 0.5,
        reason=lambda facts, chosen: f"0.03/√n for a table of {max(facts.samples, FEWEST_MEASURED)} samples",
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
