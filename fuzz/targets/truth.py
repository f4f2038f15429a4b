# SPDX-License-Identifier: Apache-2.0
"""The true labels and masks that files of the corpus belong to."""

import numpy as np

CLEAN = np.array([0, 1, 2, 1])
"""The true labels that noise files of the corpus belong to."""

NAMES = ("ant", "bee", "=cat")
"""What their classes are called."""

CLEAN_MASKS = np.array([[[0, 0, 1, 1], [0, 1, 1, 0]], [[0, 0, 0, 0], [1, 1, 1, 1]]], dtype=np.uint8)
"""The true masks, likewise."""
