# SPDX-License-Identifier: Apache-2.0
"""Rules for the estimator: tables, embeddings and pictures in arrays, trained with Adam in short."""

from noiseproof.planning.facts import Facts
from noiseproof.planning.own_sources import Measured, PageRow
from noiseproof.planning.rule import Rule
from noiseproof.planning.sources import RecipeField

BATCH = 256
STEPS = 300
LEAST_EPOCHS = 20
TABLE_LEARNING_RATE = 1e-2
NETWORK_LEARNING_RATE = 1e-3


def _is_table(facts: Facts, chosen: object) -> bool:
    return facts.form == "table"


def _batch(facts: Facts) -> int:
    return min(BATCH, facts.samples)


def _steps_an_epoch(facts: Facts) -> int:
    return -(-facts.samples // _batch(facts))


TABLE_RULES = (
    Rule(
        "table-batch",
        "batch_size",
        when="a table",
        then=f"{BATCH}, or all samples if there are fewer",
        applies=_is_table,
        value=lambda facts, chosen: _batch(facts),
        reason=lambda facts, chosen: f"{facts.samples} samples give {_steps_an_epoch(facts)} steps per epoch",
        sources=(
            Measured("batch", "256", "64", (86.1, 85.9)),
            Measured("batch", "256", "1024", (86.1, 85.5)),
        ),
    ),
    Rule(
        "table-epochs",
        "epochs",
        when="a table",
        then=f"enough for {STEPS} steps, at least {LEAST_EPOCHS}",
        applies=_is_table,
        value=lambda facts, chosen: max(LEAST_EPOCHS, -(-STEPS // _steps_an_epoch(facts))),
        reason=lambda facts, chosen: f"at least {STEPS} steps and {LEAST_EPOCHS} epochs",
        sources=(PageRow("half the epochs", (81.0, 65.7)), PageRow("twice the epochs", (81.6, 65.9))),
    ),
    Rule(
        "table-hidden",
        "hidden",
        when="a table",
        then="two hidden layers of 64",
        applies=_is_table,
        value=lambda facts, chosen: (64, 64),
        reason=lambda facts, chosen: (
            "wider layers were no better on any table measured, of up to 40,000 rows"
        ),
        sources=(
            PageRow("one hidden layer of 128", (80.0, 65.6)),
            PageRow("hidden layers of 256, 256", (81.2, 63.2)),
            Measured("hidden layers, up to 8,000 rows", "64, 64", "256, 256", (85.6, 84.7)),
            Measured("hidden layers, 40,000 rows", "64, 64", "256, 256", (85.2, 84.8)),
        ),
    ),
    Rule(
        "table-learning-rate-own",
        "learning_rate",
        when="the estimator with your own network",
        then="0.001",
        applies=lambda facts, chosen: facts.form == "table" and facts.own_network,
        value=lambda facts, chosen: NETWORK_LEARNING_RATE,
        reason=lambda facts, chosen: "the paper's choice for a network trained with Adam",
        sources=(
            RecipeField("isic2017", "optimizer", "adam"),
            RecipeField("isic2017", "learning_rate", NETWORK_LEARNING_RATE),
        ),
    ),
    Rule(
        "table-learning-rate",
        "learning_rate",
        when="the estimator's perceptron",
        then="0.01",
        applies=_is_table,
        value=lambda facts, chosen: TABLE_LEARNING_RATE,
        reason=lambda facts, chosen: "chosen by measurements with the perceptron",
        sources=(PageRow("learning rate / 3", (81.1, 65.6)), PageRow("learning rate x 3", (81.0, 65.9))),
    ),
)
