"""Wrong labels of every kind, for one seed the same on every machine."""

from noiseproof.noise.asymmetric import asymmetric, asymmetric_transition, from_transition
from noiseproof.noise.instance_dependent import instance_dependent
from noiseproof.noise.record import NoisyLabels, fingerprint
from noiseproof.noise.symmetric import symmetric, symmetric_transition

__all__ = [
    "NoisyLabels",
    "asymmetric",
    "asymmetric_transition",
    "fingerprint",
    "from_transition",
    "instance_dependent",
    "symmetric",
    "symmetric_transition",
]
