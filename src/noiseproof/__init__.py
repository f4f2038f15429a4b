# SPDX-License-Identifier: Apache-2.0
"""Train accurate models on wrong labels.

The rooms stand in the order in which data flows. Each is imported when it is first used:

* :mod:`noiseproof.datasets` — the field's data sets and your own, checked and cached.
* :mod:`noiseproof.noise` — label noise, drawn as the literature draws it.
* :mod:`noiseproof.models` — networks by name, with seeded weights.
* :mod:`noiseproof.losses` — noise-robust losses, used like torch's own.
* :mod:`noiseproof.training` — from a recipe to a recorded run.
* :mod:`noiseproof.grids` — many runs: every method under every noise with every seed.
* :mod:`noiseproof.results` — recorded runs as numbers, beside the paper's.
* :mod:`noiseproof.report` — recorded runs as a page.
* :mod:`noiseproof.audit` — which labels are wrong, and how many.
* :mod:`noiseproof.planning` — which loss and which numbers for given data, with reasons.
* :mod:`noiseproof.sklearn` — a classifier of scikit-learn's kind.
* :mod:`noiseproof.integrations` — Lightning, Hugging Face, Keras, skorch and MONAI.

>>> import noiseproof
>>> noiseproof.losses.create("anl-ce", recipe="cifar100").reduction
'mean'
"""

from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"

__all__ = [
    "audit",
    "datasets",
    "grids",
    "integrations",
    "losses",
    "models",
    "noise",
    "planning",
    "report",
    "results",
    "sklearn",
    "training",
]


def __getattr__(name: str) -> ModuleType:
    """Import a room when it is first used: the command line answers ``--help`` without waiting for torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
