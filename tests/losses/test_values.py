# SPDX-License-Identifier: Apache-2.0
"""Values and gradients of every loss against the independent reference, at ordinary and extreme points."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.losses import reference
from tests.losses.reference import FOCAL, assert_close
from torch.nn.functional import cross_entropy

from noiseproof import losses

NAMES = losses.available()
CATALOGUE = """
    nlf-ce nlf-fl ce fl mae rce gce sce phce tce nce nfl nmae nrce agce aul ael
    nce+mae nce+rce nfl+mae nfl+rce nce+agce nce+aul nce+ael nnce nnfl anl-ce anl-fl anl-ce*
    jal-ce jal-fl eps-ce+mae eps-fl+mae logitclip-ce
"""
DTYPES = {name: getattr(torch, name) for name in reference.TOLERANCE}


def parameters(name, which):
    return dict(losses.record(name).defaults) if which == "defaults" else reference.other_params(name)


def random_point(classes, samples=5, spread=3.0, seed=0):
    rng = np.random.default_rng([classes, seed])
    return rng.normal(scale=spread, size=(samples, classes)), rng.integers(classes, size=samples)


def saturated(classes, size):
    """One logit of `size`, the rest `-size`: the label on the top, then on a class that has nothing."""
    logits = np.full((2, classes), -float(size))
    logits[:, classes // 2] = size
    return logits, np.array([classes // 2, 0])


def least_likely(classes=6):
    logits = np.linspace(9.0, -9.0, classes)[None]
    return logits, np.array([classes - 1])


EXTREMES = {
    "1e4, three classes": saturated(3, 1e4),
    "1e4, ten classes": saturated(10, 1e4),
    "1e4, two classes": saturated(2, 1e4),
    "1e4 against 0": (np.array([[1e4, 0.0, 0.0], [0.0, -1e4, 0.0]]), np.array([1, 1])),
    "two tops at 1e4": (np.array([[1e4, -1e4, 1e4, -1e4]] * 3), np.array([0, 1, 2])),
    "one-hot to rounding": saturated(4, 20.0),
    "below p_min": saturated(5, 8.5),
    "all zero": (np.zeros((2, 7)), np.array([0, 6])),
    "all 1e4": (np.full((1, 3), 1e4), np.array([2])),
    "label on the least likely": least_likely(),
}


def evaluate(name, logits, labels, dtype="float64", reduction="none", **params):
    scores = torch.tensor(np.asarray(logits), dtype=DTYPES[dtype])
    return losses.create(name, reduction=reduction, **params)(scores, torch.as_tensor(labels))


def slopes(name, logits, labels, dtype="float64", **params):
    scores = torch.tensor(np.asarray(logits), dtype=DTYPES[dtype], requires_grad=True)
    losses.create(name, reduction="sum", **params)(scores, torch.as_tensor(labels)).backward()
    assert scores.grad.dtype == DTYPES[dtype]
    return scores.grad.double().numpy()


# --- the catalogue itself --------------------------------------------------------------------------------


def test_every_listed_loss_has_a_reference_and_every_asked_for_loss_is_listed():
    assert sorted(NAMES) == sorted(CATALOGUE.split())
    assert sorted(NAMES) == sorted(reference.LOSSES)


@pytest.mark.parametrize("name", NAMES)
def test_hyperparameters_are_those_of_the_formula_with_its_constants(name):
    defaults = losses.record(name).defaults
    assert set(defaults) == reference.hyperparameters(name)
    constants = {"p_min": 1e-7, "label_floor": 1e-4, "p_floor": 1e-8, "detach_modulator": True, "scale": 1}
    constants |= {"gamma": 0.1 if name == "eps-fl+mae" else 0.5, "published": False}
    if name == "gce":
        constants["q"] = 0.7
    for key in set(constants) & set(defaults):
        assert defaults[key] == constants[key], key


# --- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["defaults", "other"])
@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_values_at_random_points(name, classes, which):
    logits, labels = random_point(classes)
    params = parameters(name, which)
    expected = reference.per_sample(name, logits, labels, **params)
    assert_close(evaluate(name, logits, labels, **params), expected, "float64")
    single = evaluate(name, logits, labels, dtype="float32", **params)
    expected = reference.per_sample(name, logits.astype(np.float32), labels, **params)
    assert_close(single, expected, "float32")


@pytest.mark.parametrize("which", ["defaults", "other"])
@pytest.mark.parametrize("point", EXTREMES)
@pytest.mark.parametrize("name", NAMES)
def test_values_at_extreme_points(name, point, which):
    logits, labels = EXTREMES[point]
    params = parameters(name, which)
    expected = reference.per_sample(name, logits, labels, exact=True, **params)
    for dtype in ("float64", "float32"):
        assert_close(evaluate(name, logits, labels, dtype, **params), expected, dtype, message=dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_half_logits_are_computed_and_returned_in_float32(name, dtype):
    logits, labels = random_point(100, samples=8, spread=4.0)
    rounded = torch.tensor(logits).to(DTYPES[dtype]).double().numpy()
    params = parameters(name, "defaults")
    actual = evaluate(name, rounded, labels, dtype, **params)
    assert actual.dtype == torch.float32
    assert_close(actual, reference.per_sample(name, rounded, labels, **params), dtype)
    precise = slopes(name, rounded, labels, **params)  # compared with the reference below
    assert_close(slopes(name, rounded, labels, dtype, **params), precise, dtype, "gradient")


@pytest.mark.parametrize("name", NAMES)
def test_output_dtype_follows_the_logits(name):
    logits, labels = random_point(4)
    for dtype in ("float32", "float64"):
        for reduction in ("none", "sum", "mean"):
            assert evaluate(name, logits, labels, dtype, reduction).dtype == DTYPES[dtype]


@pytest.mark.parametrize("which", ["defaults", "other"])
@pytest.mark.parametrize("name", NAMES)
def test_function_and_module_agree(name, which):
    logits, labels = (torch.as_tensor(part) for part in random_point(6))
    params, weight = parameters(name, which), torch.rand(6, dtype=torch.float64)
    module = losses.create(name, weight=weight, ignore_index=2, reduction="sum", **params)
    assert isinstance(module, losses.record(name).module)
    expected = losses.record(name).function(
        logits, labels, weight=weight, ignore_index=2, reduction="sum", **params
    )
    assert module(logits, labels).item() == expected.item()


# p = (1/4, 3/4) from the logits (0, log 3), the label on the first class. With A = −log 1e-7 = 16.118096:
HAND = {
    "ce": ({}, math.log(4)),
    "fl": ({"gamma": 2.0}, 9 / 16 * math.log(4)),
    "mae": ({"scale": 2.0}, 1.5),
    "rce": ({}, 0.75 * 9.210340371976182),  # −log 1e-4 on the class that is not the label
    "gce": ({"q": 0.5}, 1.0),  # (1 − √¼) / ½
    "sce": ({"alpha": 2.0, "beta": 0.5}, 2 * math.log(4) + 0.375 * 9.210340371976182),
    "phce": ({"tau": 2.0}, -0.5 + math.log(2) + 1),  # ¼ ≤ ½: the linear branch
    "tce": ({"t": 3}, 1.171875),  # ¾ + (9/16)/2 + (27/64)/3
    "nce": ({}, math.log(4) / math.log(16 / 3)),
    "nfl": ({"gamma": 2.0}, 9 * math.log(4) / (9 * math.log(4) + math.log(4 / 3))),
    "nmae": ({}, 0.75),  # K − 1 = 1
    "nrce": ({}, 0.75),
    "agce": ({"a": 1.0, "q": 2.0}, 1.21875),  # (4 − 25/16) / 2
    "aul": ({"a": 2.0, "q": 2.0}, 1.03125),  # (49/16 − 1) / 2
    "ael": ({"a": 0.5}, math.exp(-0.5)),
    "nlf-ce": ({}, 16.11809565095832 - math.log(4 / 3)),  # the other class alone
    "nlf-fl": ({"gamma": 1.0}, (1 - 1e-7) * 16.11809565095832 - math.log(4 / 3) / 4),
    "nnce": ({}, 0.517973),  # 1 − (16.118096 − 1.386294) / (32.236191 − 1.673976)
    "nnfl": ({"gamma": 1.0}, 0.515547),  # 1 − (16.118094 − 1.039721) / (32.236188 − 1.039721 − 0.071921)
    "anl-ce": ({"alpha": 2.0, "beta": 4.0}, 2 * 0.828144 + 4 * 0.517973),
    # π = p here: log 2 + ¼ log ¼ + ¾ log ¾ = 0.693147 − 0.346574 − 0.215762
    "anl-ce*": (
        {"alpha": 2.0, "beta": 4.0, "entropy_weight": 3.0},
        2 * 0.828144 + 4 * 0.517973 + 3 * 0.130812,
    ),
    "jal-ce": ({"alpha": 1.0, "beta": 1.0, "a": 2.0}, 0.828144 + 1.8125),  # ((¼ − 2)² + (¾)²) / 2
    "eps-ce+mae": ({"alpha": 1.0, "beta": 1.0, "m": 3.0}, math.log(16) + 1.5),  # p' = (1/16, 15/16)
    "eps-fl+mae": ({"alpha": 1.0, "beta": 0.0, "m": 3.0, "gamma": 1.0}, 15 / 16 * math.log(16)),
    "logitclip-ce": ({"bound": 0.5}, math.log(1 + math.exp(0.5))),  # norm log 3 > ½: logits (0, ½)
}


@pytest.mark.parametrize("name", HAND)
def test_hand_values(name):
    params, expected = HAND[name]
    actual = evaluate(name, [[0.0, math.log(3)]], [0], **params)
    assert actual.item() == pytest.approx(expected, rel=3e-6)


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_a_class_that_is_ruled_out_has_no_part_in_a_clipped_norm(published, scale):
    loss = losses.create("logitclip-ce", published=published)
    logits = scale * torch.randn(5, 4, dtype=torch.float64)
    target = torch.randint(4, (5,))
    ruled_out = torch.cat([logits, torch.full((5, 1), -torch.inf, dtype=torch.float64)], 1).requires_grad_()
    value = loss(ruled_out, target)
    torch.testing.assert_close(value, loss(logits, target))
    (found,) = torch.autograd.grad(value, ruled_out)
    (expected,) = torch.autograd.grad(loss(logits.requires_grad_(), target), logits)
    torch.testing.assert_close(found[:, :4], expected)
    assert (found[:, 4] == 0).all()


def test_published_logit_clip_rescales_beyond_the_inverse_of_the_bound():
    logits = [[0.0, math.log(3)]]
    kept = evaluate("logitclip-ce", logits, [0], bound=0.5, published=True)  # log 3 < 1/0.5
    assert kept.item() == pytest.approx(math.log(4), rel=1e-12)
    stretched = evaluate("logitclip-ce", logits, [0], bound=2.0, published=True)  # log 3 > 1/2: norm 2
    assert stretched.item() == pytest.approx(math.log(1 + math.exp(2)), rel=1e-12)


# --- gradients -------------------------------------------------------------------------------------------

GRADIENT_POINTS = {
    "two classes": random_point(2, samples=3, spread=1.5),
    "ordinary": random_point(5, samples=3, spread=1.5),
    "some below p_min": random_point(4, samples=4, spread=14.0),
    "one-hot to rounding": saturated(3, 20.0),
    "1e4": (np.array([[1e4, -1e4, 3.0], [1e4, -1e4, 3.0], [5.0, -1e4, 4.0]]), np.array([0, 1, 2])),
    "label on the least likely": least_likely(4),
}


@pytest.mark.parametrize("which", ["defaults", "other"])
@pytest.mark.parametrize("point", GRADIENT_POINTS)
@pytest.mark.parametrize("name", NAMES)
def test_gradients(name, point, which):
    logits, labels = GRADIENT_POINTS[point]
    params = parameters(name, which)
    expected = reference.gradient(name, logits, labels, **params)
    for dtype in ("float64", "float32"):
        logits = logits.astype(dtype)
        assert_close(slopes(name, logits, labels, dtype, **params), expected, dtype, "gradient", dtype)


@pytest.mark.parametrize("name", FOCAL)
def test_a_detached_modulator_is_a_constant_to_the_gradient(name):
    logits, labels = GRADIENT_POINTS["ordinary"]
    params = parameters(name, "other")
    found = {}
    for detached in (True, False):
        params["detach_modulator"] = detached
        found[detached] = slopes(name, logits, labels, **params)
        expected = reference.gradient(name, logits, labels, **params)
        assert_close(found[detached], expected, "float64", "gradient", f"detached {detached}")
    assert np.abs(found[True] - found[False]).max() > 1e-6, "the switch does nothing"


@pytest.mark.parametrize("which", ["defaults", "other"])
@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(name, which):
    params = parameters(name, which)
    if name in FOCAL:
        params["detach_modulator"] = False
    weight = torch.tensor([0.5, 2.0, 1.0, 0.3], dtype=torch.float64)
    logits, labels = random_point(4, samples=4, spread=1.5, seed=1)
    scores, target = torch.tensor(logits, requires_grad=True), torch.as_tensor(labels)
    soft = torch.tensor(np.random.default_rng(2).dirichlet(np.ones(4), size=4))
    module = losses.create(name, weight=weight, ignore_index=int(labels[0]), reduction="mean", **params)
    assert torch.autograd.gradcheck(lambda z: module(z, target), scores)
    assert torch.autograd.gradcheck(lambda z: module(z, soft), scores)


# --- limits: where one loss becomes another --------------------------------------------------------------

LIMITS = [
    ("gce", {"q": 1e-7}, "ce", {}, 1e-5),
    ("fl", {"gamma": 0.0}, "ce", {}, 1e-12),
    ("phce", {"tau": 1e12}, "ce", {}, 1e-12),
    ("tce", {"t": 2000}, "ce", {}, 1e-9),
    ("tce", {"t": 1}, "mae", {}, 1e-12),
    ("sce", {"alpha": 1.0, "beta": 0.0}, "ce", {}, 1e-12),
    ("gce", {"q": 1.0}, "mae", {}, 1e-12),
    ("agce", {"a": 3.0, "q": 1.0}, "mae", {}, 1e-12),
    ("aul", {"a": 3.0, "q": 1.0}, "mae", {}, 1e-12),
    ("nfl", {"gamma": 0.0}, "nce", {}, 1e-12),
    ("nnfl", {"gamma": 0.0}, "nnce", {}, 1e-12),
    ("nlf-fl", {"gamma": 0.0}, "nlf-ce", {}, 1e-12),
    ("anl-fl", {"alpha": 2.0, "beta": 3.0, "gamma": 0.0}, "anl-ce", {"alpha": 2.0, "beta": 3.0}, 1e-12),
    (
        "anl-ce*",
        {"alpha": 2.0, "beta": 3.0, "entropy_weight": 0.0},
        "anl-ce",
        {"alpha": 2.0, "beta": 3.0},
        1e-12,
    ),
    ("anl-ce", {"alpha": 0.0, "beta": 1.0}, "nnce", {}, 1e-12),
    ("anl-ce", {"alpha": 1.0, "beta": 0.0}, "nce", {}, 1e-12),
    ("jal-ce", {"alpha": 1.0, "beta": 0.0}, "nce", {}, 1e-12),
    ("logitclip-ce", {"bound": 1e6}, "ce", {}, 1e-12),
    ("eps-ce+mae", {"alpha": 1.0, "beta": 0.0, "m": 1e-12}, "ce", {}, 1e-9),
]


@pytest.mark.parametrize(("name", "params", "limit", "limit_params", "tolerance"), LIMITS)
def test_limits(name, params, limit, limit_params, tolerance):
    rng = np.random.default_rng(3)
    logits, labels = rng.normal(size=(6, 4)), rng.integers(4, size=6)
    value, expected = (
        evaluate(name, logits, labels, **params),
        evaluate(limit, logits, labels, **limit_params),
    )
    torch.testing.assert_close(value, expected, rtol=tolerance, atol=tolerance)
    found, wanted = slopes(name, logits, labels, **params), slopes(limit, logits, labels, **limit_params)
    np.testing.assert_allclose(found, wanted, rtol=10 * tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("target", ["index", "ignored", "soft"])
@pytest.mark.parametrize("shape", [(7, 5), (3, 5, 4), (2, 5, 3, 2), (5,)])
def test_cross_entropy_is_torchs(shape, target, weighted, reduction):
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(shape, generator=generator, dtype=torch.float64)
    positions = shape[:1] + shape[2:] if len(shape) > 1 else ()
    labels = torch.randint(5, positions, generator=generator)
    if target == "ignored" and positions:
        labels[..., 0] = 3
    if target == "soft":
        labels = torch.rand(shape, generator=generator, dtype=torch.float64)
        labels /= labels.sum(0 if len(shape) == 1 else 1, keepdim=True)
    weight = torch.rand(5, generator=generator, dtype=torch.float64) if weighted else None
    ignore_index = 3 if target == "ignored" and positions else -100
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    module = losses.create("ce", weight=weight, ignore_index=ignore_index, reduction=reduction)
    value = module(ours, labels)
    expected = cross_entropy(theirs, labels, weight=weight, ignore_index=ignore_index, reduction=reduction)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    pull = torch.linspace(0.5, 1.5, value.numel(), dtype=torch.float64).reshape(value.shape)
    value.backward(pull)
    expected.backward(pull)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)


# --- recipes ---------------------------------------------------------------------------------------------


def assert_is_the_recipe(module, name, stated):
    logits, labels = random_point(10, samples=6, spread=2.0)
    expected = reference.per_sample(name, logits, labels, **{**losses.record(name).defaults, **stated})
    assert_close(module(torch.tensor(logits), torch.as_tensor(labels)), expected, "float64")


@pytest.mark.parametrize("recipe", [*reference.RECIPES, "webvision"])
@pytest.mark.parametrize("name", NAMES)
def test_recipes_without_noise(name, recipe):
    module = losses.create(name, recipe=recipe, reduction="none")
    table = reference.RECIPES["webvision-mini" if recipe == "webvision" else recipe]
    noisy = {place for place, *_ in [*reference.EPSILON_SOFTMAX, *reference.LOGIT_CLIP]}
    if name.startswith(("eps", "logitclip")) and recipe in noisy:
        pytest.skip("this entry depends on the noise and is tested with it")
    assert name not in reference.UNSCALED or name not in table
    assert_is_the_recipe(module, name, table.get(name, {}))


@pytest.mark.parametrize("key", reference.EPSILON_SOFTMAX, ids=str)
@pytest.mark.parametrize("name", ["eps-ce+mae", "eps-fl+mae"])
def test_epsilon_softmax_recipes_by_noise(name, key):
    recipe, kind, rate = key
    module = losses.create(name, recipe=recipe, noise=f"{kind}-{rate}", reduction="none")
    stated = dict(zip(("alpha", "beta", "m"), reference.EPSILON_SOFTMAX[key], strict=True))
    assert_is_the_recipe(module, name, stated)


@pytest.mark.parametrize("key", reference.LOGIT_CLIP, ids=str)
def test_logit_clip_recipes_by_noise(key):
    recipe, kind, rate = key
    module = losses.create("logitclip-ce", recipe=recipe, noise=f"{kind}-{rate}", reduction="none")
    assert_is_the_recipe(module, "logitclip-ce", {"bound": reference.LOGIT_CLIP[key], "published": True})


@pytest.mark.parametrize("name", NAMES)
def test_recipes_state_the_l1_weight_and_whether_the_noise_matters(name):
    for recipe, entry in losses.record(name).recipes.items():
        assert entry.l1 == reference.L1.get(name, {}).get(recipe, 0), recipe
        by_noise = name.startswith(("eps", "logitclip")) and recipe in ("cifar10", "cifar100")
        assert entry.depends_on_noise == by_noise, recipe
    assert set(reference.L1.get(name, {})) <= set(losses.record(name).recipes)


def test_a_stated_hyperparameter_overrides_the_recipe():
    module = losses.create("anl-ce", recipe="cifar100", beta=3.5, reduction="none")
    assert_is_the_recipe(module, "anl-ce", {"alpha": 10, "beta": 3.5})
