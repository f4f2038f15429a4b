# SPDX-License-Identifier: Apache-2.0
"""Planning: which loss and which numbers for given data, every one with its reason and what supports it.

>>> from noiseproof.planning import plan
>>> made = plan("digits", estimate=False)
>>> made["loss"].value, made["epochs"].value
('anl-ce', 60)
"""

from typing import TYPE_CHECKING

from noiseproof.lazy import names_of

if TYPE_CHECKING:
    from noiseproof.planning.choice import Choice
    from noiseproof.planning.deciding import decide, rules
    from noiseproof.planning.facts import Facts, Noise, facts_of
    from noiseproof.planning.noise_guess import NoiseGuess, noise_of
    from noiseproof.planning.planner import Plan, config_for, plan

__all__ = [
    "Choice",
    "Facts",
    "Noise",
    "NoiseGuess",
    "Plan",
    "config_for",
    "decide",
    "facts_of",
    "noise_of",
    "plan",
    "rules",
]

# The estimator's numbers must not wait for the training engine.
__getattr__, __dir__ = names_of(
    __name__,
    {
        "choice": ("Choice",),
        "deciding": ("decide", "rules"),
        "facts": ("Facts", "Noise", "facts_of"),
        "noise_guess": ("NoiseGuess", "noise_of"),
        "planner": ("Plan", "config_for", "plan"),
    },
)
