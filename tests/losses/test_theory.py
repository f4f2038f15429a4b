# SPDX-License-Identifier: Apache-2.0
"""The theory of the paper as tests: symmetry, closed-form gradients, theorems 5 and 6, noise tolerance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.losses import reference

from noiseproof import losses

NAMES = losses.available()
SYMMETRIC = tuple(name for name in NAMES if losses.record(name).symmetric)
P_MIN = 1e-7
LOG_FLOOR = 9.210340371976182  # −log 1e-4, RCE's stand-in for −log 0
VERTEX_LOGIT = -200.0  # stands for log 0: p there is 1e-87

few = settings(max_examples=60, derandomize=True, deadline=None)


def every_label(name, logits, **params):
    """L(k) for each row of logits and each label k: (N, K)."""
    logits = torch.as_tensor(logits, dtype=torch.float64)
    rows, classes = logits.shape
    function = losses.record(name).function
    columns = [
        function(logits, torch.full((rows,), k), reduction="none", **params).detach() for k in range(classes)
    ]
    return torch.stack(columns, dim=1).numpy()


def predictions(classes, seed=0):
    """Ordinary, sharp and saturated logits."""
    rng = np.random.default_rng([classes, seed])
    spreads = np.array([0.1, 1.0, 3.0, 10.0, 30.0, 1000.0])
    return rng.normal(size=(len(spreads) * 5, classes)) * np.repeat(spreads, 5)[:, None]


# --- symmetry --------------------------------------------------------------------------------------------


def spread_of_the_sum(name, **params):
    """Range over predictions of Σ_k L(k), relative to its size, for the worst number of classes."""
    worst = 0.0
    for classes in (2, 3, 10):
        # One row at a time: the entropy term of ANL-CE* looks at the whole batch.
        rows = [every_label(name, row[None], **params)[0] for row in predictions(classes)]
        sums = np.sum(rows, axis=1)
        worst = max(worst, (sums.max() - sums.min()) / np.abs(sums).max())
    return worst


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_is_listed_as_symmetric_exactly_when_its_sum_over_labels_is_constant(name):
    spreads = [spread_of_the_sum(name), spread_of_the_sum(name, **reference.other_params(name))]
    if losses.record(name).symmetric:
        assert max(spreads) < 1e-9
    else:
        assert min(spreads) > 1e-3


CONSTANTS = {
    "mae": ({}, lambda k: k - 1),
    "rce": ({}, lambda k: LOG_FLOOR * (k - 1)),
    "nce": ({}, lambda k: 1),
    "nfl": ({}, lambda k: 1),
    "nmae": ({}, lambda k: 1),
    "nrce": ({}, lambda k: 1),
    "nnce": ({}, lambda k: k - 1),
    "nnfl": ({}, lambda k: k - 1),
    "nce+mae": ({"alpha": 2.0, "beta": 3.0}, lambda k: 2 + 3 * (k - 1)),
    "nce+rce": ({"alpha": 2.0, "beta": 3.0}, lambda k: 2 + 3 * LOG_FLOOR * (k - 1)),
    "nfl+mae": ({"alpha": 2.0, "beta": 3.0}, lambda k: 2 + 3 * (k - 1)),
    "nfl+rce": ({"alpha": 2.0, "beta": 3.0}, lambda k: 2 + 3 * LOG_FLOOR * (k - 1)),
    "anl-ce": ({"alpha": 2.0, "beta": 3.0}, lambda k: 2 + 3 * (k - 1)),
    "anl-fl": ({"alpha": 2.0, "beta": 3.0}, lambda k: 2 + 3 * (k - 1)),
}


def test_the_symmetric_losses_are_those_of_the_paper():
    assert set(SYMMETRIC) == set(CONSTANTS)


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("name", CONSTANTS)
def test_symmetry_constants(name, classes):
    params, constant = CONSTANTS[name]
    sums = every_label(name, predictions(classes), **params).sum(axis=1)
    np.testing.assert_allclose(sums, constant(classes), rtol=1e-10)


# --- closed-form gradients -------------------------------------------------------------------------------


def logit_gradient(name, p, label, **params):
    """d L / d logits at the logits log p."""
    logits = torch.tensor(np.log(p)[None], requires_grad=True)
    losses.record(name).function(logits, torch.tensor([label]), **params).backward()
    return logits.grad[0].numpy()


def through_softmax(p, slope):
    """What a gradient in p becomes in the logits: the transposed Jacobian of softmax, applied to it."""
    return (np.diag(p) - np.outer(p, p)).T @ slope


def nnce_slope(p, label):
    """The paper's ∂NNCE/∂p_j."""
    flipped = -np.log(P_MIN) + np.log(p)
    slope = flipped[label] / p / flipped.sum() ** 2
    slope[label] = -(flipped.sum() - flipped[label]) / p[label] / flipped.sum() ** 2
    return slope


def mae_slope(p, label):
    """The paper's ∂MAE/∂p_j, of Σ|p − q| = 2(1 − p_y)."""
    slope = np.ones_like(p)
    slope[label] = -1.0
    return slope


@st.composite
def distributions(draw, smallest_classes=3):
    """A distribution whose every probability is far above p_min."""
    parts = draw(st.lists(st.floats(1e-4, 1.0), min_size=smallest_classes, max_size=9))
    return np.array(parts) / np.sum(parts)


@few
@given(distributions(2), st.data())
def test_nnce_and_mae_gradients_are_the_papers(p, data):
    label = data.draw(st.integers(0, len(p) - 1))
    found = logit_gradient("nnce", p, label)
    np.testing.assert_allclose(found, through_softmax(p, nnce_slope(p, label)), rtol=1e-9, atol=1e-12)
    found = logit_gradient("mae", p, label, scale=2.0)
    np.testing.assert_allclose(found, through_softmax(p, mae_slope(p, label)), rtol=1e-9, atol=1e-12)


def slope_up_to_a_constant(name, p, label, **params):
    """∂L/∂p_j − Σ_i p_i ∂L/∂p_i, read off the gradient in the logits: p_j times it is ∂L/∂z_j."""
    return logit_gradient(name, p, label, **params) / p


@few
@given(distributions(), st.data())
def test_theorem_5_nnce_pushes_harder_on_the_less_likely_of_two_other_classes(p, data):
    classes = st.integers(0, len(p) - 1)
    label, rarer, likelier = data.draw(st.lists(classes, min_size=3, max_size=3, unique=True))
    if p[rarer] > p[likelier]:
        rarer, likelier = likelier, rarer
    assume(p[rarer] < p[likelier] * (1 - 1e-6))
    slope = slope_up_to_a_constant("nnce", p, label)
    assert slope[rarer] > slope[likelier]
    flat = slope_up_to_a_constant("mae", p, label)  # MAE treats every other class the same
    assert flat[rarer] == pytest.approx(flat[likelier], rel=1e-9, abs=1e-12)


@few
@given(distributions(), st.data())
def test_theorem_6_nnce_pushes_harder_on_the_better_learned_of_two_samples(p, data):
    label = int(np.argmax(p))
    others = [k for k in range(len(p)) if k != label]
    same = data.draw(st.sampled_from(others))
    shrink = np.ones(len(p))
    for k in set(others) - {same}:
        shrink[k] = data.draw(st.floats(0.01, 1.0))
    learned = p * shrink
    assume(p.sum() - learned.sum() > 1e-6)
    learned[label] += p.sum() - learned.sum()
    slopes = {}
    for sample, q in (("learned", learned), ("other", p)):
        # The logits see the slope up to Σ_i p_i ∂L/∂p_i, which differs between samples: add it back.
        mean = q @ nnce_slope(q, label)
        slopes[sample] = slope_up_to_a_constant("nnce", q, label)[same] + mean
        assert slopes[sample] == pytest.approx(nnce_slope(q, label)[same], rel=1e-8)
    assert slopes["learned"] > slopes["other"]


# --- noise tolerance on a finite problem -----------------------------------------------------------------

CLASSES = 3
TRUE_LABELS = np.array([0, 1, 2, 1])  # four inputs
WEIGHTS = np.array([0.4, 0.3, 0.2, 0.1])  # how often each is seen
ASYMMETRIC = np.array([[0.6, 0.4, 0.0], [0.1, 0.7, 0.2], [0.25, 0.3, 0.45]])  # rows: true class


def symmetric_noise(rate):
    kept = np.eye(CLASSES)
    return (1 - rate) * kept + rate / (CLASSES - 1) * (1 - kept)


def simplex_grid(steps=10):
    """Logits of every distribution whose probabilities are multiples of 1/steps."""
    points = [p for p in itertools.product(range(steps + 1), repeat=CLASSES) if sum(p) == steps]
    p = np.array(points) / steps
    return np.log(np.where(p > 0, p, np.exp(VERTEX_LOGIT)))


def one_class_stands_out():
    """Logits of the predictions where one class has c ≥ 1/K and the others share the rest evenly."""
    heights = np.array([0.0, 0.3, 1.0, 2.0, 4.0, 8.0, 30.0, 200.0])
    return np.concatenate([height * np.eye(CLASSES) for height in heights])


def risks_by_input(table, noise):
    """Expected loss of every candidate prediction at every input: (inputs, candidates)."""
    return noise[TRUE_LABELS] @ table.T


def smallest(risks):
    return risks <= risks.min(axis=-1, keepdims=True) + 1e-12 * np.abs(risks).max()


def assert_noise_tolerant(table, noise, seed=0):
    """The minimisers of the noisy risk minimise the clean one, over all classifiers and over a few."""
    clean, noisy = risks_by_input(table, np.eye(CLASSES)), risks_by_input(table, noise)
    slack = 1e-9 * np.abs(table).max()
    # Any map from inputs to candidates is a classifier: the risk is minimised input by input.
    for at_input_clean, at_input_noisy in zip(clean, noisy, strict=True):
        assert at_input_clean[smallest(at_input_noisy)].max() <= at_input_clean.min() + slack
    # A restricted class of classifiers, together with the one that is best on clean labels.
    rng = np.random.default_rng(seed)
    classifiers = rng.integers(len(table), size=(500, len(TRUE_LABELS)))
    classifiers[0] = clean.argmin(axis=1)
    inputs = np.arange(len(TRUE_LABELS))
    clean_risk = clean[inputs, classifiers] @ WEIGHTS
    noisy_risk = noisy[inputs, classifiers] @ WEIGHTS
    assert clean_risk[smallest(noisy_risk)].max() <= clean_risk.min() + slack


@pytest.mark.parametrize("rate", [0.1, 0.4, 0.6, 0.66])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_losses_tolerate_symmetric_noise_up_to_k_minus_one_over_k(name, rate):
    assert rate < (CLASSES - 1) / CLASSES
    assert_noise_tolerant(every_label(name, simplex_grid()), symmetric_noise(rate))


@pytest.mark.parametrize("name", SYMMETRIC)
def test_beyond_that_rate_the_noisy_minimiser_is_no_longer_clean(name):
    with pytest.raises(AssertionError):
        assert_noise_tolerant(every_label(name, simplex_grid()), symmetric_noise(0.7))


@pytest.mark.parametrize("rate", [0.2, 0.4, 0.6])
def test_cross_entropy_does_not_tolerate_symmetric_noise(rate):
    table = every_label("ce", simplex_grid())
    clean, noisy = risks_by_input(table, np.eye(CLASSES)), risks_by_input(table, symmetric_noise(rate))
    chosen = noisy.argmin(axis=1)
    assert (clean.min(axis=1) < 1e-12).all()
    # Under noise CE asks for the noisy label distribution itself, p_y = 1 − rate.
    np.testing.assert_allclose(clean[np.arange(len(chosen)), chosen], -np.log(1 - rate), rtol=1e-9)


def largest_share(table):
    """Largest L(k) over its bound C/(K−1), C the sum over labels: the asymmetric theorem asks for ≤ 1."""
    return table.max() / (table.sum(axis=1).max() / (CLASSES - 1))


BOUNDED_EVERYWHERE = ("mae", "rce", "nmae", "nrce", "nnce", "nnfl")


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_losses_tolerate_asymmetric_noise_where_the_clean_risk_reaches_zero(name):
    """η_yk < 1 − η_y, 0 ≤ L ≤ C/(K−1): on the whole simplex where the loss obeys that bound by itself."""
    off_diagonal = ASYMMETRIC - np.diag(np.diag(ASYMMETRIC))
    assert (off_diagonal.max(axis=1) < np.diag(ASYMMETRIC)).all()
    table = every_label(name, simplex_grid() if name in BOUNDED_EVERYWHERE else one_class_stands_out())
    assert table.min() >= -1e-12
    assert largest_share(table) <= 1 + 1e-9
    assert risks_by_input(table, np.eye(CLASSES)).min(axis=1).max() < 1e-9
    assert_noise_tolerant(table, ASYMMETRIC)


@pytest.mark.parametrize("name", ["ce", "fl"])
def test_unbounded_losses_do_not_tolerate_asymmetric_noise(name):
    with pytest.raises(AssertionError):
        assert_noise_tolerant(every_label(name, one_class_stands_out()), ASYMMETRIC)


@pytest.mark.parametrize("name", ["nce", "nfl"])
def test_the_bound_of_the_asymmetric_theorem_is_needed(name):
    """NCE and NFL exceed C/(K−1) inside the simplex, and there asymmetric noise moves their minimiser."""
    table = every_label(name, simplex_grid())
    assert largest_share(table) > 1.5
    with pytest.raises(AssertionError):
        assert_noise_tolerant(table, ASYMMETRIC)
