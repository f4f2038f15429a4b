# SPDX-License-Identifier: Apache-2.0
"""How a table agrees with the paper as a whole, against simulated tables."""

import numpy as np
import pytest
from scipy import stats
from tests.results.making import gathered_of

from noiseproof.grids import load
from noiseproof.results import (
    Summary,
    agreement_of,
    chance_of_being_outside,
    is_within_published_spread,
    published,
    summarise,
    table_of,
)


def simulated(seeds, deviation, count, shift=0.0):
    random = np.random.default_rng(7)
    ours = random.normal(70.0 + shift, deviation, (count, seeds))
    paper = random.normal(70.0, deviation, (count, 3))
    return [(summarise(list(a)), summarise(list(b))) for a, b in zip(ours, paper, strict=True)]


def outside(pairs):
    return sum(not is_within_published_spread(ours, paper) for ours, paper in pairs)


@pytest.mark.parametrize("seeds", [1, 2, 3])
@pytest.mark.parametrize("deviation", [0.3, 2.0])
def test_the_chance_is_the_share_of_simulated_cells_that_are_outside(seeds, deviation):
    pairs = simulated(seeds, deviation, 4000)
    chance = chance_of_being_outside(seeds, Summary(70.0, deviation, 3))
    error = np.sqrt(chance * (1 - chance) / len(pairs))
    assert outside(pairs) / len(pairs) == pytest.approx(chance, abs=4 * error)


def test_with_one_seed_and_a_large_deviation_it_is_students():
    students = 2 * stats.t.sf(2, df=4)
    assert chance_of_being_outside(1, Summary(70.0, 1e6, 5)) == pytest.approx(students, abs=1e-3)


def test_a_deviation_that_is_not_published_leaves_nothing_to_chance():
    assert chance_of_being_outside(3, Summary(70.0, None, 3)) == 0.0
    assert chance_of_being_outside(3, Summary(70.0, 0.0, 3)) == 0.0


def test_a_table_that_leans_to_one_side_is_told_from_one_that_does_not():
    even, leaning = simulated(3, 1.0, 120), simulated(3, 1.0, 120, shift=-2.0)
    found, other = agreement_of(even, outside(even)), agreement_of(leaning, outside(leaning))
    assert found is not None
    assert other is not None
    assert abs(found.difference) < 3 * found.standard_error
    assert found.outside < 2 * found.by_chance
    assert other.difference < -2.0 + 3 * other.standard_error
    assert other.outside > 3 * other.by_chance
    assert str(other.cells) in str(other)


@pytest.mark.parametrize("seeds", [1, 3])
def test_runs_of_the_same_distribution_spread_as_the_published_deviations_make_them(seeds):
    """Also where these differ from cell to cell, and though each is of three runs only."""
    pairs = [pair for deviation in (0.1, 0.5, 3.0) for pair in simulated(seeds, deviation, 2000)]
    found = agreement_of(pairs, outside(pairs))
    assert found.spread_by_chance == pytest.approx(stats.t.ppf(0.75, df=2))
    assert found.spread == pytest.approx(found.spread_by_chance, abs=4 * 0.0244)  # of a median of 2,000
    twice = [(Summary(2 * ours.mean - paper.mean, None, seeds), paper) for ours, paper in pairs]
    assert agreement_of(twice, 0).spread == pytest.approx(2 * found.spread)


@pytest.mark.parametrize("cells", [10, 11, 120])
def test_the_chance_of_a_spread_is_the_share_of_simulated_tables_that_reach_it(cells):
    random = np.random.default_rng(3)
    tables = np.abs(random.standard_t(2, (4000, cells)))
    spread = 1.0
    pairs = [(Summary(70.0 + spread, None, 1), Summary(70.0, np.sqrt(3 / 4), 3))] * cells
    found = agreement_of(pairs, 0)
    assert found.spread == pytest.approx(spread)
    # At least half of the cells reach it; for an even number that is a little likelier than that the median does.
    reached = ((tables >= spread).sum(1) >= np.ceil(cells / 2)).mean()
    assert found.spread_chance == pytest.approx(
        reached, abs=4 * np.sqrt(reached * (1 - reached) / 4000) + 1e-12
    )
    assert f"with probability {found.spread_chance:.2g} if" in str(found)


def test_a_spread_that_chance_hardly_gives_is_said_to_be_so():
    far = [(Summary(75.0, None, 1), Summary(70.0, 0.3, 3))] * 50
    assert "with probability less than 0.001 if the cells were independent" in str(agreement_of(far, 50))


def test_one_cell_with_a_wide_deviation_does_not_decide_the_spread():
    near = [(Summary(70.1, None, 1), Summary(70.0, 0.1, 3))] * 20
    far = (Summary(90.0, None, 1), Summary(70.0, 30.0, 3))
    assert agreement_of([*near, far], 0).spread == agreement_of(near, 0).spread == pytest.approx(3**0.5 / 2)


def test_without_published_deviations_nothing_is_said_of_standard_errors():
    found = agreement_of([(Summary(70.1, None, 1), Summary(70.0, None, 3))] * 10, 0)
    assert found.spread is None
    assert found.spread_by_chance is None
    assert str(found).endswith("by at most 0.10; 0 are outside the published spread.")


def test_a_few_cells_are_not_summed_up():
    assert agreement_of(simulated(1, 1.0, 9), 0) is None


def test_cells_of_several_seeds_are_summed_up_apart_from_those_of_one():
    """Every method has its first seed exactly as published; APL and ANL-CE a second one 2 points above."""

    def accuracy(cell):
        repeated = cell.method.label in ("APL", "ANL-CE")
        if cell.seed > (2 if repeated else 1):
            return None
        return published(grid.published, cell.method.label, cell.noise).mean + 2.0 * (cell.seed - 1)

    grid = load("cifar10-table")
    table = table_of(gathered_of(grid, accuracy, epochs=2))
    assert table.agreement.cells == 120
    assert table.agreement.difference == pytest.approx(20 * 1.0 / 120)
    assert table.agreement_of_repeated_cells.cells == 20
    assert table.agreement_of_repeated_cells.difference == pytest.approx(1.0)
    once = table_of(gathered_of(grid, lambda cell: 60.0 if cell.seed == 1 else None, epochs=2))
    assert once.agreement_of_repeated_cells is None
    always = table_of(gathered_of(grid, epochs=2))
    assert always.agreement_of_repeated_cells is None
