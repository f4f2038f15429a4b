# SPDX-License-Identifier: Apache-2.0
"""A small real grid: handwritten digits, a few epochs, two methods."""

import pytest

from noiseproof.grids import load


@pytest.fixture
def small():
    """A function that narrows the grid of digits; runs take a fraction of a second."""

    def narrowed(methods=("ce", "anl-ce"), noises=("clean", "sym-0.4"), seeds=(1,), **settings):
        said = {"epochs": 2, "train_size": 200, "device": "cpu"} | settings
        return load("digits-table").narrowed(methods, noises, seeds, said)

    return narrowed
