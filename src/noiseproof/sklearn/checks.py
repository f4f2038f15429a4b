# SPDX-License-Identifier: Apache-2.0
"""Checks of the estimator's parameters, made when it is fitted as scikit-learn asks."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from noiseproof.losses import available as losses
from noiseproof.losses import record
from noiseproof.losses.checks import unknown
from noiseproof.models import available

SUSPECTS = ("in-sample", "cross-validated")


def parameters(estimator: Any) -> None:
    """Check every parameter of a :class:`~noiseproof.sklearn.RobustClassifier`."""
    if record(estimator.loss).whole_images:
        raise ValueError(f"loss: {estimator.loss!r} is for segmentation, which this classifier does not do")
    for name in ("alpha", "beta", "l1", "weight_decay"):
        _number_or_auto(name, getattr(estimator, name), least=0.0, strictly=False)
    for name in ("alpha", "beta"):
        if getattr(estimator, name) != "auto" and name not in record(estimator.loss).defaults:
            having = ", ".join(each for each in losses() if name in record(each).defaults)
            raise ValueError(f"{name}: loss {estimator.loss!r} has none; those that have one: {having}")
    _number_or_auto("learning_rate", estimator.learning_rate, least=0.0, strictly=True)
    for name in ("epochs", "batch_size"):
        if getattr(estimator, name) != "auto":
            _integer(name, getattr(estimator, name), least=1)
    _hidden(estimator.hidden)
    device(estimator.device)
    _integer("patience", estimator.patience, least=1)
    _integer("folds", estimator.folds, least=2)
    if estimator.suspects not in SUSPECTS:
        raise ValueError(unknown("suspects", estimator.suspects, SUSPECTS))
    if isinstance(estimator.model, str):
        if estimator.model not in available():
            raise ValueError(unknown("model", estimator.model, available()))
    elif not callable(estimator.model) or hasattr(estimator.model, "parameters"):
        raise TypeError(
            "model: expected a name or a function (in_features, num_classes) that makes a network, got "
            f"{type(estimator.model).__name__}"
        )
    if not 0 < estimator.validation_fraction < 1:
        raise ValueError(
            f"validation_fraction: expected a number between 0 and 1, got {estimator.validation_fraction!r}"
        )
    weight = estimator.class_weight
    if not (weight is None or weight == "balanced" or isinstance(weight, Mapping)):
        raise ValueError(f"class_weight: expected None, 'balanced' or a mapping, got {weight!r}")


def device(name: Any) -> torch.device:
    """The device that a name stands for, if there is one."""
    if isinstance(name, str) and name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(name)
    except (RuntimeError, TypeError):
        raise ValueError(f"device: expected 'auto', 'cpu', 'cuda' or 'cuda:N', got {name!r}") from None
    if found.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(
                f"device: {str(found)!r} was asked for, but torch sees no CUDA device; say device='cpu' or 'auto'"
            )
        if (found.index or 0) >= torch.cuda.device_count():
            raise ValueError(
                f"device: {str(found)!r} was asked for, but there are {torch.cuda.device_count()}"
            )
    return found


@torch.no_grad()
def logits_of_one(network: nn.Module, sample: Tensor, num_classes: int) -> None:
    """Check, before hours of training, that a network makes logits (1, K) of one sample (1, …)."""
    network.eval()
    try:
        logits = network(sample)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise ValueError(
            f"model: the network does not read a sample of shape {tuple(sample.shape)}: {error}"
        ) from error
    if not isinstance(logits, Tensor) or logits.shape != (1, num_classes):
        came = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"model: expected logits of shape (1, {num_classes}) for one sample, a column a class, got {came}"
        )


def _hidden(widths: Any) -> None:
    if isinstance(widths, str) and widths == "auto":
        return
    if not isinstance(widths, tuple | list):
        raise TypeError(f"hidden: expected 'auto' or a tuple of widths, such as (100,), got {widths!r}")
    for width in widths:
        _integer("hidden", width, least=1)


def _number_or_auto(name: str, value: Any, least: float, strictly: bool) -> None:
    if isinstance(value, str) and value == "auto":
        return
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}: expected a number or 'auto', got {value!r}")
    number = float(value)
    if not (number > least if strictly else number >= least):
        raise ValueError(f"{name}: expected a number {'>' if strictly else '>='} {least:g}, got {value!r}")


def _integer(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}: expected an integer, got {value!r} of type {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name}: expected an integer >= {least}, got {value!r}")
