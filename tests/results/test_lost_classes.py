# SPDX-License-Identifier: Apache-2.0
"""Classes that a run gave up: found by what it predicts, told in tables and on the terminal."""

from dataclasses import replace

import pytest
from tests.results.making import gathered_of, grid_of

from noiseproof.results import lost_classes, table_of
from noiseproof.results.lost_classes import MOST_NAMED, named

TEN = 0.1


@pytest.fixture
def runs():
    return gathered_of(grid_of(("mae", "ce")))


def predicting(result, *shares):
    rest = (1 - sum(shares)) / (10 - len(shares))
    return replace(result, predicted_marginals=(*shares, *[rest] * (10 - len(shares))))


@pytest.mark.parametrize(("share", "expected"), [(0.0, ("0",)), (0.0099, ("0",)), (0.0101, ()), (TEN, ())])
def test_a_tenth_of_its_share_is_the_border(runs, share, expected):
    assert lost_classes(predicting(runs.results[0], share)) == expected


def test_its_share_is_that_among_the_labels(runs):
    """A class that labels hardly name is not lost because it is hardly predicted."""
    result = predicting(runs.results[0], 0.005)
    rare = [0.01, *[0.11] * 9]
    assert lost_classes(replace(result, noise_facts={"label_marginals": rare})) == ()


def test_they_are_called_by_their_names(runs):
    facts = runs.results[0].noise_facts | {"class_names": [*"abcdefghij"]}
    result = replace(predicting(runs.results[0], 0.2, 0.0, 0.3, 0.001), noise_facts=facts)
    assert lost_classes(result) == ("b", "d")


@pytest.mark.parametrize(
    "change", [{"predicted_marginals": None}, {"noise_facts": {}}], ids=lambda c: next(iter(c))
)
def test_what_is_not_on_record_is_not_lost(runs, change):
    assert lost_classes(replace(predicting(runs.results[0], 0.0), **change)) == ()


def test_many_are_not_all_named():
    assert named([f"c{k}" for k in range(MOST_NAMED)]).endswith(f", c{MOST_NAMED - 1}")
    assert named([f"c{k}" for k in range(MOST_NAMED + 3)]).endswith(f", c{MOST_NAMED - 1} and 3 more")


def test_names_that_are_not_those_of_all_classes_are_left_aside(runs):
    facts = runs.results[0].noise_facts | {"class_names": ["cat", "dog"]}
    losing = replace(predicting(runs.results[0], 0.2, 0.0), noise_facts=facts)
    assert named(lost_classes(losing)) == "class 1"


def test_a_table_tells_how_many_runs_lost_classes(runs):
    def notes(*results):
        changed = replace(runs, results=(*results, *runs.results[len(results) :]))
        return [note for note in table_of(changed).notes if "lost" in note]

    first, second, *_ = runs.results
    assert notes() == []
    (one,) = notes(predicting(first, 0.0))
    assert one.startswith("1 of 6 runs lost a class: its mean predicted probability is less than a tenth")
    (several,) = notes(predicting(first, 0.0), predicting(second, 0.0, 0.0, 0.0))
    assert several.startswith("2 of 6 runs lost a class (up to 3 in one run): ")
    unknown = replace(second, predicted_marginals=None)
    (known,) = notes(predicting(first, 0.0), unknown)
    assert known.startswith("1 of 5 runs whose predictions are on record lost a class: ")
