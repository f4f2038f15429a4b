# SPDX-License-Identifier: Apache-2.0
"""Rules for how to train: network, picture size, batch, epochs, optimiser, learning rate."""

from typing import Any

from noiseproof.planning.facts import Facts
from noiseproof.planning.own_sources import LittleData, Recorded
from noiseproof.planning.row_rules import DIGITS_LEAD, OWN_ROWS, SAMPLES, SIDES, own_images
from noiseproof.planning.rule import Chosen, Rule, of_the_row
from noiseproof.planning.sources import TITLES, PictureSize, RecipeField, choice_for

LEAST_EPOCHS = 10

LEAST_STEPS = 500
"""Of a whole training. Below it the batch is made smaller; more passes instead learn wrong labels by heart."""

FITS_SLOWLY = "anl-"
"""Beginning of the names of losses that are slow to fit: cross-entropy is fast, and loses by more steps."""

SMALLEST_BATCH = 16
SMALLEST_BATCH_OF_MASKS = 4
"""Of masks every pixel is a sample."""

FEW_MASKS = 100
"""With fewer, a learning rate that falls by a fifth an epoch is gone too soon; with 200, a lasting one is worse."""

FIELDS = (
    "model",
    "model_options",
    "batch_size",
    "epochs",
    "optimizer",
    "learning_rate",
    "momentum",
    "nesterov",
    "schedule",
    "schedule_factor",
    "schedule_milestones",
    "clip_norm",
)
"""What a row says of training, beside the loss and its regulariser."""

BY_MASKS = ("batch_size", "epochs", "optimizer", "learning_rate", "schedule", "schedule_factor", "clip_norm")
"""Of which the row of ISIC-2017 says these; its network has a rule of its own."""

DIGITS = ("d28f3e4388861f26", "a38fadc51f564cc8", "14be0674f88db4d6")
DIGITS_BATCHES = (
    Recorded(
        "digits, sym-0.4, batch 64 against 128",
        DIGITS,
        ("0cc15268e3a78688", "f153e1986083b820", "21865c372a61667c"),
        (98.3, 94.6),
    ),
    Recorded(
        "digits, sym-0.4, batch 64 against 32",
        DIGITS,
        ("3dc27a93ba3dc8b3", "b0b5ea49470500ee", "be046bb4e8893a6a"),
        (98.3, 96.8),
    ),
)

FEW_PICTURES = (
    LittleData("digits 100", "anl-ce", "batch 16", "row", (58.5, 20.6)),
    LittleData("digits 200", "anl-ce", "batch 16", "row", (71.5, 40.0)),
    LittleData("digits 200", "anl-ce", "batch 32", "batch 32, 2000 steps", (64.6, 53.5)),
    LittleData("digits 500", "anl-ce", "batch 32", "row", (85.8, 61.3)),
    LittleData("digits 1000", "anl-ce", "batch 64", "row", (88.7, 79.8)),
    LittleData("fashion14 200", "anl-ce", "batch 16", "row", (55.8, 35.9)),
    LittleData("fashion14 500", "anl-ce", "batch 32", "row", (64.0, 53.9)),
    LittleData("fashion14 1000", "anl-ce", "batch 64", "row", (66.4, 61.7)),
    LittleData("fashion 200", "anl-ce", "batch 32", "batch 32, 2000 steps", (58.4, 41.3)),
    LittleData("cifar10 200", "anl-ce", "batch 32", "row", (24.8, 21.5)),
)
"""Accuracies: the batch is as planned, and more passes are worse."""

SMALL_BATCHES_OF_MASKS = (LittleData("isic 20", "anl-ce", "cosine, batch 4", "cosine", (67.4, 64.7)),)
SCHEDULES_OF_MASKS = (
    LittleData("isic 20", "anl-ce", "cosine", "row", (64.7, 56.8)),
    LittleData("isic 60", "anl-ce", "cosine", "row", (72.2, 70.5)),
    LittleData("isic 200", "anl-ce", "row", "cosine", (74.3, 68.9)),
)


def _own_masks(facts: Facts) -> bool:
    return facts.recipe is None and facts.form == "masks"


def _side_of_masks(facts: Facts) -> int:
    return min(256, max(16, facts.side // 16 * 16))


def _steps_an_epoch(facts: Facts, batch: int) -> str:
    steps = -(-facts.samples // batch)
    return f"{facts.samples} training images give {steps} step{'s' * (steps > 1)} per epoch"


def _steps_with(batch: int, facts: Facts, chosen: Chosen) -> int:
    return int(of_the_row(chosen, "epochs")) * -(-facts.samples // batch)


def _smaller_batch(facts: Facts, chosen: Chosen) -> int:
    """The row's batch, halved until its epochs give enough steps."""
    batch, least = int(of_the_row(chosen, "batch_size")), SMALLEST_BATCH
    if facts.form == "masks":
        least = SMALLEST_BATCH_OF_MASKS
    while batch > least and _steps_with(batch, facts, chosen) < LEAST_STEPS:
        batch //= 2
    return batch


def _too_few_steps(facts: Facts, chosen: Chosen) -> str:
    row, batch = of_the_row(chosen, "batch_size"), _smaller_batch(facts, chosen)
    return (
        f"{facts.samples} training images in the paper's batches of {row} give "
        f"{_steps_with(row, facts, chosen)} steps in {of_the_row(chosen, 'epochs')} epochs, too few to learn much; "
        f"batches of {batch} give {_steps_with(batch, facts, chosen)}"
    )


def _same_steps(facts: Facts, chosen: Chosen) -> int:
    row = str(chosen["row"])
    return max(LEAST_EPOCHS, -(-int(of_the_row(chosen, "epochs")) * SAMPLES[row] // facts.samples))


SPECIAL_RULES = (
    Rule(
        "network-masks",
        "model",
        when="images with masks",
        then="`unet`",
        applies=lambda facts, chosen: facts.form == "masks",
        value=lambda facts, chosen: "unet",
        reason=lambda facts, chosen: (
            "the paper's nnU-Net in plain form, sized by nnU-Net's rule; nnunet is the same network from MONAI"
        ),
        sources=(RecipeField("isic2017", "model", "nnunet"),),
    ),
    Rule(
        "size-masks",
        "image_size",
        when="images with masks",
        then="the shorter side, rounded down to a multiple of 16, at most 256",
        applies=lambda facts, chosen: facts.form == "masks",
        value=lambda facts, chosen: _side_of_masks(facts),
        reason=lambda facts, chosen: (
            f"at most the paper's 256; the shorter side of the images is {facts.side}"
        ),
        sources=(PictureSize("isic2017", 256),),
    ),
    Rule(
        "batch-little-data",
        "batch_size",
        when="an ANL loss and so few of your own images that the row's batch size and epochs give fewer than "
        f"{LEAST_STEPS} steps",
        then=f"the row's, halved until they give {LEAST_STEPS}, but at least {SMALLEST_BATCH} (masks: "
        f"{SMALLEST_BATCH_OF_MASKS})",
        applies=lambda facts, chosen: (
            (_own_masks(facts) or (own_images(facts) and chosen["row"] in ("cifar10", "mnist-like")))
            and str(chosen["loss"]).startswith(FITS_SLOWLY)
            and _steps_with(of_the_row(chosen, "batch_size"), facts, chosen) < LEAST_STEPS
        ),
        value=_smaller_batch,
        reason=_too_few_steps,
        sources=(*FEW_PICTURES, *SMALL_BATCHES_OF_MASKS),
        cites=lambda facts, chosen: SMALL_BATCHES_OF_MASKS if facts.form == "masks" else FEW_PICTURES,
    ),
    Rule(
        "schedule-few-masks",
        "schedule",
        when=f"fewer than {FEW_MASKS:,} of your own images with masks",
        then="`cosine`",
        applies=lambda facts, chosen: _own_masks(facts) and facts.samples < FEW_MASKS,
        value=lambda facts, chosen: "cosine",
        reason=lambda facts, chosen: (
            f"the paper's learning rate falls by a fifth every epoch, and epochs of {facts.samples} images are "
            "short: it would vanish before anything is learnt"
        ),
        sources=SCHEDULES_OF_MASKS,
    ),
    Rule(
        "size-of-the-row",
        "image_size",
        when="image files",
        then="the size of the row's images",
        applies=lambda facts, chosen: facts.form == "files" and chosen["row"] in SIDES and own_images(facts),
        value=lambda facts, chosen: SIDES[str(chosen["row"])],
        reason=lambda facts, chosen: (
            f"the size that the network and values of {TITLES[str(chosen['row'])]} are made for; larger is slower"
        ),
        sources=tuple(PictureSize(row, side) for row, side in SIDES.items()),
        cites=lambda facts, chosen: (PictureSize(str(chosen["row"]), SIDES[str(chosen["row"])]),),
    ),
    Rule(
        "epochs-many-samples",
        "epochs",
        when="more of your own images than the row has",
        then=f"as many steps as the row, at least {LEAST_EPOCHS} epochs",
        applies=lambda facts, chosen: (
            own_images(facts) and facts.samples > SAMPLES.get(str(chosen["row"]), facts.samples)
        ),
        value=_same_steps,
        reason=lambda facts, chosen: (
            f"as many steps as {of_the_row(chosen, 'epochs')} epochs of {TITLES[str(chosen['row'])]}, at least "
            f"{LEAST_EPOCHS} epochs"
        ),
        sources=(RecipeField("cifar10", "epochs", 120), RecipeField("clothing1m", "epochs", LEAST_EPOCHS)),
        cites=lambda facts, chosen: (
            RecipeField(str(chosen["row"]), "epochs", of_the_row(chosen, "epochs")),
            RecipeField("clothing1m", "epochs", LEAST_EPOCHS),
        ),
    ),
)


def _of_digits(field: str) -> tuple[Recorded, ...]:
    return DIGITS_BATCHES if field == "batch_size" else (DIGITS_LEAD,)


def _of_a_row(row: str, field: str, value: Any) -> Rule:
    if field == "batch_size":
        reason = lambda facts, chosen: _steps_an_epoch(facts, value)  # noqa: E731
    elif row == "digits":
        reason = lambda facts, chosen: "our choice for digits"  # noqa: E731
    else:
        reason = lambda facts, chosen: choice_for(row, field)  # noqa: E731
    return Rule(
        f"{row}-{field}".replace("_", "-"),
        field,
        when=f"the row is `{row}`",
        then=f"`{value}`",
        applies=lambda facts, chosen: (
            chosen["row"] == row
            and facts.form != "table"
            and not (field == "schedule_factor" and chosen.get("schedule") in ("cosine", "constant"))
        ),
        value=lambda facts, chosen: value,
        reason=reason,
        sources=_of_digits(field) if row == "digits" else (RecipeField(row, field, value),),
    )


def row_field_rules() -> tuple[Rule, ...]:
    """One rule a row and field, read from the recipes."""
    from noiseproof.training.config import read_recipe

    rules = []
    for row in (*OWN_ROWS, "isic2017"):
        recipe = read_recipe(row)
        for field in BY_MASKS if row == "isic2017" else FIELDS:
            if field in recipe:
                rules.append(_of_a_row(row, field, recipe[field]))
    return tuple(rules)
