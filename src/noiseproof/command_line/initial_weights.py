# SPDX-License-Identifier: Apache-2.0
"""A remark on runs that start from random weights where the paper's do not: their results cannot be compared."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noiseproof.training.config import Config

FROM_IMAGENET = ("clothing1m",)
"""Data sets on which the paper starts from ImageNet's weights."""


def remark_on(configs: "Iterable[Config]", option: str) -> str | None:
    """What to say before such runs are trained; None where there are none.

    Args:
        configs: of the runs.
        option: how the user names a file of weights.

    Example:
        >>> from noiseproof.training import resolve
        >>> print(remark_on([resolve("clothing1m", loss="ce")], "--weights imagenet"))
        Random initial weights: on clothing1m the paper starts from ImageNet's. To do so, use --weights imagenet.
        >>> remark_on([resolve("cifar10", loss="ce")], "--weights imagenet")
    """
    random = [config for config in configs if config.dataset in FROM_IMAGENET and config.weights is None]
    if not random:
        return None
    dataset = random[0].dataset
    return f"Random initial weights: on {dataset} the paper starts from ImageNet's. To do so, use {option}."
