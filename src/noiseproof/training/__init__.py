"""Training: one readable engine, from the embedded demo to the paper's recipes.

>>> from noiseproof.training import resolve
>>> resolve("cifar10", loss="anl-ce", noise="sym-0.8", seed=1).run_id[:-8]
'cifar10-sym-0.8-anl-ce-s1-'
"""

from noiseproof.training.config import Config, recipe_names, resolve
from noiseproof.training.engine import NotFiniteError, train, train_pack
from noiseproof.training.interruption import Interrupted

__all__ = ["Config", "Interrupted", "NotFiniteError", "recipe_names", "resolve", "train", "train_pack"]
