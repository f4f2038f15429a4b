# SPDX-License-Identifier: Apache-2.0
"""Every reader of files as a fuzz target: bytes go in; an answer or one of our own errors must come out.

An error counts as ours when its class is one that the target names and a ``raise`` statement of noiseproof raised
it: a ``ValueError`` that escaped from a library is a defect, however fitting its class. Each file here holds the
readers of one room of the package.
"""

from targets import audit, datasets, models, noise, results, training
from targets.target import NotOurOwnError, Target, place_of, run, source
from targets.truth import CLEAN

__all__ = ["CLEAN", "TARGETS", "NotOurOwnError", "Target", "place_of", "run", "source"]

ROOMS = (audit, datasets, models, noise, results, training)
TARGETS = {target.name: target for room in ROOMS for target in room.TARGETS}
