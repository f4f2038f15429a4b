# SPDX-License-Identifier: Apache-2.0
"""Finding wrong labels: a score for every sample, the noise rate, the transition matrix, and files for a review.

>>> import numpy as np
>>> from noiseproof.audit import audit
>>> given = np.array([0, 0, 0, 1, 1, 1] * 50)
>>> probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.2, 0.8], [0.1, 0.9], [0.1, 0.9]] * 50)
>>> found = audit(given, probabilities)
>>> found.worst_first[:3], found.suggested[2], round(found.noise_rate, 2)
(array([ 2,  8, 14]), np.int64(1), 0.17)
"""

from noiseproof.audit.corrections import Corrected, apply_review
from noiseproof.audit.front import audit
from noiseproof.audit.noise_rate import NoiseEstimate, estimate_noise
from noiseproof.audit.scores import DEFAULT_SCORE, SCORES, LabelAudit, score_labels

__all__ = [
    "DEFAULT_SCORE",
    "SCORES",
    "Corrected",
    "LabelAudit",
    "NoiseEstimate",
    "apply_review",
    "audit",
    "estimate_noise",
    "score_labels",
]
