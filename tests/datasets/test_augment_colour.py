# SPDX-License-Identifier: Apache-2.0
"""Colour jitter, gamma and normalisation against Pillow, colorsys and the formulas."""

import colorsys
import itertools

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance

from noiseproof.datasets.augment import ColourJitter, RandomGamma, adjust_gamma, normalize
from noiseproof.datasets.augment.colour import BRIGHTNESS, CONTRAST, SATURATION, blend, shift_hue
from noiseproof.datasets.augment.normalize import CIFAR10_MEAN, CIFAR10_STD


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


ENHANCERS = {
    BRIGHTNESS: ImageEnhance.Brightness,
    CONTRAST: ImageEnhance.Contrast,
    SATURATION: ImageEnhance.Color,
}


@pytest.mark.parametrize("kind", ENHANCERS)
@pytest.mark.parametrize("factor", [0.0, 0.6, 1.0, 1.4])
def test_blends_against_pillow(kind, factor):
    pixels = torch.randint(0, 256, (20, 30, 3), dtype=torch.uint8, generator=seeded(1)).numpy()
    expected = np.array(ENHANCERS[kind](Image.fromarray(pixels)).enhance(factor)).astype(int)
    unit = torch.from_numpy(pixels).permute(2, 0, 1).unsqueeze(0) / 255
    ours = blend(unit, torch.tensor([kind]), torch.tensor([factor])) * 255
    # Pillow rounds the grey image and the mean to whole levels and cuts off the rest.
    assert np.abs(ours[0].permute(1, 2, 0).numpy() - expected).max() < 1.6


def test_hue_against_colorsys():
    unit = torch.rand(5, 3, 6, 7, generator=seeded(1), dtype=torch.float64)
    unit[0, :, 0, 0] = 0.5  # grey: no hue to turn
    unit[0, :, 0, 1] = 0.0
    unit[0, :, 0, 2] = torch.tensor([1.0, 1.0, 0.0])  # two channels share the maximum
    unit[0, :, 0, 3] = torch.tensor([0.0, 1.0, 1.0])
    unit[0, :, 0, 4] = torch.tensor([1.0, 0.0, 1.0])
    turns = torch.tensor([0.2, -0.2, 0.0, 0.5, -0.05], dtype=torch.float64)
    turned = shift_hue(unit, turns)
    for n, i, j in itertools.product(range(5), range(6), range(7)):
        hue, saturation, value = colorsys.rgb_to_hsv(*unit[n, :, i, j].tolist())
        expected = colorsys.hsv_to_rgb((hue + turns[n].item()) % 1, saturation, value)
        np.testing.assert_allclose(turned[n, :, i, j].numpy(), expected, atol=1e-12)


def test_jitter_is_its_steps_in_the_drawn_order():
    images = torch.rand(200, 3, 5, 5, generator=seeded(1))
    jitter = ColourJitter()
    factors, turns, order, place_of_hue = jitter.draw(images, seeded(2))
    jittered = jitter.apply(images, (factors, turns, order, place_of_hue))
    for n in range(len(images)):
        image = images[n : n + 1]
        steps = order[n].tolist()
        steps.insert(int(place_of_hue[n]), "hue")
        for step in steps:
            if step == "hue":
                image = shift_hue(image, turns[n : n + 1])
            else:
                image = blend(image, torch.tensor([step]), factors[n, step : step + 1])
        torch.testing.assert_close(jittered[n], image[0], atol=1e-6, rtol=0)


def test_all_orders_are_equally_likely_and_amounts_stay_in_range():
    images = torch.zeros(48_000, 3, 1, 1)
    factors, turns, order, place_of_hue = ColourJitter(0.4, 0.4, 0.4, 0.2).draw(images, seeded(2))
    assert factors.min() >= 0.6
    assert factors.max() <= 1.4
    assert turns.abs().max() <= 0.2
    number = order[:, 0] * 36 + order[:, 1] * 12 + order[:, 2] * 4 + place_of_hue
    _, counts = number.unique(return_counts=True)
    assert len(counts) == 24
    assert ((counts - 2_000) ** 2 / 2_000).sum() < 49.7  # chi-square, 23 degrees, p = 0.001


def test_no_jitter_is_the_image():
    images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8, generator=seeded(1))
    assert torch.equal(ColourJitter(0, 0, 0, 0)(images, seeded(1)), images)


def test_jitter_leaves_masks_alone():
    images, masks = torch.rand(2, 3, 4, 4), torch.ones(2, 4, 4, dtype=torch.uint8)
    _, after = ColourJitter().together(images, masks, seeded(1))
    assert torch.equal(after, masks)


@pytest.mark.parametrize("gamma", [0.7, 1.0, 1.5])
def test_gamma_on_levels(gamma):
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    adjusted = adjust_gamma(levels, torch.tensor([gamma])).flatten()
    expected = np.rint(255 * (np.arange(256) / 255) ** gamma)
    assert np.abs(adjusted.numpy().astype(int) - expected).max() <= 1
    assert adjusted[0] == 0
    assert adjusted[255] == 255


def test_gamma_range_and_share():
    (powers,) = RandomGamma((0.7, 1.5), probability=0.3).draw(torch.zeros(50_000, 1, 1, 1), seeded(1))
    changed = powers != 1
    assert abs(changed.double().mean() - 0.3) < 0.01
    assert powers[changed].min() >= 0.7
    assert powers[changed].max() <= 1.5
    middle = (0.7 * 1.5) ** 0.5
    assert abs((powers[changed] < middle).double().mean() - 0.5) < 0.02


def test_normalize_is_the_formula_for_uint8_and_float():
    images = torch.randint(0, 256, (3, 3, 4, 4), dtype=torch.uint8, generator=seeded(1))
    mean = torch.tensor(CIFAR10_MEAN, dtype=torch.float64).view(3, 1, 1)
    std = torch.tensor(CIFAR10_STD, dtype=torch.float64).view(3, 1, 1)
    expected = (images.double() / 255 - mean) / std
    torch.testing.assert_close(
        normalize(images, CIFAR10_MEAN, CIFAR10_STD).double(), expected, atol=1e-6, rtol=0
    )
    as_float = normalize(images.float() / 255, CIFAR10_MEAN, CIFAR10_STD)
    torch.testing.assert_close(as_float.double(), expected, atol=1e-6, rtol=0)
    half = normalize(images, CIFAR10_MEAN, CIFAR10_STD, dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16


def test_normalize_first_met_in_inference_mode_still_serves_training():
    mean, std = (0.123,), (0.321,)  # not used elsewhere, so the constants are made here
    with torch.inference_mode():
        normalize(torch.rand(1, 1, 2, 2), mean, std)
    images = torch.rand(1, 1, 2, 2, requires_grad=True)
    normalize(images, mean, std).sum().backward()
    torch.testing.assert_close(images.grad, torch.full((1, 1, 2, 2), 1 / 0.321))
