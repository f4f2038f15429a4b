# SPDX-License-Identifier: Apache-2.0
"""Grids: methods × noises × seeds, one file for each table or figure; reading one needs no data.

>>> from noiseproof.grids import load
>>> grid = load("cifar10-table")
>>> len(grid.methods), len(grid.noises), len(grid.cells())
(12, 10, 360)
"""

from noiseproof.grids.checks import KINDS
from noiseproof.grids.files import load, names
from noiseproof.grids.grid import Cell, Grid, Method

__all__ = ["KINDS", "Cell", "Grid", "Method", "load", "names"]
