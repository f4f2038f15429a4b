# SPDX-License-Identifier: Apache-2.0
"""Every model of the catalogue in a form that one core runs in a moment."""

import copy
import functools

import torch

from noiseproof import models

SMALL_FORMS = {
    "cnn8": {"image_size": 8},
    "resnet18": {"image_size": 33},
    "resnet34": {"image_size": 33},
    "resnet50": {"image_size": 33},
    "resnet18-cifar": {"image_size": 8},
    "resnet34-cifar": {"image_size": 8},
    "resnet50-cifar": {"image_size": 8},
    "efficientnet-lite0": {"image_size": 33},
    "vgg19-bn": {"image_size": 32, "hidden": 32, "pool_size": 1},
}
"""Same layers, smaller images; VGG's linear layers narrower. A model not named here runs as it is."""


def small(name, **arguments):
    """A model of the catalogue with known weights, and three images that fit it."""
    options = {"num_classes": 10, "seed": 1} | SMALL_FORMS.get(name, {}) | arguments
    record = models.record(name)
    size = options.get("image_size", record.image_size)
    size = (size, size) if isinstance(size, int) else size
    images = torch.randn(
        3, options.get("in_channels", record.in_channels), *size, generator=torch.Generator().manual_seed(0)
    )
    return copy.deepcopy(_drawn(name, **options)), images


@functools.lru_cache(maxsize=2)
def _drawn(name, **options):
    """Drawing the weights takes longer than most tests; those of one network follow one another."""
    return models.create(name, **options)


def assert_near(actual, expected, share=1e-4):
    """No value is off by more than a share of the largest: logits of VGG start at 1e-5, of ResNet-50 at 100."""
    assert actual.shape == expected.shape
    largest = expected.abs().max()
    assert largest > 0
    assert (actual.float() - expected.float()).abs().max() <= share * largest
