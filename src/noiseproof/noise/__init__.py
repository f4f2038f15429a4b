# SPDX-License-Identifier: Apache-2.0
"""Wrong labels of every kind, for one seed the same on every machine.

>>> import numpy as np
>>> from noiseproof import noise
>>> labels = np.arange(10).repeat(5_000)
>>> noisy = noise.symmetric(labels, rate=0.8, num_classes=10, seed=1)
>>> noisy.realised_rate, noisy.labels[:5]
(0.7992, array([5, 0, 4, 0, 4]))
"""

from noiseproof.noise.annotators import annotators
from noiseproof.noise.asymmetric import asymmetric, asymmetric_transition, from_transition
from noiseproof.noise.files import read_labels, read_masks
from noiseproof.noise.human import from_arrays, from_file
from noiseproof.noise.instance_dependent import instance_dependent
from noiseproof.noise.masks import NoisyMasks, corrupt_masks
from noiseproof.noise.names import NoiseName, parse_name, short_name
from noiseproof.noise.open_set import open_set, with_outside_images
from noiseproof.noise.own import draw_own, register
from noiseproof.noise.record import NoisyLabels, fingerprint
from noiseproof.noise.symmetric import symmetric, symmetric_transition

__all__ = [
    "NoiseName",
    "NoisyLabels",
    "NoisyMasks",
    "annotators",
    "asymmetric",
    "asymmetric_transition",
    "corrupt_masks",
    "draw_own",
    "fingerprint",
    "from_arrays",
    "from_file",
    "from_transition",
    "instance_dependent",
    "open_set",
    "parse_name",
    "read_labels",
    "read_masks",
    "register",
    "short_name",
    "symmetric",
    "symmetric_transition",
    "with_outside_images",
]
