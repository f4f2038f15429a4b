# SPDX-License-Identifier: Apache-2.0
"""First weights: the bounds and spreads of their distributions, and that a seed decides them alone."""

import math
import random

import pytest
import torch
from tests.models.small_forms import small
from torch import nn

from noiseproof import models

AS_IN_PAPERS = [n for n in models.available() if n in ("cnn8", "mnist-cnn", "mlp") or n.endswith("-cifar")]
AS_IN_TORCHVISION = ["resnet18", "resnet34", "resnet50", "vgg19-bn", "efficientnet-lite0"]


def layers(model, kind):
    found = [layer for layer in model.modules() if isinstance(layer, kind)]
    assert found
    return found


def assert_uniform(values, bound):
    """Within the bound, close to it somewhere, spread as a uniform distribution: to five standard errors."""
    largest = values.abs().max().item()
    assert bound * (1 - 20 / values.numel()) < largest <= bound * (1 + 1e-6)
    assert values.mean().abs() < 5 * bound / math.sqrt(3 * values.numel())
    spread = values.square().mean().item() / (bound**2 / 3)
    assert abs(spread - 1) < 5 * math.sqrt(0.8 / values.numel())


def assert_normal(values, std):
    assert values.mean().abs() < 5 * std / math.sqrt(values.numel())
    assert abs(values.square().mean().item() / std**2 - 1) < 5 * math.sqrt(2 / values.numel())


def test_every_model_is_in_one_of_the_two_groups():
    assert set(AS_IN_PAPERS) | set(AS_IN_TORCHVISION) == set(models.available())


@pytest.mark.parametrize("name", AS_IN_PAPERS)
def test_uniform_draws_of_the_papers(name):
    model = small(name)[0]
    if name != "mlp":
        for layer in layers(model, nn.Conv2d):
            fan_in = layer.in_channels * math.prod(layer.kernel_size)
            assert_uniform(layer.weight, math.sqrt(6 / fan_in))
    for layer in layers(model, nn.Linear):
        assert_uniform(layer.weight, math.sqrt(6 / (layer.in_features + layer.out_features)))
        assert 0 < layer.bias.abs().max() <= 1 / math.sqrt(layer.in_features)


@pytest.mark.parametrize("name", AS_IN_TORCHVISION)
def test_normal_draws_of_torchvision(name):
    model = small(name)[0]
    for layer in layers(model, nn.Conv2d):
        fan_out = layer.out_channels * math.prod(layer.kernel_size)
        assert_normal(layer.weight, math.sqrt(2 / fan_out))
        assert layer.bias is None or not layer.bias.any()
    for layer in layers(model, nn.Linear):
        if name == "vgg19-bn":
            assert_normal(layer.weight, 0.01)
            assert not layer.bias.any()
        else:
            assert_uniform(layer.weight, 1 / math.sqrt(layer.in_features))


@pytest.mark.parametrize("name", models.available())
def test_batch_norm_starts_as_the_identity(name):
    for layer in small(name)[0].modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            assert (layer.weight == 1).all()
            assert not layer.bias.any()


def equal(one, two):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


@pytest.mark.parametrize("name", models.available())
def test_a_seed_decides_the_weights_alone(name):
    first = small(name, seed=5)[0]
    torch.rand(100)
    assert equal(first, small(name, seed=5)[0])
    assert not equal(first, small(name, seed=6)[0])


def test_a_seed_moves_no_global_generator(monkeypatch):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda _: pytest.fail("CUDA was reseeded"))
    before = torch.get_rng_state(), random.getstate()
    models.create("mnist-cnn", 10, seed=5)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_a_failed_build_restores_the_generator():
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match="hidden"):
        models.create("mlp", 10, seed=5, hidden=[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_seed_the_global_generator_decides():
    torch.manual_seed(3)
    first = models.create("mnist-cnn", 10)
    assert not equal(first, models.create("mnist-cnn", 10))
    torch.manual_seed(3)
    assert equal(first, models.create("mnist-cnn", 10))


def test_the_largest_seed_is_taken():
    assert equal(small("mlp", seed=2**64 - 1)[0], small("mlp", seed=2**64 - 1)[0])


def test_default_device_is_respected(device):
    expected = models.create("mnist-cnn", 10, seed=1)
    with torch.device(device):
        model = models.create("mnist-cnn", 10, seed=1)
    assert next(model.parameters()).device.type == device.type
    assert equal(model.cpu(), expected)
