# SPDX-License-Identifier: Apache-2.0
"""Soft Dice and its sums with losses of pixels, against loops over pixels."""

import math

import numpy as np
import pytest
import torch
from scipy import special
from torch.nn import functional as F

from noiseproof import losses
from noiseproof.losses import CrossEntropyAndDice, PixelsAndDice, SoftDice, combine, create, soft_dice


def some_images(classes=2, count=3, size=(5, 4), seed=0):
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, classes, *size, generator=random, dtype=torch.float64)
    return logits, torch.randint(max(2, classes), (count, *size), generator=random)


def dice_of_class(p, q, smooth=1e-5, squared=False):
    """One class of one image, pixel by pixel in plain Python."""
    both = below = 0.0
    for a, b in zip(p.ravel().tolist(), q.ravel().tolist(), strict=True):
        both += a * b
        below += a * a + b * b if squared else a + b
    return 1 - (2 * both + smooth) / (below + smooth)


def reference(logits, target, first=1, **options):
    z, mask = logits.numpy(), target.numpy()
    if z.shape[1] == 1:
        p = np.concatenate([1 - special.expit(z), special.expit(z)], axis=1)
    else:
        p = special.softmax(z, axis=1)
    return [
        np.mean([dice_of_class(image[k], given == k, **options) for k in range(first, p.shape[1])])
        for image, given in zip(p, mask, strict=True)
    ]


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("classes", [1, 2, 4])
def test_values_are_those_of_the_loop(classes, background, squared):
    logits, target = some_images(classes)
    options = {"smooth": 0.3, "squared": squared}
    expected = reference(logits, target, first=0 if background else 1, **options)
    got = soft_dice(logits, target, reduction="none", background=background, **options)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    assert SoftDice(0.3, squared=squared, background=background)(logits, target).item() == pytest.approx(
        np.mean(expected), rel=1e-12
    )


def test_pooled_is_one_large_image():
    logits, target = some_images(3)
    joined = logits.transpose(0, 1).flatten(1).view(1, 3, -1, 4), target.view(1, -1, 4)
    expected = soft_dice(*joined)
    torch.testing.assert_close(soft_dice(logits, target, pooled=True), expected)
    each = soft_dice(logits, target, pooled=True, reduction="none")
    torch.testing.assert_close(each, expected.expand(3))


@pytest.mark.parametrize(
    ("given", "predicted", "expected"), [(0, 0, 0.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 0.0)]
)
def test_empty_and_full_masks(given, predicted, expected):
    logits = torch.full((1, 1, 6, 6), 1e4 if predicted else -1e4, requires_grad=True)
    value = soft_dice(logits, torch.full((1, 6, 6), given))
    assert value.item() == pytest.approx(expected, abs=1e-6)
    value.backward()
    assert torch.isfinite(logits.grad).all()


def test_class_weights_weigh_classes():
    logits, target = some_images(3)
    weight = torch.tensor([5.0, 1.0, 3.0], dtype=torch.float64)
    by_class = [
        np.array([dice_of_class(i[k], g == k) for i, g in zip(p, target.numpy(), strict=True)])
        for p in [special.softmax(logits.numpy(), axis=1)]
        for k in (1, 2)
    ]
    expected = (by_class[0] + 3 * by_class[1]) / 4
    np.testing.assert_allclose(
        soft_dice(logits, target, weight, reduction="none").numpy(), expected, rtol=1e-10
    )


def test_ignored_pixels_are_cut_out():
    for classes in (1, 2, 3):
        logits, target = some_images(classes, count=1)
        target[:, 3:] = 9
        cut = soft_dice(logits[:, :, :3], target[:, :3])
        torch.testing.assert_close(soft_dice(logits, target, ignore_index=9), cut)
        for background in (False, True):
            whole = soft_dice(logits, target, ignore_index=9, background=background)
            torch.testing.assert_close(
                whole, soft_dice(logits[:, :, :3], target[:, :3], background=background)
            )


@pytest.mark.parametrize("name", ["ce", "anl-ce", "gce"])
def test_sums_are_sums(name):
    logits, target = some_images(3)
    weight = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    pixels = create(name, weight=weight)
    expected = [
        2 * pixels(z[None], t[None]) + 0.5 * soft_dice(z[None], t[None], weight)
        for z, t in zip(logits, target, strict=True)
    ]
    loss = PixelsAndDice(create(name), 2.0, 0.5, weight=weight, reduction="none")
    torch.testing.assert_close(loss(logits, target), torch.stack(expected))


def test_cross_entropy_and_dice_is_torchs_cross_entropy_plus_dice():
    logits, target = some_images(2)
    loss = CrossEntropyAndDice(alpha=1.5, beta=0.7)
    torch.testing.assert_close(
        loss(logits, target), 1.5 * F.cross_entropy(logits, target) + 0.7 * soft_dice(logits, target)
    )
    soft = F.one_hot(target, 2).movedim(-1, 1).double()
    torch.testing.assert_close(loss(logits, soft), loss(logits, target))


def test_each_image_counts_alike_however_many_pixels_have_labels():
    logits, target = some_images(2, count=2)
    target[0, 1:] = -100
    loss = CrossEntropyAndDice()
    alone = [loss(z[None], t[None]) for z, t in zip(logits, target, strict=True)]
    torch.testing.assert_close(loss(logits, target), torch.stack(alone).mean())
    target[0] = -100
    assert CrossEntropyAndDice(beta=0.0, reduction="none")(logits, target)[0] == 0.0


def test_what_cannot_be_combined_is_refused():
    for bad in (create("dice"), create("t-loss"), create("logitclip-ce"), torch.nn.CrossEntropyLoss()):
        with pytest.raises(TypeError, match="pixels: expected a loss of labels"):
            PixelsAndDice(bad)
    with pytest.raises(TypeError, match="parts: SoftDice looks at whole images"):
        combine((1.0, create("ce")), (1.0, create("dice")))


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("dice", {"smooth": 0.0}, ValueError, "smooth: expected a number > 0, got 0.0"),
        ("ce+dice", {"alpha": -1.0}, ValueError, "alpha: expected a number >= 0, got -1.0"),
        ("ce+dice", {"beta": math.nan}, ValueError, "beta: expected a finite number"),
    ],
)
def test_bad_arguments(name, arguments, error, message):
    with pytest.raises(error, match=message):
        losses.create(name, **arguments)
