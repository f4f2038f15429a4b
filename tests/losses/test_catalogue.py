# SPDX-License-Identifier: Apache-2.0
"""The catalogue: names, aliases, recipes, and losses that users add."""

import pytest
import torch

from noiseproof import losses
from noiseproof.losses import catalogue
from noiseproof.losses.recipes import PUBLISHED, RECIPE_ALIASES, RECIPE_NAMES

ALL = losses.available()
ASKED_FOR = """
nlf-ce nlf-fl ce fl mae rce gce sce phce tce nce nfl nmae nrce agce aul ael nce+mae nce+rce nfl+mae nfl+rce
nce+agce nce+aul nce+ael nnce nnfl anl-ce anl-fl anl-ce* jal-ce jal-fl eps-ce+mae eps-fl+mae logitclip-ce
"""


def test_every_loss_of_the_paper_is_listed():
    assert sorted(ALL) == sorted(ASKED_FOR.split())


def test_aliases():
    for alias, name in (
        ("apl", "nce+rce"),
        ("alf", "nce+agce"),
        ("anl-ce-er", "anl-ce*"),
        ("ANL-CE", "anl-ce"),
    ):
        assert losses.record(alias).name == name
        assert type(losses.create(alias)) is losses.record(name).module


@pytest.mark.parametrize("name", ALL)
def test_records_are_complete(name):
    record = losses.record(name)
    assert record.title
    assert record.formula
    assert record.range
    assert record.paper
    for public in (record.module, record.function):
        assert getattr(losses, public.__name__) is public
        assert "Shapes:" in public.__doc__
        assert f">>> {public.__name__}(" in public.__doc__ or f"= {public.__name__}(" in public.__doc__
    for contract in ("Range:", "Example:"):
        assert contract in record.module.__doc__


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("recipe", [*RECIPE_NAMES, *RECIPE_ALIASES])
def test_every_loss_can_be_made_for_every_recipe(name, recipe):
    logits, target = torch.randn(4, 10), torch.arange(4)
    loss = losses.create(name, recipe=recipe)
    entry = losses.record(name).recipes.get(RECIPE_ALIASES.get(recipe, recipe))
    by_hand = losses.create(name, **(entry.hyperparameters if entry else {}))
    assert torch.equal(loss(logits, target), by_hand(logits, target))


def test_published_names_are_in_the_catalogue():
    assert set(PUBLISHED) <= set(ALL)
    for recipes in PUBLISHED.values():
        assert set(recipes) <= set(RECIPE_NAMES)


@pytest.mark.parametrize("name", ALL)
def test_defaults_are_those_of_cifar10(name):
    record = losses.record(name)
    if "cifar10" in record.recipes:
        published = dict(record.recipes["cifar10"].hyperparameters)
        if name == "logitclip-ce":  # at a bound of 1 the published rule is the plain one
            assert published.pop("published") is True
            assert published == {"bound": 1.0}
        assert record.defaults.items() >= published.items()


def test_the_lone_parts_are_unscaled_in_every_recipe():
    for name in ("nce", "nnce", "rce", "mae"):
        assert losses.record(name).recipes == {}


def test_penalties_of_the_training_loop_stand_in_the_recipe():
    anl = losses.record("anl-ce").recipes
    assert {name: (entry.l1, entry.weight_decay) for name, entry in anl.items()} == {
        "cifar10": (5e-5, 0.0),
        "cifar100": (5e-7, 0.0),
        "mnist-like": (1e-6, 0.0),
        "webvision-mini": (6e-6, 0.0),
        "animal10n": (1e-6, 0.0),
        "clothing1m": (0.0, 1e-3),
    }
    assert losses.published_recipe("ce", "animal10n").weight_decay == 1e-3
    assert losses.published_recipe("gce", "animal10n").weight_decay == 1e-4
    assert losses.published_recipe("ce", "cifar10").weight_decay is None
    assert losses.published_recipe("ce", None).l1 == 0.0


@pytest.mark.parametrize(
    ("name", "recipe", "noise", "expected"),
    [
        ("logitclip-ce", "cifar10", None, {"bound": 1.0, "published": True}),
        ("logitclip-ce", "cifar10", "sym-0.4", {"bound": 1.0, "published": True}),
        ("logitclip-ce", "cifar10", "sym-0.5", {"bound": 1.5, "published": True}),
        ("logitclip-ce", "cifar10", "real", {"bound": 2.5, "published": True}),
        ("logitclip-ce", "cifar10", "dep-0.2", {"bound": 2.0, "published": True}),
        ("logitclip-ce", "cifar100", "asym-0.4", {"bound": 2.5, "published": True}),
        ("eps-ce+mae", "cifar10", "sym-0.8", {"alpha": 0.01, "beta": 5.0, "m": 1e5}),
        ("eps-ce+mae", "cifar10", "asym-0.2", {"alpha": 0.02, "beta": 5.0, "m": 1e3}),
        ("eps-ce+mae", "cifar10", "dep-0.4", {"alpha": 0.045, "beta": 10.0, "m": 1e5}),
        ("eps-fl+mae", "cifar100", "clean", {"alpha": 0.1, "beta": 1.0, "m": 1e4}),
        ("eps-fl+mae", "cifar100", "sym-0.2", {"alpha": 0.05, "beta": 1.0, "m": 1e4}),
        ("eps-fl+mae", "cifar100", "sym-0.6", {"alpha": 0.00125, "beta": 1.0, "m": 1e4}),
        ("eps-fl+mae", "cifar100", "dep-0.8", {"alpha": 0.0075, "beta": 1.0, "m": 1e4}),
        ("eps-fl+mae", "cifar100", "asym-0.2", {"alpha": 0.007, "beta": 1.0, "m": 1e2}),
        ("eps-fl+mae", "cifar100", "asym-0.4", {"alpha": 0.004, "beta": 1.0, "m": 1e2}),
    ],
)
def test_recipes_that_depend_on_the_noise(name, recipe, noise, expected):
    entry = losses.record(name).recipes[recipe]
    assert entry.depends_on_noise
    assert entry.for_noise(noise) == expected


def test_a_users_argument_wins_over_the_recipe():
    loss = losses.create("anl-ce", recipe="cifar100", alpha=3.0)
    assert loss(torch.zeros(1, 2), torch.tensor([0])) == pytest.approx(3.0 / 2 + 1.0 / 2)


def test_users_can_add_a_loss(monkeypatch):
    monkeypatch.setattr(catalogue, "_RECORDS", dict(catalogue._RECORDS))
    monkeypatch.setattr(catalogue, "_ALIASES", dict(catalogue._ALIASES))
    ours = losses.record("mae")
    mine = catalogue.LossRecord(
        "mine", "my loss", "1 − p_y", "[0, 1]", True, "none yet", ours.module, ours.function, aliases=("my",)
    )
    losses.register(mine)
    assert type(losses.create("my")) is ours.module
    with pytest.raises(ValueError, match="name: 'mine' is in the catalogue already"):
        losses.register(mine)
    with pytest.raises(ValueError, match="name: expected lower case, got 'Mine'"):
        losses.register(catalogue.LossRecord("Mine", "", "", "", True, "", ours.module, ours.function))


def test_every_public_name_exists():
    assert sorted(losses.__all__) == sorted(set(losses.__all__))
    for name in losses.__all__:
        assert getattr(losses, name) is not None
