# SPDX-License-Identifier: Apache-2.0
"""``tuning:NAME``: the training data of a set, a tenth of it held out as the test split, to choose settings on.

The real test split is not touched. What is held out is the same for everyone (:func:`tuning_split`, seed 1) and has
its labels or masks as the data set has them: noise is drawn for the other nine tenths only.
"""

from dataclasses import replace
from pathlib import Path

from noiseproof.datasets.errors import NoSuchSplitError
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import PrefixSource, load, register_prefix
from noiseproof.datasets.splits import tuning_split

PREFIX = "tuning:"
SEED = 1


def read(name: Path, split: str) -> LabeledData:
    """Read one side of the split of a set's training data."""
    if split not in ("train", "test"):
        raise NoSuchSplitError(f"{PREFIX}{name} has the splits train and test, not {split!r}")
    data = load(str(name), "train")
    train, held_out = tuning_split(data, seed=SEED).apply(data)
    if split == "train":
        return replace(train, name=f"{PREFIX}{name}")
    return replace(held_out, name=f"{PREFIX}{name}", split="test")


register_prefix(
    PrefixSource(
        prefix=PREFIX.removesuffix(":"),
        description="a data set's training data, with a tenth held out as test split, for tuning",
        read=read,
        takes="NAME",
    )
)
