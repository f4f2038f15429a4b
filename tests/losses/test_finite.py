# SPDX-License-Identifier: Apache-2.0
"""No NaN and no infinity, in value or gradient: largest logits, many classes, no label at all."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
import torch
from tests.losses.reference import FOCAL, other_params

from noiseproof import losses

NAMES = losses.available()
LARGEST_LOGIT = {torch.float32: 1e4, torch.float16: 6e4, torch.bfloat16: 6e4}
CLASSES = (2, 3, 10, 1000)
MANY_CLASSES = 100_000

# Every loss as it comes, with other hyper-parameters, and the focal ones with the modulator in the gradient.
VARIANTS = {name: (name, {}) for name in NAMES}
VARIANTS |= {f"{name}, other": (name, other_params(name)) for name in NAMES}
VARIANTS |= {f"{name}, modulator in gradient": (name, {"detach_modulator": False}) for name in FOCAL}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


@cache
def batches(classes, dtype):
    """Batches (name, logits of rows × K, labels) that upset one naive loss or another."""
    top = LARGEST_LOGIT[dtype]
    generator = torch.Generator().manual_seed(classes)
    peak, signs = torch.full((3, classes), -top), torch.rand((2, classes), generator=generator) < 0.5
    peak[:, 1] = top
    trough = -peak[:2]
    ends = torch.tensor([0, classes - 1])
    found = [
        ("peak: label on it, beside it, last", peak, torch.tensor([1, 0, classes - 1])),
        ("trough: label on it, beside it", trough, torch.tensor([1, 0])),
        ("random signs", torch.where(signs, top, -top), ends),
        ("spread evenly", torch.linspace(-top, top, classes).repeat(2, 1), ends),
        ("all largest", torch.full((2, classes), top), ends),
        ("all zero", torch.zeros((2, classes)), ends),
        ("ordinary", torch.randn((2, classes), generator=generator), ends),
        ("one row", top * torch.randn((1, classes), generator=generator).clamp(-1, 1), ends[:1]),
    ]
    return [(name, logits.to(dtype), labels) for name, logits, labels in found]


def value_and_gradient(module, logits, target):
    scores = logits.clone().requires_grad_()
    value = module(scores, target)
    value.sum().backward()
    return value.detach(), scores.grad


@pytest.mark.parametrize("m", [0.0, 1e-12])
@pytest.mark.parametrize("name", ["eps-ce+mae", "eps-fl+mae"])
def test_epsilon_softmax_that_hardly_pushes_is_finite_where_a_probability_is_zero(name, m):
    logits = torch.tensor([[200.0, 0.0, -200.0], [0.0, 300.0, -torch.inf]])
    for target in (torch.tensor([0, 1]), torch.tensor([1, 0])):
        value, gradient = value_and_gradient(losses.create(name, m=m), logits, target)
        assert value.isfinite()
        assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", LARGEST_LOGIT, ids=str)
@every_variant
def test_finite_at_the_largest_logits(variant, dtype):
    name, params = VARIANTS[variant]
    module = losses.create(name, reduction="none", **params)
    for classes in CLASSES:
        for batch, logits, labels in batches(classes, dtype):
            value, gradient = value_and_gradient(module, logits, labels)
            assert torch.isfinite(value).all(), f"{classes} classes, {batch}: {value}"
            assert torch.isfinite(gradient).all(), f"{classes} classes, {batch}: gradient"


@pytest.mark.parametrize("dtype", LARGEST_LOGIT, ids=str)
@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if "other" not in variant])
def test_finite_with_very_many_classes(variant, dtype):
    """Two rows of each batch, together: p is below p_min nearly everywhere, and every sum has 1e5 terms."""
    name, params = VARIANTS[variant]
    rows = batches(MANY_CLASSES, dtype)
    logits = torch.cat([logits[:2] for _, logits, _ in rows])
    labels = torch.cat([labels[:2] for _, _, labels in rows])
    value, gradient = value_and_gradient(losses.create(name, reduction="none", **params), logits, labels)
    assert torch.isfinite(value).all(), value
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("dtype", LARGEST_LOGIT, ids=str)
@every_variant
def test_finite_with_soft_targets(variant, dtype):
    name, params = VARIANTS[variant]
    module = losses.create(name, reduction="mean", **params)
    for classes in (2, 10):
        for batch, logits, labels in batches(classes, dtype):
            hard = torch.nn.functional.one_hot(labels, classes).float()
            for target in (hard, torch.full_like(hard, 1 / classes)):
                value, gradient = value_and_gradient(module, logits, target)
                assert torch.isfinite(value), batch
                assert torch.isfinite(gradient).all(), f"{batch}: gradient"


@pytest.mark.parametrize("dtype", [*LARGEST_LOGIT, torch.float64], ids=str)
@every_variant
def test_a_batch_of_ignored_labels_costs_nothing(variant, dtype):
    name, params = VARIANTS[variant]
    working = torch.float64 if dtype == torch.float64 else torch.float32
    weight = torch.tensor([0.5, 2.0, 1.0, 0.0], dtype=working)
    ramp = LARGEST_LOGIT.get(dtype, 1e4) * torch.linspace(-1, 1, 4).repeat(6)
    for shape, positions in (((3, 4), (3,)), ((1, 4), (1,)), ((2, 4, 3), (2, 3)), ((4,), ())):
        logits = ramp[: torch.Size(shape).numel()].reshape(shape).to(dtype)
        for weights, reduction in itertools.product((None, weight), ("none", "sum", "mean")):
            module = losses.create(name, weight=weights, reduction=reduction, **params)
            target = torch.full(positions, -100)
            value, gradient = value_and_gradient(module, logits, target)
            assert (value == 0).all(), f"{reduction}, {shape}"
            assert (gradient == 0).all(), f"{reduction}, {shape}"


@every_variant
def test_labels_whose_weight_is_zero_give_no_nan(variant):
    name, params = VARIANTS[variant]
    logits = torch.tensor([[3.0, -1.0, 0.5], [0.1, 0.2, 0.3]])
    module = losses.create(name, weight=torch.tensor([0.0, 1.0, 1.0]), reduction="mean", **params)
    value, gradient = value_and_gradient(module, logits, torch.tensor([0, 0]))
    assert value == 0
    assert (gradient == 0).all()
