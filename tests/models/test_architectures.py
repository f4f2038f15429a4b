# SPDX-License-Identifier: Apache-2.0
"""What the networks are: sizes, names, and values of a forward pass, against their second writing."""

import pytest
import torch
from tests.models import reference
from tests.models.small_forms import small
from torch import nn

from noiseproof import models

PUBLISHED_COUNTS = {
    ("resnet18", 1000): 11_689_512,
    ("resnet34", 1000): 21_797_672,
    ("resnet50", 1000): 25_557_032,
    ("vgg19-bn", 1000): 143_678_248,
    ("resnet18-cifar", 10): 11_173_962,
    ("resnet34-cifar", 10): 21_282_122,
    ("resnet50-cifar", 10): 23_520_842,
    ("efficientnet-lite0", 1000): 4_652_008,
}


def norm(width):
    return 2 * width


def convolution(before, after):
    return 9 * before * after + after


def linear(before, after):
    return before * after + after


HAND_COUNTS = {
    ("cnn8", 10): convolution(3, 64)
    + convolution(64, 64)
    + convolution(64, 128)
    + convolution(128, 128)
    + convolution(128, 196)
    + convolution(196, 196)
    + 2 * (norm(64) + norm(128) + norm(196))
    + linear(4 * 4 * 196, 256)
    + norm(256)
    + linear(256, 10),
    ("mnist-cnn", 10): convolution(1, 32)
    + norm(32)
    + convolution(32, 64)
    + norm(64)
    + linear(7 * 7 * 64, 128)
    + norm(128)
    + linear(128, 10),
    ("mlp", 10): linear(784, 256) + linear(256, 256) + linear(256, 10),
}


@pytest.mark.parametrize(("key", "count"), (PUBLISHED_COUNTS | HAND_COUNTS).items(), ids=str)
def test_parameters_are_as_many_as_published(key, count):
    name, num_classes = key
    assert models.record(name).parameters(num_classes) == count


def test_every_model_has_a_known_count():
    assert {name for name, _ in PUBLISHED_COUNTS | HAND_COUNTS} == set(models.available())


def shapes(name, num_classes):
    with torch.device("meta"):
        state = models.create(name, num_classes).state_dict()
    return {key: tuple(value.shape) for key, value in state.items()}


@pytest.mark.parametrize("layers", [18, 34, 50])
def test_resnet_names_and_shapes_are_torchvisions(layers):
    assert shapes(f"resnet{layers}", 1000) == reference.resnet_shapes(layers)
    assert shapes(f"resnet{layers}-cifar", 100) == reference.resnet_shapes(layers, num_classes=100, stem=3)


def test_vgg_names_and_shapes_are_torchvisions():
    assert shapes("vgg19-bn", 1000) == reference.vgg19_bn_shapes()


def test_efficientnet_names_and_shapes_are_the_published_ones_without_underscores():
    published = reference.efficientnet_lite0_shapes()
    assert len(published) == 296
    renamed = models.EfficientNetLite.name_from_file
    assert shapes("efficientnet-lite0", 1000) == {renamed(name): shape for name, shape in published.items()}


@pytest.mark.parametrize("size", [(32, 32), (33, 47), (1, 5)])
def test_efficientnet_takes_images_of_any_size(size):
    model, images = small("efficientnet-lite0", image_size=size)
    model, images = model.double().eval(), images.double()
    with torch.no_grad():
        expected = reference.efficientnet_lite0(model.state_dict(), images)
        torch.testing.assert_close(model(images), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "entries"), [("resnet18", 122), ("resnet50", 320), ("vgg19-bn", 118)])
def test_weight_files_have_as_many_entries_as_torchvisions(name, entries):
    assert len(shapes(name, 1000)) == entries


@pytest.mark.parametrize("name", models.available())
def test_shapes_at_the_size_it_is_made_for(name):
    record = models.record(name)
    images = torch.empty(2, record.in_channels, record.image_size, record.image_size, device="meta")
    with torch.device("meta"):
        model = models.create(name, 7)
    assert model(images).shape == (2, 7)


def second_writing(name, state, images):
    if name.startswith("resnet"):
        layers, _, stem = name.removeprefix("resnet").partition("-")
        return reference.resnet(state, images, int(layers), stem or "imagenet")
    return {
        "cnn8": lambda: reference.small_cnn(state, images, (2, 2, 2)),
        "mnist-cnn": lambda: reference.small_cnn(state, images, (1, 1)),
        "vgg19-bn": lambda: reference.vgg19_bn(state, images, pool_size=1),
        "mlp": lambda: reference.mlp(state, images),
        "efficientnet-lite0": lambda: reference.efficientnet_lite0(state, images),
    }[name]()


@pytest.mark.parametrize("name", models.available())
def test_values_equal_the_second_writing(name):
    model, images = small(name)
    model, images = model.double().eval(), images.double()
    random = torch.Generator().manual_seed(3)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):  # an identity would hide which one is where
            for tensor in (layer.weight.data, layer.bias.data, layer.running_mean, layer.running_var):
                tensor.copy_(torch.rand(tensor.shape, generator=random, dtype=tensor.dtype) + 0.5)
    with torch.no_grad():
        expected = second_writing(name, model.state_dict(), images)
        torch.testing.assert_close(model(images), expected, rtol=1e-9, atol=1e-9)


def test_vgg_pools_as_torchvision_by_default():
    with torch.device("meta"):
        assert models.create("vgg19-bn", 10, image_size=64).avgpool.output_size == 7


def test_cifar_form_keeps_the_resolution():
    model, images = small("resnet18-cifar", image_size=32)
    sizes = {}
    for layer in ("maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool"):
        getattr(model, layer).register_forward_hook(
            lambda _, __, output, layer=layer: sizes.update({layer: output.shape[-1]})
        )
    model.eval()(images[:1])
    assert sizes == {"maxpool": 32, "layer1": 32, "layer2": 16, "layer3": 8, "layer4": 4, "avgpool": 1}


@pytest.mark.parametrize("size", [28, 17, (8, 12)])
def test_flatten_follows_the_image_size(size):
    for name in ("cnn8", "mnist-cnn", "mlp"):
        model, images = small(name, image_size=size, in_channels=2)
        assert model(images).shape == (3, 10)


def test_mlp_takes_tables_and_options():
    model = models.create("mlp", 3, in_features=13, hidden=[64, 32], batch_norm=True)
    kinds = [type(layer).__name__ for layer in model.hidden]
    assert kinds == ["Linear", "BatchNorm1d", "ReLU"] * 2
    assert model(torch.randn(5, 13)).shape == (5, 3)
    linear_model = models.create("mlp", 3, in_features=13, hidden=[])
    assert [name for name, _ in linear_model.named_parameters()] == ["fc.weight", "fc.bias"]
