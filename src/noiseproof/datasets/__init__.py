"""Real data: one type for all sets, :class:`LabeledData`, and one list of them.

Example:
    >>> from noiseproof import datasets
    >>> train = datasets.load("digits")
    >>> train.images.shape, train.labels.shape
    ((1438, 8, 8, 1), (1438,))
"""

from noiseproof.datasets import cifar10, digits, fashion_mnist  # noqa: F401 - each registers its source
from noiseproof.datasets.errors import (
    BadFileError,
    DataError,
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

__all__ = [
    "BadFileError",
    "DataError",
    "LabeledData",
    "NotInCacheError",
    "PrefixSource",
    "Source",
    "UnavailableError",
    "UnknownDataError",
    "get",
    "load",
    "prefix_sources",
    "register",
    "register_prefix",
    "sources",
]
