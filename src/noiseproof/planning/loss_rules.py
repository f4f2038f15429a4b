# SPDX-License-Identifier: Apache-2.0
"""Rules for the loss."""

from noiseproof.planning.facts import Facts
from noiseproof.planning.own_sources import LittleDataLosses, Measured
from noiseproof.planning.row_rules import MANY_CLASSES, own_images
from noiseproof.planning.rule import Chosen, Rule, always
from noiseproof.planning.sources import Cells

CONFUSED = ("asym", "dep", "real", "confused")
BALANCED = 0.3
"""Down to this share of the commonest class's samples in the rarest one, ANL-CE* was ahead of ANL-CE."""

NO_NOISE = 0.01
"""Where the lines between the paper's cells for no noise and 20% cross, of CE and ANL-CE on CIFAR-100: at 0.8%."""

FEW_GREY_IMAGES = 10_000
"""Up to here GCE was ahead of ANL-CE, whose published numbers for such images are for 60,000 of them."""

FEW_IMAGES = 3_000
"""Up to here ANL-CE* was ahead of ANL-CE under symmetric noise as well, and without noise cross-entropy was ahead
of what is planned otherwise."""

EVEN_LABELS = 0.7
"""Share of the commonest class's labels that the rarest one has, down to which that was so."""


def _noise_is(facts: Facts, *kinds: str) -> bool:
    return facts.noise is not None and facts.noise.kind in kinds


def _balanced_confusion(facts: Facts) -> bool:
    return _noise_is(facts, *CONFUSED) and facts.balance >= BALANCED


def _few_grey_images(facts: Facts, chosen: Chosen) -> bool:
    return own_images(facts) and chosen["row"] == "mnist-like" and facts.samples <= FEW_GREY_IMAGES


def _even_images(facts: Facts, chosen: Chosen) -> bool:
    return own_images(facts) and chosen["row"] == "cifar10" and facts.balance >= EVEN_LABELS


def _has_hardly_any_noise(facts: Facts) -> bool:
    return facts.noise is not None and facts.noise.rate <= NO_NOISE and not facts.noise.is_uncertain


def _noise_is_unknown(facts: Facts) -> bool:
    return facts.noise is None or facts.noise.kind is None


LOSS_RULES = (
    Rule(
        "loss-masks",
        "loss",
        when="images with masks",
        then="`anl-ce`",
        applies=lambda facts, chosen: facts.form == "masks",
        value=always("anl-ce"),
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
        applies=lambda facts, chosen: facts.classes > MANY_CLASSES and _has_hardly_any_noise(facts),
        value=always("ce"),
        reason=lambda facts, chosen: (
            f"{facts.classes} classes and almost no wrong labels: nothing to protect against"
        ),
        sources=(Cells("cifar100", "clean", "CE", "ANL-CE"),),
    ),
    Rule(
        "loss-few-images-no-noise",
        "loss",
        when=f"at most {FEW_IMAGES:,} images of your own and at most {NO_NOISE:.0%} of the labels wrong",
        then="`ce`",
        applies=lambda facts, chosen: (
            own_images(facts) and facts.samples <= FEW_IMAGES and _has_hardly_any_noise(facts)
        ),
        value=always("ce"),
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
        value=always("gce"),
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
        value=always("anl-ce*"),
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
        value=always("anl-ce*"),
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
        value=always("anl-ce*"),
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
        value=always("anl-ce*"),
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
        value=always("anl-ce"),
        reason=lambda facts, chosen: "the best loss, or close to it, under every noise in the paper's tables",
        sources=(
            Cells("cifar10", "clean", "ANL-CE", "CE"),
            Cells("cifar10", "sym-0.4", "ANL-CE", "APL"),
            Cells("cifar10", "sym-0.8", "ANL-CE", "GCE"),
            Cells("cifar100", "sym-0.4", "ANL-CE", "APL"),
        ),
    ),
)
