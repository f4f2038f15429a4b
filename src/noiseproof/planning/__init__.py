# SPDX-License-Identifier: Apache-2.0
"""Planning: which loss and which numbers for given data, every one with its reason and what supports it.

>>> from noiseproof.planning import plan
>>> made = plan("digits", estimate=False)
>>> made["loss"].value, made["epochs"].value
('anl-ce', 60)
"""

from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "Choice": "choice",
    "Facts": "facts",
    "Noise": "facts",
    "NoiseGuess": "noise_guess",
    "Plan": "planner",
    "config_for": "planner",
    "decide": "deciding",
    "facts_of": "facts",
    "noise_of": "noise_guess",
    "plan": "planner",
    "rules": "deciding",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the estimator's numbers must not wait for the training engine."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
