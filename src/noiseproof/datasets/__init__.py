# SPDX-License-Identifier: Apache-2.0
"""Real data: one type for all sets, :class:`LabeledData`, and one list of them.

Example:
    >>> from noiseproof import datasets
    >>> train = datasets.load("digits")
    >>> train.images.shape, train.labels.shape
    ((1438, 8, 8, 1), (1438,))
"""

# Each module of a data set registers its source; this is the order of `noiseproof data list`.
# isort: off
from noiseproof.datasets import digits  # noqa: F401
from noiseproof.datasets import fashion_mnist  # noqa: F401
from noiseproof.datasets import cifar10  # noqa: F401
from noiseproof.datasets import cifar100  # noqa: F401
from noiseproof.datasets.cifar_n import HumanLabels, human_labels
from noiseproof.datasets import webvision  # noqa: F401
from noiseproof.datasets import animal10n  # noqa: F401
from noiseproof.datasets import clothing1m  # noqa: F401
from noiseproof.datasets import isic2017  # noqa: F401
from noiseproof.datasets import blobs  # noqa: F401
from noiseproof.datasets import folders  # noqa: F401
from noiseproof.datasets import csv_file  # noqa: F401
from noiseproof.datasets import tuning  # noqa: F401
# isort: on

from noiseproof.datasets.errors import (
    BadFileError,
    DataError,
    NoSuchSplitError,
    NotInCacheError,
    UnavailableError,
    UnknownDataError,
)
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.registry import (
    PrefixSource,
    Source,
    get,
    load,
    prefix_sources,
    register,
    register_prefix,
    sources,
)
from noiseproof.datasets.splits import Split, load_split, tuning_split

__all__ = [
    "BadFileError",
    "DataError",
    "HumanLabels",
    "LabeledData",
    "NoSuchSplitError",
    "NotInCacheError",
    "PrefixSource",
    "Source",
    "Split",
    "UnavailableError",
    "UnknownDataError",
    "get",
    "human_labels",
    "load",
    "load_split",
    "prefix_sources",
    "register",
    "register_prefix",
    "sources",
    "tuning_split",
]
