# SPDX-License-Identifier: Apache-2.0
"""Readers of what an audit is given: probabilities, and labels that were looked through."""

from pathlib import Path

import numpy as np

from targets.target import Target, written
from targets.truth import CLEAN, NAMES


def _probabilities(content: bytes, folder: Path) -> object:
    from noiseproof.audit.scores import score_labels
    from noiseproof.command_line.audit import _read_probabilities

    given = _read_probabilities(written(folder, "mine.npy", content))
    if given.ndim == 2 and given.shape[1] != len(NAMES):
        return None  # which the command refuses
    return score_labels(CLEAN, given).worst_first


def _review(content: bytes, folder: Path) -> object:
    from noiseproof.audit import apply_review
    from noiseproof.datasets import LabeledData

    data = LabeledData("photos", "train", CLEAN, NAMES, np.zeros((4, 2, 2, 3), np.uint8))
    return apply_review(data, written(folder, "reviewed.csv", content))


TARGETS = (
    Target(
        "probabilities",
        _probabilities,
        (
            "command_line/audit.py: _read_probabilities",
            "audit/checks.py: checked_labels checked_probabilities",
            "audit/scores.py: score_labels",
        ),
        ("ValueError", "TypeError"),
    ),
    Target("review", _review, ("audit/corrections.py",)),
)
