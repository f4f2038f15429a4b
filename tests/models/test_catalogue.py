# SPDX-License-Identifier: Apache-2.0
"""The catalogue's manners: records, names, options, errors that say what was expected and what came."""

import dataclasses
import subprocess
import sys
import types

import pytest
import torch
from torch import nn

from noiseproof import models


@pytest.mark.parametrize("name", models.available())
def test_records_are_complete_and_frozen(name):
    record = models.record(name)
    assert record.name == name
    for field in dataclasses.fields(record):
        assert getattr(record, field.name), field.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.name = "other"


def test_the_catalogue_is_what_was_promised():
    assert models.available() == (
        *("cnn8", "mnist-cnn", "resnet18", "resnet34", "resnet50"),
        *("resnet18-cifar", "resnet34-cifar", "resnet50-cifar", "vgg19-bn", "efficientnet-lite0", "mlp"),
    )
    assert models.record("CNN8") is models.record("cnn8")


@pytest.mark.parametrize("typed", ["resnet-34", "ResNet_34", "resnet-34 "])
def test_unknown_name_suggests_the_nearest(typed):
    with pytest.raises(
        ValueError,
        match=r"model: unknown name '.*'; did you mean 'resnet34'\? Known: cnn8, efficientnet-lite0, mlp",
    ):
        models.create(typed, 10)


def test_a_name_is_registered_once(monkeypatch):
    from noiseproof.models import catalogue

    monkeypatch.setattr(catalogue, "_RECORDS", dict(catalogue._RECORDS))
    mine = dataclasses.replace(models.record("mlp"), name="mine")
    models.register(mine)
    assert models.record("mine") is mine
    with pytest.raises(ValueError, match="'mine' is in the catalogue already"):
        models.register(mine)
    for name in ("Mine", "timm:mine"):
        with pytest.raises(ValueError, match="expected lower case and no prefix"):
            models.register(dataclasses.replace(mine, name=name))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"num_classes": 0}, ValueError, "num_classes: expected an integer >= 1, got 0"),
        ({"num_classes": 10.0}, TypeError, "num_classes: expected an integer, got 10.0 of type float"),
        ({"num_classes": True}, TypeError, "num_classes: expected an integer, got True of type bool"),
        ({"in_channels": -1}, ValueError, "in_channels: expected an integer >= 1, got -1"),
        ({"image_size": "32"}, TypeError, "image_size: expected an integer, got '32' of type str"),
        ({"image_size": (32, 32, 3)}, ValueError, "image_size: expected one integer or (height, width)"),
        ({"image_size": (32, 0)}, ValueError, "image_size[1]: expected an integer >= 1, got 0"),
        ({"seed": -1}, ValueError, "seed: expected an integer from 0 to 18446744073709551615, got -1"),
        ({"hidden": 64}, TypeError, "hidden: expected a list of integers, got 64 of type int"),
        ({"hidden": "64"}, TypeError, "hidden: expected a list of integers, got '64' of type str"),
        ({"hidden": [64, 0]}, ValueError, "hidden[1]: expected an integer >= 1, got 0"),
        ({"in_features": 0}, ValueError, "in_features: expected an integer >= 1, got 0"),
        ({"batchnorm": True}, TypeError, "option of model 'mlp': unknown name 'batchnorm'; did you mean"),
    ],
)
def test_bad_arguments_are_named(arguments, kind, message):
    with pytest.raises(kind) as caught:
        models.create("mlp", **({"num_classes": 10} | arguments))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "smallest"),
    [("cnn8", 8), ("mnist-cnn", 4), ("vgg19-bn", 32), ("resnet50", 1), ("resnet50-cifar", 1)],
)
def test_images_too_small_are_refused_when_the_model_is_made(name, smallest):
    options = {"hidden": 8} if name == "vgg19-bn" else {}
    channels = models.record(name).in_channels
    model = models.create(name, 10, image_size=smallest, **options).eval()
    assert model(torch.zeros(1, channels, smallest, smallest)).shape == (1, 10)
    if smallest > 1:
        with pytest.raises(
            ValueError, match=f"image_size: {name} needs images of at least {smallest}x{smallest}, got"
        ):
            models.create(name, 10, image_size=(64, smallest - 1), **options)


def test_images_of_another_size_are_refused_in_the_forward_pass():
    model = models.create("cnn8", 10, image_size=16)
    with pytest.raises(ValueError, match=r"images: expected shape \(N, 3, 16, 16\), got \(2, 3, 32, 32\)"):
        model(torch.zeros(2, 3, 32, 32))
    with pytest.raises(ValueError, match=r"samples: expected 13 numbers per sample, got 12"):
        models.create("mlp", 3, in_features=13)(torch.zeros(2, 12))


@pytest.mark.parametrize("dropout", [-0.1, 1.0, "half"])
def test_dropout_is_a_share(dropout):
    with pytest.raises((ValueError, TypeError), match="dropout: expected a number"):
        models.create("vgg19-bn", 10, hidden=8, dropout=dropout)


class FakeTimm(types.ModuleType):
    """The part of timm's interface that is used, with one network that says what it was given."""

    def __init__(self, fixed):
        super().__init__("timm")
        self.fixed = fixed

    def is_model(self, name):
        return name == "tiny_vit"

    def list_models(self):
        return ["tiny_vit", "huge_vit"]

    def get_pretrained_cfg(self, _):
        return types.SimpleNamespace(input_size=(3, 64, 64), fixed_input_size=self.fixed)

    def create_model(self, name, num_classes, in_chans, **options):
        model = nn.Linear(in_chans, num_classes)
        model.made_with = {"name": name} | options
        return model


def test_timm_models_are_made_by_timm(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", FakeTimm(fixed=True))
    record = models.record("timm:tiny_vit")
    assert (record.image_size, record.in_channels) == (64, 3)
    assert record.parameters(num_classes=10) == 3 * 10 + 10
    model = models.create("timm:tiny_vit", 7, in_channels=1, drop_rate=0.1, seed=1)
    assert model.made_with == {"name": "tiny_vit", "drop_rate": 0.1}
    assert torch.equal(model.weight, models.create("timm:tiny_vit", 7, in_channels=1, seed=1).weight)
    assert models.create("timm:tiny_vit", 7, image_size=32).made_with["img_size"] == (32, 32)
    with pytest.raises(ValueError, match=r"timm knows no 'tiny-vit'; did you mean 'timm:tiny_vit'\?"):
        models.create("timm:tiny-vit", 7)
    monkeypatch.setitem(sys.modules, "timm", FakeTimm(fixed=False))
    assert "img_size" not in models.create("timm:tiny_vit", 7, image_size=32).made_with


def test_without_timm_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match=r"'timm:resnet18' needs timm, .*: pip install timm"):
        models.create("timm:resnet18", 10)


def test_importing_the_models_imports_no_optional_library_and_no_later_room():
    code = (
        "import sys, noiseproof.models\n"
        "later = {'noiseproof.' + room for room in ('losses', 'training', 'results', 'report', 'command_line')}\n"
        "found = ({'timm', 'safetensors'} | later) & set(sys.modules)\n"
        "sys.exit(f'imported {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
