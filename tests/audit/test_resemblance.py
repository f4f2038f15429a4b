# SPDX-License-Identifier: Apache-2.0
"""Wrong labels that follow resemblance, by hand, against a linear programme, and on noise of both sorts."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from noiseproof.audit import score_labels
from noiseproof.audit.resemblance import (
    FITTED,
    HIDDEN_SHARE,
    MODELS_SHARE,
    corrected_rate,
    following_resemblance,
)


def overlap_of(classes, seed=0):
    """Mean of q qᵀ for drawn q."""
    drawn = np.random.RandomState(seed).dirichlet(np.full(classes, 0.2), 500)
    return drawn.T @ drawn / len(drawn)


def off_diagonal(matrix):
    return matrix - np.diag(np.diag(matrix))


def by_chance(overlap, rate):
    classes = overlap.sum(1)
    blind = off_diagonal(np.outer(classes, classes))
    return rate * blind / blind.sum()


def test_finds_the_parts_that_were_put_in():
    overlap = overlap_of(6)
    alike = off_diagonal(overlap)
    joint = by_chance(overlap, 0.2) + 0.3 * alike
    assert following_resemblance(joint, overlap)[0] == pytest.approx(0.3 * alike.sum(), rel=1e-4)


def test_a_few_pairs_with_many_flips_do_not_bend_it():
    overlap = overlap_of(8)
    alike = off_diagonal(overlap)
    joint = 0.3 * alike
    joint[0, 1] += 0.05
    joint[5, 2] += 0.1
    assert following_resemblance(joint, overlap)[0] == pytest.approx(0.3 * alike.sum(), rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_leaves_as_little_as_a_linear_programme_does(seed):
    random, overlap = np.random.RandomState(seed), overlap_of(5, seed)
    joint = off_diagonal(random.rand(5, 5) ** 3) / 50
    different = ~np.eye(5, dtype=bool)
    classes = overlap.sum(1)
    parts = np.column_stack([np.outer(classes, classes)[different], overlap[different]])
    wrong, count = joint[different], int(different.sum())
    # Minimise Σ|wrong - parts @ (u, s)| with s·ΣO no more than all that is wrong.
    solved = linprog(
        np.r_[0, 0, np.ones(count)],
        A_ub=np.block([[parts, -np.eye(count)], [-parts, -np.eye(count)]]),
        b_ub=np.r_[wrong, -wrong],
        bounds=[(0, None), (0, wrong.sum() / parts[:, 1].sum()), *[(0, None)] * count],
    )
    found, explained = following_resemblance(joint, overlap)
    assert found == pytest.approx(solved.x[1] * parts[:, 1].sum(), abs=1e-5)
    level = min(
        (each for each in [0.0, *(wrong / parts[:, 0])]),
        key=lambda each: np.abs(wrong - each * parts[:, 0]).sum(),
    )
    assert explained == pytest.approx(np.abs(wrong - level * parts[:, 0]).sum() - solved.fun, abs=1e-6)


def test_all_that_follows_resemblance_hides_more():
    overlap = overlap_of(6)
    joint = 0.5 * off_diagonal(overlap)
    rate, pairs = float(joint.sum()), 15
    expected = rate * (1 + (1 - FITTED / pairs) * HIDDEN_SHARE)
    assert corrected_rate(rate, joint, overlap) == pytest.approx(expected, rel=1e-3)


def test_a_little_that_follows_it_is_mostly_the_models():
    # Each resembles its neighbours.
    overlap = np.diag(np.full(6, 0.12)) + 0.02 * (np.eye(6, k=1) + np.eye(6, k=-1))
    following = 0.25 * off_diagonal(overlap)
    joint = by_chance(overlap, 0.4) + following
    rate, share = float(joint.sum()), float(following.sum() / joint.sum())
    change = HIDDEN_SHARE * share - MODELS_SHARE * (1 - share)
    expected = rate + (1 - FITTED / 15) * following.sum() * change
    assert corrected_rate(rate, joint, overlap) == pytest.approx(expected, rel=1e-3)
    assert expected < rate


def test_classes_that_are_all_alike_tell_nothing():
    alike = np.full((6, 6), 1 / 36)
    assert corrected_rate(0.2, by_chance(alike, 0.2), alike) == pytest.approx(0.2)


def test_two_classes_nothing_wrong_and_an_unknown_class_change_nothing():
    two = overlap_of(2)
    assert corrected_rate(0.2, 0.2 * off_diagonal(two) / two[0, 1] / 2, two) == 0.2
    assert corrected_rate(0.0, np.diag([0.5, 0.3, 0.2]), overlap_of(3)) == 0.0
    sure = np.diag([0.5, 0.5, 0.0])
    wrong = np.array([[0.4, 0.1, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 0.0]])
    assert corrected_rate(0.2, wrong, sure) == 0.2


def blurred(points, centres, spread, random):
    """Labels by somebody who sees each point through more noise than there is: what is hard to see goes wrong."""
    seen = points + spread * random.standard_normal(points.shape)
    return ((seen[:, None] - centres) ** 2).sum(2).argmin(1)


@pytest.mark.parametrize("by_people", [True, False])
def test_moves_the_rate_towards_the_truth_or_leaves_it(by_people):
    """Eight classes of points, some of them near each other."""
    random = np.random.RandomState(3)
    centres = 2.5 * random.standard_normal((8, 3))
    true = random.randint(8, size=4000)
    points = centres[true] + random.standard_normal((4000, 3))
    flipped = np.where(random.rand(4000) < 0.3, (true + random.randint(1, 8, 4000)) % 8, true)
    given = blurred(points, centres, 1.5, random) if by_people else flipped
    features = np.column_stack([points, points**2])
    model = LogisticRegression(max_iter=200, C=0.001)
    probabilities = cross_val_predict(model, features, given, cv=3, method="predict_proba")
    found, rate = score_labels(given, probabilities), np.mean(given != true)
    if by_people:
        assert found.scores.mean() + 0.005 < found.noise_rate < rate
    else:
        assert found.scores.mean() == pytest.approx(found.noise_rate, abs=0.01)
        assert found.noise_rate == pytest.approx(rate, abs=0.01)
