# SPDX-License-Identifier: Apache-2.0
"""Every rule has sources that exist and say what the rule claims, and every rule is reached by some data."""

from pathlib import Path

import pytest
from tests.planning.plans import chosen, facts

from noiseproof.losses import available, published_recipe
from noiseproof.planning import Noise, decide, rules
from noiseproof.planning.own_sources import LittleData, LittleDataLosses, Measured, PageRow, Recorded
from noiseproof.planning.sources import Cells, Numbers, PictureSize, RecipeField, StatedNumbers
from noiseproof.results import published
from noiseproof.training import Config, resolve
from noiseproof.training.config import read_recipe

ROOT = Path(__file__).parents[2]


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
        LittleData("digits 200", "anl-ce", "row", "batch 16", (40.0, 71.5)),  # the other way round
        LittleData("digits 200", "anl-ce", "batch 16", "row", (71.5, 40.1)),
        LittleData("digits 201", "anl-ce", "batch 16", "row", (71.5, 40.0)),
        LittleDataLosses("digits 500", "anl-ce", "gce", (85.8, 89.8)),  # the other way round
        LittleDataLosses("digits 500", "gce", "anl-ce", (89.8, 85.9)),
        LittleDataLosses("digits 501", "gce", "anl-ce", (89.8, 85.8)),
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


# Typed from the paper, not from the recipes: it states no clipping for these data and no momentum for Animal-10N.
SILENT = {
    ("animal10n", "momentum"),
    ("animal10n", "clip_norm"),
    ("clothing1m", "clip_norm"),
    ("isic2017", "clip_norm"),
}


def test_the_paper_is_not_said_to_state_what_it_leaves_open():
    fields = [source for rule in rules() for source in rule.sources if isinstance(source, RecipeField)]
    ours = {(each.recipe, each.field) for each in fields if str(each).startswith("our choice")}
    assert ours == SILENT
    assert not [str(each) for each in fields if each.recipe == "mnist-like" and "the paper's" in str(each)]


@pytest.mark.parametrize(("row", "field"), sorted(SILENT))
def test_the_reason_names_our_choice(row, field):
    (rule,) = (rule for rule in rules() if rule.name == f"{row}-{field}".replace("_", "-"))
    assert rule.reason(None, {"row": row}).startswith("our choice, left open by the paper, for ")


def test_the_page_lists_the_rules():
    page = (ROOT / "docs/plan.md").read_text()
    for rule in rules():
        assert page.count(f"| `{rule.name}` |") == 1


CASES = [
    facts(),
    facts(form="masks"),
    facts(form="masks", samples=7),
    facts(form="masks", samples=60, classes=2),
    facts(samples=200),
    facts(samples=200, grey=True, side=28),
    facts(samples=200, noise=Noise(0.0)),
    facts(samples=300_000, side=20),
    facts(samples=30_000),
    facts(samples=30_000, noise=Noise(0.3, "asym")),
    facts(classes=51),
    facts(classes=80, side=300, samples=50_000),
    facts(classes=100, noise=Noise(0.0)),
    facts(classes=100, noise=Noise(0.4, "asym")),
    facts(noise=Noise(0.4, "real")),
    facts(grey=True, side=20),
    facts(pretrained=True),
    facts(pretrained=True, samples=200, side=640),
    facts(pretrained=True, samples=200, balance=0.02),
    facts(pretrained=True, classes=100),
    facts(pretrained=True, samples=200, classes=100, noise=Noise(0.0)),
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
        (None, 10, 0.7, "anl-ce*"),
        (None, 10, 0.69, "anl-ce"),
        (None, 100, 1.0, "anl-ce"),
        (Noise(0.02), 10, 1.0, "anl-ce*"),
        (Noise(0.01), 10, 1.0, "anl-ce*"),
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
    given = facts(noise=noise, classes=classes, balance=balance, samples=3_001)
    assert chosen(given)["loss"].value == loss


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"samples": 3_000, "noise": Noise(0.01)}, "loss-few-images-no-noise"),
        ({"samples": 3_000, "noise": Noise(0.02)}, "loss-few-images"),
        ({"samples": 3_000, "noise": Noise(0.4, "sym")}, "loss-few-images"),
        ({"samples": 3_001, "noise": Noise(0.4, "sym")}, "loss-default"),
        ({"samples": 3_000, "noise": Noise(0.4, "sym"), "balance": 0.69}, "loss-default"),
        ({"samples": 3_001}, "loss-unknown-noise"),
        ({"samples": 3_001, "noise": Noise(0.05)}, "loss-unknown-noise"),
        ({"samples": 1_000, "recipe": "cifar10"}, "loss-default"),  # a set of the paper keeps its loss
        ({"samples": 1_000, "form": "table", "side": 0}, "loss-default"),
    ],
    ids=str,
)
def test_images_of_ones_own_of_which_little_is_known_keep_all_their_classes(changes, rule):
    choice = chosen(facts(**changes))["loss"]
    assert choice.rule == rule
    losses = {"loss-default": "anl-ce", "loss-few-images-no-noise": "ce"}
    assert choice.value == losses.get(rule, "anl-ce*")


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
    assert plan["loss_parameters"].value == {"bound": 2.5, "published": True}
    without = chosen(facts(), loss="logitclip-ce")["loss_parameters"].value
    assert without == {"bound": 1.0, "published": True}


def test_lambda_is_borrowed_where_none_was_published():
    plan = chosen(facts(samples=30_000), loss="anl-ce*")
    # CIFAR-10 has λ 2 beside α + β = 10, Animal-10N α + β = 1.5.
    assert plan["loss_parameters"].value == {"alpha": 0.5, "beta": 1.0, "entropy_weight": 0.3}
    assert (plan["l1"].value, plan["weight_decay"].value) == (1e-6, 0.0)


def test_masks_have_the_numbers_of_their_recipe():
    plan = chosen(facts(form="masks", classes=2))
    stated = read_recipe("isic2017")["for_loss"]
    assert plan["loss_parameters"].value == stated["anl-ce"]["loss_parameters"] == {"alpha": 1.0, "beta": 1.0}
    assert (plan["l1"].value, plan["weight_decay"].value) == (1e-7, 0.0)
    assert plan["l1"].reason.startswith("our values for ISIC-2017 and anl-ce; none are published")
    assert plan["loss_parameters"].source == "our recipe for ISIC-2017 and anl-ce: α 1, β 1, δ 1e-07"


@pytest.mark.parametrize("loss", ["anl-ce", "gce", "sce", "nce+rce", "t-loss", "ce", "mae"])
def test_a_plan_for_masks_has_the_loss_as_the_recipe_resolves_it(loss):
    planned = chosen(facts(form="masks", classes=2), loss=loss)
    config = resolve("isic2017", loss=loss)
    assert (
        planned["loss_parameters"].value if "loss_parameters" in planned else {}
    ) == config.loss_parameters
    assert (planned["l1"].value if "l1" in planned else 0.0) == config.l1
    assert planned["weight_decay"].value == config.weight_decay


@pytest.mark.parametrize(
    ("changes", "batch", "steps"),
    [
        ({"samples": 40}, 16, 360),
        ({"samples": 200}, 32, 840),
        ({"samples": 500}, 64, 960),
        ({"samples": 513}, 128, 600),
        ({"samples": 3_000}, 128, 2_880),
        ({"samples": 100, "grey": True, "side": 28}, 16, 350),
        ({"samples": 500, "grey": True, "side": 28}, 32, 800),
        ({"samples": 1_000, "grey": True, "side": 28}, 64, 800),
        ({"samples": 1_300, "grey": True, "side": 28}, 128, 550),
        ({"samples": 7, "form": "masks"}, 4, 200),
        ({"samples": 20, "form": "masks"}, 4, 500),
        ({"samples": 60, "form": "masks"}, 8, 800),
        ({"samples": 200, "form": "masks"}, 16, 1_300),
        ({"samples": 200, "classes": 60}, 128, 400),  # nothing was measured with CIFAR-100's network
    ],
    ids=str,
)
def test_little_data_smaller_batches(changes, batch, steps):
    """Until there are 500 steps in the row's epochs, which stay what they are."""
    plan = chosen(facts(**changes), loss="anl-ce")
    assert plan["batch_size"].value == batch
    assert plan["epochs"].value * -(-changes["samples"] // batch) == steps
    if plan["batch_size"].rule == "batch-little-data":
        assert plan["batch_size"].reason.endswith(f"batches of {batch} give {steps}")


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        ({"samples": 10_000}, "gce"),
        ({"samples": 1_000, "noise": Noise(0.3, "asym")}, "gce"),
        ({"samples": 1_000, "noise": Noise(0.0)}, "ce"),
        ({"samples": 10_001, "noise": Noise(0.0)}, "anl-ce"),
        ({"samples": 10_001}, "anl-ce"),
        ({"samples": 1_000, "grey": False}, "anl-ce*"),
        ({"samples": 1_000, "side": 32}, "anl-ce*"),
        ({"samples": 1_000, "recipe": "mnist-like"}, "anl-ce"),  # a set of the paper keeps its loss
    ],
    ids=str,
)
def test_few_small_grey_images_of_ones_own_are_trained_with_gce(changes, loss):
    plan = chosen(facts(**{"grey": True, "side": 28, **changes}))
    assert plan["loss"].value == loss
    if loss == "gce":
        assert (plan["loss_parameters"].value, plan["batch_size"].value) == ({"q": 0.7}, 128)
        assert "l1" not in plan


@pytest.mark.parametrize(("loss", "batch"), [("anl-ce", 16), ("anl-ce*", 16), ("ce", 128), ("gce", 128)])
def test_smaller_batches_are_for_losses_that_fit_slowly(loss, batch):
    assert chosen(facts(samples=100), loss=loss)["batch_size"].value == batch


def test_few_masks_have_a_learning_rate_that_lasts():
    few, many = (chosen(facts(form="masks", classes=2, samples=n)) for n in (99, 100))
    assert few["schedule"].value == "cosine"
    assert "epochs of 99 images are short" in few["schedule"].reason
    assert "schedule_factor" not in few
    assert (many["schedule"].value, many["schedule_factor"].value) == ("exponential", 0.8)


@pytest.mark.parametrize("name", ["isic2017", "isic2017-128px", "blobs"])
def test_masks_with_a_recipe_keep_its_schedule_and_batch(name):
    plan = chosen(facts(form="masks", classes=2, name=name, recipe=name, samples=50))
    assert plan["schedule"].value == "exponential"
    assert plan["batch_size"].value == 16


@pytest.mark.parametrize("name", ["cifar10", "mnist-like", "digits"])
def test_a_set_of_the_paper_keeps_its_batch_however_few_are_taken(name):
    plan = chosen(facts(name=name, recipe=name, form="pictures", samples=50))
    assert plan["batch_size"].value == read_recipe(name)["batch_size"]


def test_more_data_fewer_epochs():
    epochs = [chosen(facts(samples=n, side=32))["epochs"].value for n in (1_000, 50_000, 100_000, 10_000_000)]
    assert epochs == [120, 120, 60, 10]


def test_what_was_said_is_not_chosen():
    plan = chosen(facts(), model="mlp", epochs=3, loss_parameters={"alpha": 2.0}, l1=0.0)
    assert not {"model", "epochs", "l1"} & set(plan)
    assert plan["loss_parameters"].value == {"beta": 5.0, "entropy_weight": 2.0}
    said = {"alpha": 2.0, "beta": 0.0, "entropy_weight": 0.0}
    assert "loss_parameters" not in chosen(facts(), loss_parameters=said)
    with pytest.raises(ValueError, match="did you mean 'anl-ce'"):
        decide(facts(), {"loss": "anlce"})


@pytest.mark.parametrize(("rate", "kind"), [(-0.1, None), (1.1, "sym"), (0.4, "random")])
def test_noise_is_checked(rate, kind):
    with pytest.raises(ValueError, match="noise"):
        Noise(rate, kind)
