# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/reproduce.md say of our runs: how many seeds they have."""

from types import SimpleNamespace

import pytest

from noiseproof.results import Summary


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1, 1], "1 seed per cell"),
        ([3, 3], "3 seeds per cell"),
        ([2, 3], "2 to 3 seeds per cell"),
        ([1, 3, 1, 2], "1 to 3 seeds per cell (only one in 2 of 4)"),
    ],
)
def test_a_reader_is_told_how_many_seeds_a_cell_has(counts, expected, pages):
    summaries = [None, *(Summary(61.0, None, count) for count in counts)]
    table = SimpleNamespace(cells={i: SimpleNamespace(ours=ours) for i, ours in enumerate(summaries)})
    assert pages("evidence.summary").seeds_in_words(table) == expected
