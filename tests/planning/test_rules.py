# SPDX-License-Identifier: Apache-2.0
"""Every rule has sources that exist and say what the rule claims, and every rule is reached by some data."""

import runpy
from pathlib import Path

import pytest

from noiseproof.losses import available, published_recipe
from noiseproof.planning import Facts, Noise, decide, rules
from noiseproof.planning.sources import (
    Cells,
    Measured,
    Numbers,
    PageRow,
    PictureSize,
    RecipeField,
    Recorded,
    StatedNumbers,
)
from noiseproof.results import published
from noiseproof.training import Config, resolve
from noiseproof.training.config import read_recipe

ROOT = Path(__file__).parents[2]


def facts(**changes):
    return Facts(
        **({"name": "folder:x", "samples": 3_000, "classes": 10, "form": "files", "side": 200} | changes)
    )


def chosen(given, **said):
    return {choice.field: choice for choice in decide(given, said)}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_every_source_exists_and_says_so(rule):
    assert rule.sources, f"{rule.name} rests on nothing"
    for source in rule.sources:
        assert source.trouble(ROOT) is None
        assert str(source)


def test_rules_have_names_of_their_own():
    names = [rule.name for rule in rules()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "wrong",
    [
        Cells("cifar10", "asym-0.4", "ANL-CE", "ANL-CE*"),
        Cells("cifar10", "sym-0.5", "ANL-CE", "CE"),
        RecipeField("cifar10", "epochs", 121),
        RecipeField("cifar10", "gamma", 1),
        Numbers("mae", "cifar10"),
        StatedNumbers("mae", "isic2017"),
        PictureSize("animal10n", 65),
        PageRow("no L1", (80.4, 63.9)),
        PageRow("loss anl-ce*", (81.9, 66.5)),  # better than automatic: supports nothing
        PageRow("no such row", ()),
        Measured("balance 0.2", "anl-ce*", "anl-ce", (79.1, 82.5)),
        Measured("balance 0.2", "anl-ce", "anl-ce*", (82.5, 79.2)),
        Measured("balance 0.25", "anl-ce", "anl-ce*", (82.5, 79.1)),
        Recorded("unknown", ("0000000000000000",), ("897bb94a40cbccf7",), (1.0, 0.0)),
        Recorded("one run with itself", ("897bb94a40cbccf7",), ("897bb94a40cbccf7",), (94.7, 94.7)),
    ],
    ids=str,
)
def test_a_wrong_source_is_seen(wrong):
    assert wrong.trouble(ROOT)


def test_the_page_lists_the_rules():
    page = (ROOT / "docs/plan.md").read_text()
    made = runpy.run_path(str(ROOT / "docs/plan.py"))["page"](page)
    assert made == page, "out of date: run python docs/plan.py"
    for rule in rules():
        assert page.count(f"| `{rule.name}` |") == 1


CASES = [
    facts(),
    facts(form="masks"),
    facts(form="masks", samples=7),
    facts(samples=300_000, side=20),
    facts(samples=30_000),
    facts(samples=30_000, noise=Noise(0.3, "asym")),
    facts(classes=51),
    facts(classes=80, side=300, samples=50_000),
    facts(classes=100, noise=Noise(0.0)),
    facts(classes=100, noise=Noise(0.4, "asym")),
    facts(noise=Noise(0.4, "real")),
    facts(grey=True, side=20),
    facts(form="table"),
    facts(form="table", own_network=True),
    *(
        facts(name=name, recipe=name, form="pictures")
        for name in (
            "cifar10",
            "cifar100",
            "mnist-like",
            "webvision-mini",
            "animal10n",
            "clothing1m",
            "digits",
        )
    ),
]


def test_every_rule_is_reached():
    usual = {"optimizer", "momentum", "nesterov", "schedule", "schedule_factor", "clip_norm"}
    reached = {
        choice.rule
        for case in CASES
        for loss in (None, "ce", "gce")
        for choice in decide(case, {"loss": loss})
    }
    assert {rule.name for rule in rules() if rule.field not in usual} <= reached


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_plan_is_all_that_a_config_needs(case):
    plan = chosen(case)
    assert all(choice.reason and choice.source and choice.rule for choice in plan.values())
    if case.form != "table":
        values = {name: choice.value for name, choice in plan.items() if name != "row"}
        assert Config(dataset="digits", **values).epochs >= 10


@pytest.mark.parametrize(
    ("noise", "classes", "balance", "loss"),
    [
        (None, 10, 1.0, "anl-ce"),
        (None, 100, 1.0, "anl-ce"),
        (Noise(0.0), 10, 1.0, "anl-ce"),
        (Noise(0.01), 100, 1.0, "ce"),
        (Noise(0.02), 100, 1.0, "anl-ce"),
        (Noise(0.4, "sym"), 10, 1.0, "anl-ce"),
        (Noise(0.4, "asym"), 10, 1.0, "anl-ce*"),
        (Noise(0.4, "dep"), 10, 0.3, "anl-ce*"),
        (Noise(0.4, "real"), 10, 0.29, "anl-ce"),
        (Noise(0.2, "confused", largest_class_rate=0.4), 50, 1.0, "anl-ce*"),
        (Noise(0.2, "asym"), 51, 1.0, "anl-ce"),
        (Noise(0.2, "confused", largest_class_rate=0.4), 51, 1.0, "anl-ce*"),
        (Noise(0.2, "real"), 51, 1.0, "anl-ce*"),
        (Noise(0.4, "dep"), 51, 1.0, "anl-ce"),
    ],
)
def test_the_loss_by_noise(noise, classes, balance, loss):
    assert chosen(facts(noise=noise, classes=classes, balance=balance))["loss"].value == loss


@pytest.mark.parametrize("table", ["cifar10", "cifar100"])
@pytest.mark.parametrize("noise", ["sym-0.2", "sym-0.4", "asym-0.4", "dep-0.4", "real"])
def test_the_loss_that_is_chosen_is_the_best_of_the_paper_or_within_a_point(table, noise):
    """Independent of the rules' own sources: all rows of the column are looked at."""
    kind, _, rate = noise.partition("-")
    given = facts(classes=10 if table == "cifar10" else 100, noise=Noise(float(rate or 0.4), kind))
    loss = chosen(given)["loss"].value
    rows = {
        name: published(table, name, noise).mean
        for name in (
            "CE",
            "FL",
            "MAE",
            "GCE",
            "SCE",
            "PHCE",
            "TCE",
            "APL",
            "ALF",
            "ANL-CE",
            "ANL-FL",
            "ANL-CE*",
        )
    }
    assert rows[loss.upper()] > max(rows.values()) - 1.0


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({}, "cifar10"),
        ({"classes": 50}, "cifar10"),
        ({"classes": 51}, "cifar100"),
        ({"classes": 50, "side": 224, "samples": 33_000}, "webvision-mini"),
        ({"classes": 51, "side": 223, "samples": 33_000}, "cifar100"),
        ({"samples": 25_000, "side": 64}, "animal10n"),
        ({"samples": 24_999, "side": 64}, "cifar10"),
        ({"grey": True, "side": 28}, "mnist-like"),
        ({"grey": True, "side": 29}, "cifar10"),
        ({"form": "table", "classes": 51}, "cifar100"),
        ({"form": "masks"}, "isic2017"),
    ],
)
def test_the_row_by_data(changes, row):
    assert chosen(facts(**changes))["row"].value == row


@pytest.mark.parametrize("loss", [*available(), "ANL-CE"])
@pytest.mark.parametrize(("classes", "paper"), [(10, "cifar10"), (100, "cifar100")])
def test_a_loss_has_what_was_published_for_as_many_classes(loss, classes, paper):
    plan = chosen(facts(classes=classes), loss=loss)
    recipe = published_recipe(loss, paper)
    assert (plan["loss_parameters"].value if "loss_parameters" in plan else {}) == recipe.for_noise(None)
    assert (plan["l1"].value if "l1" in plan else 0.0) == recipe.l1
    decay = {"cifar10": 1e-4, "cifar100": 1e-5}[paper]
    assert plan["weight_decay"].value == (decay if recipe.weight_decay is None else recipe.weight_decay)


def test_numbers_that_were_published_by_noise_are_those_of_the_noise():
    plan = chosen(facts(noise=Noise(0.4, "asym")), loss="logitclip-ce")
    assert plan["loss_parameters"].value == {"bound": 2.5}
    assert chosen(facts(), loss="logitclip-ce")["loss_parameters"].value == {"bound": 1.0}


def test_lambda_is_borrowed_where_none_was_published():
    plan = chosen(facts(samples=30_000), loss="anl-ce*")
    assert plan["loss_parameters"].value == {"alpha": 0.5, "beta": 1.0, "entropy_weight": 2.0}
    assert (plan["l1"].value, plan["weight_decay"].value) == (1e-6, 0.0)


def test_masks_have_the_numbers_of_their_recipe():
    plan = chosen(facts(form="masks", classes=2))
    stated = read_recipe("isic2017")["for_loss"]
    assert plan["loss_parameters"].value == stated["anl-ce"]["loss_parameters"] == {"alpha": 1.0, "beta": 1.0}
    assert (plan["l1"].value, plan["weight_decay"].value) == (1e-6, 0.0)
    assert plan["l1"].reason.startswith("ours for ISIC-2017 and anl-ce; none are published")
    assert plan["loss_parameters"].source == "our recipe for ISIC-2017 and anl-ce: α 1, β 1, δ 1e-06"


@pytest.mark.parametrize("loss", ["anl-ce", "gce", "sce", "nce+rce", "t-loss", "ce", "mae"])
def test_a_plan_for_masks_has_the_loss_as_the_recipe_resolves_it(loss):
    planned = chosen(facts(form="masks", classes=2), loss=loss)
    config = resolve("isic2017", loss=loss)
    assert (
        planned["loss_parameters"].value if "loss_parameters" in planned else {}
    ) == config.loss_parameters
    assert (planned["l1"].value if "l1" in planned else 0.0) == config.l1
    assert planned["weight_decay"].value == config.weight_decay


def test_more_data_fewer_epochs():
    epochs = [chosen(facts(samples=n, side=32))["epochs"].value for n in (1_000, 50_000, 100_000, 10_000_000)]
    assert epochs == [120, 120, 60, 10]


def test_what_was_said_is_not_chosen():
    plan = chosen(facts(), model="mlp", epochs=3, loss_parameters={"alpha": 2.0}, l1=0.0)
    assert not {"model", "epochs", "l1"} & set(plan)
    assert plan["loss_parameters"].value == {"beta": 5.0}
    assert "loss_parameters" not in chosen(facts(), loss_parameters={"alpha": 2.0, "beta": 0.0})
    with pytest.raises(ValueError, match="did you mean 'anl-ce'"):
        decide(facts(), {"loss": "anlce"})


@pytest.mark.parametrize(("rate", "kind"), [(-0.1, None), (1.1, "sym"), (0.4, "random")])
def test_noise_is_checked(rate, kind):
    with pytest.raises(ValueError, match="noise"):
        Noise(rate, kind)
