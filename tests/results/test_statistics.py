# SPDX-License-Identifier: Apache-2.0
"""Statistics against hand-computed values, exact enumeration and SciPy."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from noiseproof.results import (
    Summary,
    bootstrap_interval,
    compare,
    interval_of_mean,
    is_within_published_spread,
    published,
    published_tables,
    published_tolerance,
    ranks,
    summarise,
)

SHARED = Path(__file__).parents[3] / "shared" / "paper" / "published-tables.json"


def test_mean_and_sample_deviation_by_hand():
    found = summarise([60.0, 62.0, 67.0])  # mean 63, squares 9 + 1 + 16 = 26, over n - 1 = 2
    assert found == Summary(63.0, math.sqrt(13.0), 3)
    assert summarise([71.25]) == Summary(71.25, None, 1)
    with pytest.raises(ValueError, match="expected at least one"):
        summarise([])


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance"),
    [
        (Summary(62.0, 3.0, 4), Summary(61.0, 2.0, 1), 2 * math.sqrt(9 / 4 + 4)),  # both spreads known: 5
        (
            Summary(62.0, None, 1),
            Summary(61.0, 0.9, 3),
            2 * math.sqrt(0.81 + 0.27),
        ),  # one seed: theirs for ours
        (Summary(62.0, None, 1), Summary(61.0, None, 3), 0.5),  # neither: 0.5 alone
        (Summary(62.0, 1.5, 9), Summary(61.0, None, 3), 1.0),  # not published: counts as 0
        (Summary(62.0, 0.1, 3), Summary(61.0, 0.1, 3), 0.5),  # never less than 0.5
    ],
)
def test_the_published_spread_by_hand(ours, theirs, tolerance):
    assert published_tolerance(ours, theirs) == pytest.approx(tolerance, abs=1e-12)


@pytest.mark.parametrize(("mean", "within"), [(61.77, True), (60.77, True), (61.78, False), (60.76, False)])
def test_the_border_belongs_to_the_spread(mean, within):
    """61.77 − 61.27 is a little more than 0.5 in binary; readers subtract what is printed."""
    assert is_within_published_spread(Summary(mean, None, 1), Summary(61.27, None, 3)) is within


def test_ranks_are_scipys():
    random = np.random.default_rng(1)
    for _ in range(20):
        values = random.integers(0, 6, 9) / 2  # with ties
        assert ranks(list(values)) == list(stats.rankdata(-values))


def test_means_that_differ_by_rounding_alone_share_their_place():
    assert ranks([98.5144, 98.51436666, 98.6, 98.5147]) == [3.5, 3.5, 1.0, 2.0]


def test_bootstrap_of_three_is_what_enumeration_gives():
    values = np.array([1.0, 2.0, 6.0])
    means = sorted(float(np.mean(each)) for each in itertools.product(values, repeat=3))
    # 27 equally likely means: the least has 1/27 = 3.7% of them, so both ends of 95% are the extremes.
    assert bootstrap_interval(values) == pytest.approx((means[0], means[-1]))
    # The middle 80% leaves 10% on each side: beyond (1), (1, 1, 2) three times, so (1, 2, 2) is not reached: 4/3.
    low, high = bootstrap_interval(values, 0.8)
    assert low == pytest.approx(4 / 3)
    assert high == pytest.approx(14 / 3)


def test_bootstrap_agrees_with_scipys():
    values = np.random.default_rng(3).normal(1.0, 2.0, 40)
    theirs = stats.bootstrap(
        (values,), np.mean, confidence_level=0.95, n_resamples=20_000, method="percentile", rng=5
    ).confidence_interval
    assert bootstrap_interval(values) == pytest.approx((theirs.low, theirs.high), abs=0.03)
    assert bootstrap_interval(values) == bootstrap_interval(values.copy())


def test_few_values_get_students_interval():
    first, second = np.array([62.0, 64.5, 63.0]), np.array([60.1, 61.9, 61.5])
    theirs = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert interval_of_mean(list(first - second)) == pytest.approx((theirs.low, theirs.high))
    assert interval_of_mean([3.0]) == (-math.inf, math.inf)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """Over draws of 3 and 5 from a normal; the plain bootstrap of 3 would hold it about 75 times in 100."""
    random = np.random.default_rng(11)
    for size in (3, 5):
        ends = np.array([interval_of_mean(list(random.normal(0.0, 1.0, size))) for _ in range(400)])
        assert np.mean((ends[:, 0] <= 0) & (ends[:, 1] >= 0)) >= 0.93


def test_one_noise_is_compared_over_seeds():
    first = {("sym-0.8", seed): value for seed, value in ((1, 62.0), (2, 64.5), (3, 63.0), (4, 99.0))}
    second = {("sym-0.8", seed): value for seed, value in ((1, 60.1), (2, 61.9), (3, 61.5))}
    found = compare(first, second)
    assert found.difference == pytest.approx((1.9 + 2.6 + 1.5) / 3)
    assert (found.pairs, found.noises, found.wins) == (3, 1, 3)
    assert found.is_supported


def test_several_noises_count_alike_and_are_the_units():
    """Noise a has three seeds at +6, noise b one at 0: the mean is 3, not 4.5; two units, so 1 df."""
    first = {("a", 1): 6.0, ("a", 2): 6.0, ("a", 3): 6.0, ("b", 1): 0.0}
    second = dict.fromkeys(first, 0.0)
    found = compare(first, second)
    assert found.difference == pytest.approx(3.0)
    theirs = stats.t.interval(0.95, 1, 3.0, math.sqrt(18) / math.sqrt(2))
    assert (found.low, found.high) == pytest.approx(theirs)
    assert not found.is_supported
    assert (found.pairs, found.noises, found.wins) == (4, 2, 3)


def test_nothing_shared_is_no_comparison_and_one_pair_supports_nothing():
    assert compare({("a", 1): 1.0}, {("a", 2): 1.0}) is None
    found = compare({("a", 1): 90.0}, {("a", 1): 10.0})
    assert found.difference == 80.0
    assert not found.is_supported


def test_published_numbers():
    assert published("cifar10", "anl-ce*", "asym-0.4") == Summary(
        81.47, published_std("ANL-CE*", "asym-0.4"), 3
    )
    assert published("webvision", "ANL-CE", "webvision-val").mean == 67.44
    assert published("clothing1m", "APL", "test") == Summary(69.07, None, 3)
    assert published("cifar10", "no such method", "clean") is None
    assert published("cifar10", "CE", "sym-0.55") is None
    assert published(None, "CE", "clean") is None
    assert len(published_tables()) == 7


def published_std(method, noise):
    from importlib import resources

    text = (resources.files("noiseproof.results") / "published.json").read_text()
    return json.loads(text)["tables"]["cifar10"][method][noise]["std"]


@pytest.mark.skipif(not SHARED.exists(), reason="the paper's tables are not beside this checkout")
def test_published_numbers_are_the_papers():
    paper = json.loads(SHARED.read_text())
    assert set(paper["tables"]) == set(published_tables())
    for table, rows in paper["tables"].items():
        for method, row in rows.items():
            for column, cell in row.items():
                found = published(table, method, column)
                assert (found.mean, found.std) == (cell["mean"], cell.get("std")), (table, method, column)
                assert found.n == len(paper["seeds"])
