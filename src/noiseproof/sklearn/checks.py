# SPDX-License-Identifier: Apache-2.0
"""Checks of the estimator's parameters, made when it is fitted as scikit-learn asks."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from noiseproof.losses import record
from noiseproof.losses.checks import unknown
from noiseproof.models import available

SUSPECTS = ("in-sample", "cross-validated")


def parameters(estimator: Any) -> None:
    """Check every parameter of a :class:`~noiseproof.sklearn.RobustClassifier`."""
    record(estimator.loss)
    for name in ("alpha", "beta", "l1", "weight_decay"):
        _number_or_auto(name, getattr(estimator, name), least=0.0, strictly=False)
    _number_or_auto("learning_rate", estimator.learning_rate, least=0.0, strictly=True)
    for name in ("epochs", "batch_size"):
        if getattr(estimator, name) != "auto":
            _integer(name, getattr(estimator, name), least=1)
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
