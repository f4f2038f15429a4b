# SPDX-License-Identifier: Apache-2.0
"""What holds for every loss on every shape: targets, layouts, reductions, class order, range."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.losses import reference
from tests.losses.reference import assert_close

from noiseproof import losses

NAMES = losses.available()
DTYPES = {name: getattr(torch, name) for name in reference.TOLERANCE}
IGNORED = 255

some = settings(max_examples=12, derandomize=True, deadline=None)
every_loss = pytest.mark.parametrize("name", NAMES)


@st.composite
def problems(draw, dtypes=tuple(DTYPES), largest_classes=7):
    """Logits of any legal shape, labels, and class weights or none, as (dtype, logits, labels, weight)."""
    classes = draw(st.integers(2, largest_classes))
    batch = draw(st.one_of(st.just(()), st.integers(1, 5).map(lambda n: (n,))))
    dense = draw(st.lists(st.integers(1, 3), max_size=2)) if batch else []
    dtype = draw(st.sampled_from(dtypes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    spread = draw(st.sampled_from([0.5, 3.0, 12.0]))
    logits = spread * torch.randn((*batch, classes, *dense), generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (*batch, *dense), generator=generator)
    weighted = draw(st.booleans())
    # Weights of labels and soft targets carry the working dtype, which for half logits is float32.
    working = torch.float64 if dtype == "float64" else torch.float32
    weight = 0.1 + torch.rand(classes, generator=generator, dtype=working) if weighted else None
    return dtype, logits.to(DTYPES[dtype]), labels, weight


def class_axis(logits):
    return 0 if logits.ndim == 1 else 1


def soft_targets(logits, labels):
    """One-hot rows, with the class axis where the logits have it."""
    rows = torch.nn.functional.one_hot(labels, logits.shape[class_axis(logits)])
    rows = rows.movedim(-1, class_axis(logits))
    return rows.to(torch.float64 if logits.dtype == torch.float64 else torch.float32)


def flattened(logits):
    """(positions, K), the layout of a plain batch."""
    return logits.movedim(class_axis(logits), -1).reshape(-1, logits.shape[class_axis(logits)])


def compute(name, logits, target, reduction="none", **options):
    return losses.create(name, reduction=reduction, **options)(logits, target)


@every_loss
@some
@given(problem=problems())
def test_index_targets_equal_one_hot_targets(name, problem):
    dtype, logits, labels, weight = problem
    by_index = compute(name, logits, labels, weight=weight)
    by_share = compute(name, logits, soft_targets(logits, labels), weight=weight)
    assert by_index.shape == labels.shape
    assert by_index.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    assert_close(by_share, by_index, dtype)


@every_loss
@some
@given(problem=problems())
def test_index_and_one_hot_targets_have_the_same_gradient(name, problem):
    dtype, logits, labels, weight = problem
    module = losses.create(name, weight=weight, reduction="sum")
    grads = []
    for target in (labels, soft_targets(logits, labels)):
        scores = logits.clone().requires_grad_()
        module(scores, target).backward()
        grads.append(scores.grad.double())
    assert_close(grads[1], grads[0], dtype, "gradient")


@every_loss
@some
@given(problem=problems(dtypes=("float64", "float32")), seed=st.integers(0, 1000))
def test_soft_targets_mean_the_expected_loss_over_the_label(name, problem, seed):
    dtype, logits, labels, weight = problem
    shares = np.random.default_rng(seed).dirichlet(
        np.ones(logits.shape[class_axis(logits)]), size=labels.shape
    )
    target = torch.tensor(np.moveaxis(shares, -1, class_axis(logits)), dtype=logits.dtype)
    by_label = reference.per_class(name, flattened(logits).numpy(), **losses.record(name).defaults)
    weights = 1.0 if weight is None else weight.double().numpy()
    expected = (weights * shares.reshape(by_label.shape) * by_label).sum(axis=1)
    assert_close(compute(name, logits, target, weight=weight), expected.reshape(labels.shape), dtype)
    # Like torch, the mean over soft targets divides by the positions, whatever the weights.
    assert_close(compute(name, logits, target, "mean", weight=weight), expected.mean(), dtype)
    assert_close(compute(name, logits, target, "sum", weight=weight), expected.sum(), dtype)


@every_loss
@some
@given(problem=problems())
def test_dense_input_equals_flattened_input(name, problem):
    dtype, logits, labels, weight = problem
    flat, flat_labels = flattened(logits), labels.reshape(-1)
    dense = compute(name, logits, labels, weight=weight)
    assert_close(dense.reshape(-1), compute(name, flat, flat_labels, weight=weight), dtype)
    for reduction in ("sum", "mean"):
        expected = compute(name, flat, flat_labels, reduction, weight=weight)
        assert_close(compute(name, logits, labels, reduction, weight=weight), expected, dtype)


@every_loss
@some
@given(problem=problems(), keep=st.integers(0, 3))
def test_reductions_are_linear_and_ignored_labels_count_for_nothing(name, problem, keep):
    dtype, logits, labels, weight = problem
    ignored = torch.arange(labels.numel()).reshape(labels.shape) % 4 == keep
    labels = torch.where(ignored, IGNORED, labels)
    options = {"weight": weight, "ignore_index": IGNORED}
    each = compute(name, logits, labels, **options)
    assert (each[ignored] == 0).all()
    total = each.double().sum()
    assert_close(compute(name, logits, labels, "sum", **options), total, dtype)
    counted = labels[~ignored]
    share = counted.numel() if weight is None else weight.double()[counted].sum()
    expected = total / share if counted.numel() else 0.0
    assert_close(compute(name, logits, labels, "mean", **options), expected, dtype)
    # What remains is the loss of the batch without the ignored rows.
    rest = flattened(logits)[~ignored.reshape(-1)]
    if counted.numel():
        assert_close(each[~ignored], compute(name, rest, counted, weight=weight), dtype)


@every_loss
@some
@given(problem=problems(dtypes=("float64", "float32")))
def test_ignored_rows_receive_no_gradient(name, problem):
    _, logits, labels, weight = problem
    ignored = torch.arange(labels.numel()).reshape(labels.shape) % 2 == 0
    scores = logits.clone().requires_grad_()
    module = losses.create(name, weight=weight, ignore_index=IGNORED, reduction="mean")
    module(scores, torch.where(ignored, IGNORED, labels)).backward()
    assert (flattened(scores.grad)[ignored.reshape(-1)] == 0).all()


@every_loss
@some
@given(problem=problems(dtypes=("float64", "float32")))
def test_class_weights_multiply_the_loss_of_their_label(name, problem):
    dtype, logits, labels, _ = problem
    weight = torch.linspace(0.0, 2.0, logits.shape[class_axis(logits)], dtype=logits.dtype)
    plain = compute(name, logits, labels)
    assert_close(compute(name, logits, labels, weight=weight), weight[labels] * plain, dtype)


@every_loss
@some
@given(problem=problems(dtypes=("float64", "float32")), seed=st.integers(0, 1000))
def test_renaming_the_classes_changes_nothing(name, problem, seed):
    dtype, logits, labels, weight = problem
    classes = logits.shape[class_axis(logits)]
    order = torch.randperm(classes, generator=torch.Generator().manual_seed(seed))
    renamed = torch.empty_like(order)
    renamed[order] = torch.arange(classes)  # old class order[j] is the new class j
    expected = compute(name, logits, labels, weight=weight)
    moved = logits.index_select(class_axis(logits), order)
    moved_weight = None if weight is None else weight[order]
    assert_close(compute(name, moved, renamed[labels], weight=moved_weight), expected, dtype)


@every_loss
@some
@given(problem=problems(dtypes=("float64",)), shift=st.floats(-50, 50))
def test_adding_a_constant_to_all_logits_changes_nothing_but_a_clipped_norm(name, problem, shift):
    dtype, logits, labels, _ = problem
    moved, plain = compute(name, logits + shift, labels), compute(name, logits, labels)
    if name == "logitclip-ce":
        expected = reference.per_sample(
            name,
            flattened(logits + shift).numpy(),
            labels.reshape(-1).numpy(),
            **losses.record(name).defaults,
        )
        assert_close(moved.reshape(-1), expected, dtype)
    else:
        assert_close(moved, plain, dtype)


# --- range -----------------------------------------------------------------------------------------------


def bounds(name, k, p):
    """Smallest and largest value of a loss over all predictions of k classes, from its formula."""
    if "+" in name and not name.startswith("eps"):
        first, second = name.split("+")
        (low1, high1), (low2, high2) = bounds(first, k, p), bounds(second, k, {"scale": 1, **p})
        return p["alpha"] * low1 + p["beta"] * low2, p["alpha"] * high1 + p["beta"] * high2
    if name in ("ce", "fl", "sce"):
        return 0, math.inf
    if name in ("nce", "nfl", "nnce", "nnfl"):
        return 0, 1
    if name in ("nlf-ce", "nlf-fl"):
        return 0, (k - 1) * -math.log(p["p_min"])
    if name in ("nmae", "nrce"):
        return 0, 1 / (k - 1)
    if name in ("anl-ce", "anl-fl"):
        return 0, p["alpha"] + p["beta"]
    if name == "anl-ce*":  # clamping p lets π sum to a little more than one
        slack = p["entropy_weight"] * k * p["p_min"] * (1 + math.log(k))
        return -slack, p["alpha"] + p["beta"] + p["entropy_weight"] * math.log(k)
    if name in ("jal-ce", "jal-fl"):
        low, high = (p["a"] - 1) ** 2 / k, (p["a"] ** 2 + 1) / k
        return p["beta"] * low, p["alpha"] + p["beta"] * high
    if name.startswith("eps"):
        return 0, p["alpha"] * -math.log(p["p_floor"]) + 2 * p["beta"]
    if name == "logitclip-ce":  # two logits of a vector of norm r differ by at most √2·r
        radius = max(p["bound"], 1 / p["bound"]) if p["published"] else p["bound"]
        gap = math.sqrt(2) * radius
        return math.log1p(math.exp(-gap)), math.log1p((k - 1) * math.exp(gap))
    return {
        "mae": lambda: (0, p["scale"]),
        "rce": lambda: (0, -math.log(p["label_floor"])),
        "gce": lambda: (0, (1 - p["p_min"] ** p["q"]) / p["q"]),
        "phce": lambda: (0, math.log(p["tau"]) + 1),
        "tce": lambda: (0, sum(1 / i for i in range(1, p["t"] + 1))),
        "agce": lambda: (0, ((p["a"] + 1) ** p["q"] - p["a"] ** p["q"]) / p["q"]),
        "aul": lambda: (0, (p["a"] ** p["q"] - (p["a"] - 1) ** p["q"]) / p["q"]),
        "ael": lambda: (math.exp(-1 / p["a"]), 1),
    }[name]()


# Losses whose largest value a wrong and certain prediction attains, and whose smallest a right one does.
ATTAINED = ("mae", "rce", "gce", "phce", "tce", "nmae", "nrce", "agce", "aul", "ael", "nnce", "nnfl")


@pytest.mark.parametrize("which", ["defaults", "other"])
@every_loss
@settings(some, max_examples=20)
@given(
    classes=st.integers(2, 12), spread=st.sampled_from([1.0, 10.0, 100.0, 1e4]), seed=st.integers(0, 2**31)
)
def test_values_stay_in_the_range_of_the_formula(name, which, classes, spread, seed):
    params = dict(losses.record(name).defaults) if which == "defaults" else reference.other_params(name)
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn((6, classes), generator=generator, dtype=torch.float64)
    values = compute(name, logits, torch.randint(classes, (6,), generator=generator), **params)
    low, high = bounds(name, classes, params)
    room = 1e-12 * max(1.0, abs(low), high if math.isfinite(high) else 1.0)
    assert values.min().item() >= low - room
    assert values.max().item() <= high + room


@pytest.mark.parametrize("name", ATTAINED)
@pytest.mark.parametrize("classes", [2, 5])
def test_certain_predictions_attain_the_ends_of_the_range(name, classes):
    params = losses.record(name).defaults
    logits = torch.full((2, classes), -1e4, dtype=torch.float64)
    logits[:, 1] = 1e4
    right, wrong = compute(name, logits, torch.tensor([1, 0]), **params).tolist()
    low, high = bounds(name, classes, params)
    assert right == pytest.approx(low, abs=1e-12)
    assert wrong == pytest.approx(high, rel=1e-9)
