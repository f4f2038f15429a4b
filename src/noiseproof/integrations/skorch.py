# SPDX-License-Identifier: Apache-2.0
"""skorch: a classifier with a robust loss and the L1 penalty."""

from functools import partial
from typing import Any

import torch

from noiseproof.integrations import base_class, required
from noiseproof.losses import L1, record

_Callback: Any = base_class("Callback", "skorch.callbacks")


class L1Penalty(_Callback):  # type: ignore[misc]
    """Adds the gradient of ``δ·Σ |w|`` after every backward pass; put it before ``GradientNormClipping``.

    Args:
        strength: δ.
    """

    def __init__(self, strength: float = 0.0) -> None:
        required("skorch")
        self.strength = strength

    def on_grad_computed(self, net: Any, named_parameters: Any, **others: Any) -> None:
        """Add the penalty's gradient to that of every parameter."""
        L1(self.strength).add_to_gradients(p for _, p in named_parameters)


def robust_net(module: Any, loss: str = "anl-ce", l1: float = 0.0, **arguments: Any) -> Any:
    """A ``skorch.NeuralNetClassifier`` whose module ends in logits, with a loss of the catalogue.

    skorch takes a module's output for probabilities unless the criterion is one it knows, so the softmax is named
    here. Everything stays a parameter of the net: a grid search may vary ``criterion__alpha`` and
    ``callbacks__l1__strength``.

    Args:
        module: the network's class, or a network.
        loss: name in the catalogue.
        l1: δ of the L1 penalty.
        **arguments: everything else that ``NeuralNetClassifier`` takes, such as ``criterion__alpha=5.0``.
    """
    skorch = required("skorch")
    more = arguments.pop("callbacks", None) or []
    if isinstance(more, str):  # skorch's "disable", which would disable the penalty too
        raise ValueError(f"callbacks: expected a list of callbacks or None, got {more!r}")
    callbacks = [("l1", L1Penalty(l1)), *more]
    softmax = partial(torch.softmax, dim=1)
    return skorch.NeuralNetClassifier(
        module,
        criterion=record(loss).module,
        callbacks=callbacks,
        predict_nonlinearity=softmax,
        **arguments,
    )
