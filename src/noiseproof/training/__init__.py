# SPDX-License-Identifier: Apache-2.0
"""Training: one readable engine, from the embedded demo to the paper's recipes.

>>> from noiseproof.training import resolve
>>> resolve("cifar10", loss="anl-ce", noise="sym-0.8", seed=1).run_id[:-8]
'cifar10-sym-0.8-anl-ce-s1-'
"""

from typing import TYPE_CHECKING

from noiseproof.lazy import names_of

if TYPE_CHECKING:
    from noiseproof.training.config import Config, recipe_names, resolve
    from noiseproof.training.engine import NotFiniteError, train, train_pack
    from noiseproof.training.interruption import Interrupted
    from noiseproof.training.predict import TrainedModel, load_trained

__all__ = [
    "Config",
    "Interrupted",
    "NotFiniteError",
    "TrainedModel",
    "load_trained",
    "recipe_names",
    "resolve",
    "train",
    "train_pack",
]

# Reading records of runs must not wait for torch.
__getattr__, __dir__ = names_of(
    __name__,
    {
        "config": ("Config", "recipe_names", "resolve"),
        "engine": ("NotFiniteError", "train", "train_pack"),
        "interruption": ("Interrupted",),
        "predict": ("TrainedModel", "load_trained"),
    },
)
